"""backup: a registry and its artifacts as a folder, made while they are in use, and put back whole."""

from graftwork.registry.backup.make import back_up
from graftwork.registry.backup.restoration import check, restore
from graftwork.registry.backup.summary import Summary

__all__ = ["Summary", "back_up", "check", "restore"]
