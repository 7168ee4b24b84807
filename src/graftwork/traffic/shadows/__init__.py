"""What became of copies of requests: how a version would have answered beside the one that did, pair by pair."""
