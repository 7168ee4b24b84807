"""registry: stores versions; SQL lives beside its noun, decisions are pure."""
