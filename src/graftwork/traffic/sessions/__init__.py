"""sessions: a conversation keeps the version that it began with, on each route, while that may answer there."""
