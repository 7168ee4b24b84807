"""retention: what keeps versions, how they are deleted, and the collection of bytes that nobody wants any more."""
