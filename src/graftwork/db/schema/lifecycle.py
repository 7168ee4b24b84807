"""What may serve, what may go, and what must stay."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, PrimaryKeyConstraint, String, Table, Text

from graftwork.db.schema.ground import Count, Name, Timestamp, metadata

#: Who approved or rejected which version; append-only, triggers refuse UPDATE and DELETE.
approvals = Table(
    "approvals",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its version
    Column("verdict", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
)

#: The versions that should no longer be used.
deprecations = Table(
    "deprecations",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("message", Text, nullable=False),
    Column("until", Timestamp, nullable=True),
    Column("deprecated_at", Timestamp, nullable=False),
    Column("deprecated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
)

#: What is demanded of versions, by tenant and, where it is one adapter's own, by adapter.
policies = Table(
    "policies",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),  # "" for the whole tenant
    Column("spec", Text, nullable=False),  # canonical JSON
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter"),
)

#: Legal holds; append-only. One without a sequence number is of the whole adapter.
holds = Table(
    "holds",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its tenant
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=True),
    Column("reason", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "number"),
    ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"]),
)

#: Which of them are over; append-only.
hold_releases = Table(
    "hold_releases",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("number", Count, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "number"),
    ForeignKeyConstraint(["tenant", "number"], ["holds.tenant", "holds.number"]),
)

#: What may go, by adapter; "" is all adapters of the tenant that have no rules of their own.
retention_rules = Table(
    "retention_rules",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("spec", Text, nullable=False),  # canonical JSON
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter"),
)
