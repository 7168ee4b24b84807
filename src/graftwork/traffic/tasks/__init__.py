"""Tasks: what is asked under a name, of whom and how, and what comes of the answer."""
