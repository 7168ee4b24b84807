"""documents: companions of a version, those that lay in its bundle and those that came after its push."""
