"""Routes: names under which requests are answered by rules; their revisions, and which rule a request meets."""
