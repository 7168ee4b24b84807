"""Decides who answers: pure functions over the snapshot."""
