"""Packages: how files travel together outside of any store: as a folder or as a tar, read without trusting either."""
