"""registry: stores versions; SQL lives beside its noun, decisions are pure."""

from graftwork.registry.reference import Reference, parse_reference
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import Snapshot, SnapshotReader
from graftwork.registry.versions import Version

__all__ = ["Reference", "Registry", "Snapshot", "SnapshotReader", "Version", "parse_reference"]
