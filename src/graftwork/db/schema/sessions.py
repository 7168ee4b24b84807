"""What conversations keep to."""

from __future__ import annotations

from sqlalchemy import Column, Index, PrimaryKeyConstraint, String, Table, Text

from graftwork.db.schema.ground import Bytewise, Count, Digest, Name, Timestamp, metadata

#: The version that a session keeps to on a route. They go when nobody has come back for a while, and by their user's
#: wish.
session_pins = Table(
    "session_pins",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("session", String(64), nullable=False),  # a hash of whose it is and its id
    Column("route", Bytewise, nullable=False),
    Column("rule", Name, nullable=False),  # "": the route has none
    Column("adapter", Text, nullable=True),  # NULL: the base
    Column("digest", Digest, nullable=True),
    Column("arm", Text, nullable=False),
    Column("rollout", Text, nullable=True),
    Column("number", Count, nullable=False),  # 1, and one more each time that it was released
    Column("user_id", Text, nullable=True),
    Column("expires_at", Timestamp, nullable=False),
    PrimaryKeyConstraint("tenant", "session", "route", "rule"),
    Index(None, "tenant", "expires_at"),
    Index(None, "tenant", "user_id"),
)
