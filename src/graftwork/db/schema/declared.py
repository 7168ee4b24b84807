"""What documents have made."""

from __future__ import annotations

from sqlalchemy import Column, PrimaryKeyConstraint, String, Table

from graftwork.db.schema.ground import Digest, Name, Timestamp, bytewise, metadata

#: Which set of documents a resource was applied with, so that pruning takes away nothing else.
applied_resources = Table(
    "applied_resources",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("name", bytewise(300), nullable=False),  # of a grant, whom it is to and what it is of
    Column("applied_set", Name, nullable=False),
    Column("digest", Digest, nullable=False),  # of the spec that it was left with
    Column("applied_at", Timestamp, nullable=False),
    PrimaryKeyConstraint("tenant", "kind", "name"),
)
