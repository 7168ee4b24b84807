"""The event log, and what several servers share."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, PrimaryKeyConstraint, String, Table, Text, UniqueConstraint

from graftwork.db.schema.ground import Count, Digest, Name, Timestamp, metadata

#: Append-only, hash-chained; triggers refuse UPDATE and DELETE.
events = Table(
    "events",
    metadata,
    Column("position", Count, autoincrement=False, nullable=False),
    Column("tenant", Name, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("actor", Text, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("payload", Text, nullable=False),  # canonical JSON
    Column("previous", Digest, nullable=False),
    Column("hash", Digest, nullable=False),
    PrimaryKeyConstraint("position"),
    UniqueConstraint("previous"),  # two events cannot follow the same one: the chain never forks
    UniqueConstraint("hash"),
    Index(None, "tenant", "subject", "position"),
    Index(None, "tenant", "position"),
)

#: What requests that carried an Idempotency-Key were answered with.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("key", String(255), nullable=False),
    Column("fingerprint", Digest, nullable=False),
    Column("answer", Text, nullable=False),  # canonical JSON
    Column("created_at", Timestamp, nullable=False),
    PrimaryKeyConstraint("tenant", "key"),
    Index(None, "created_at"),
)

#: Which of several servers does what one must do; of no tenant.
leases = Table(
    "leases",
    metadata,
    Column("name", Name, nullable=False),
    Column("holder", Text, nullable=False),
    Column("epoch", Count, nullable=False),  # grows with each change of hands
    Column("expires_s", Float(53), nullable=False),  # since 1970, by the database's clock
    PrimaryKeyConstraint("name"),
)
