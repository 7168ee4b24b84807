"""What decides who answers: routes, tasks, templates, and rollouts."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from graftwork.db.schema.ground import Count, Digest, Name, Timestamp, metadata

#: Every content that a named resource had: a route, a task, an analysis template; append-only.
resource_revisions = Table(
    "resource_revisions",
    metadata,
    Column("kind", String(16), nullable=False),
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its name, never given twice
    Column("digest", Digest, nullable=False),  # of the spec
    Column("spec", Text, nullable=False),  # JSON; of tasks in the order that it was given in, else canonical
    Column("reason", Text, nullable=True),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("kind", "tenant", "name", "number"),
)

#: Which of them each name means.
resources = Table(
    "resources",
    metadata,
    Column("kind", String(16), nullable=False),
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("revision", Count, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("kind", "tenant", "name"),
    ForeignKeyConstraint(
        ["kind", "tenant", "name", "revision"],
        [f"resource_revisions.{column}" for column in ("kind", "tenant", "name", "number")],
    ),
)

#: What moves a route from one version to another. One of a route is live at most: the one that has not ended.
rollouts = Table(
    "rollouts",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("route", Name, nullable=False),
    Column("revision", Count, nullable=False),  # 1, 2, … of its route
    Column("spec", Text, nullable=False),  # canonical JSON
    Column("status", String(16), nullable=False),
    Column("state", Text, nullable=False),  # canonical JSON
    Column("changes", Count, nullable=False),  # how many there were: who decides on a state names it by this
    Column("analyses", Text, nullable=True),  # canonical JSON: how each arm stood at the last look
    Column("waits_for", Text, nullable=True),  # what candidates that are not in memory waited for at the last look
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp, nullable=True),
    PrimaryKeyConstraint("tenant", "route", "revision"),
    Index("ix_rollouts_one_live", "tenant", "route", unique=True, sqlite_where=text("ended_at IS NULL")),
)

#: The versions that a rollout is about, by arm; append-only.
rollout_arms = Table(
    "rollout_arms",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("route", Name, nullable=False),
    Column("revision", Count, nullable=False),
    Column("arm", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "revision", "arm"),
    ForeignKeyConstraint(["tenant", "route", "revision"], ["rollouts.tenant", "rollouts.route", "rollouts.revision"]),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
    Index(None, "tenant", "adapter", "sequence"),
)

#: What happened to a rollout; append-only.
rollout_steps = Table(
    "rollout_steps",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("route", Name, nullable=False),
    Column("revision", Count, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its rollout
    Column("kind", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("before", Text, nullable=True),  # canonical JSON
    Column("after", Text, nullable=False),  # canonical JSON
    Column("evidence", Text, nullable=True),  # canonical JSON: what gates said, where they decided it
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "revision", "number"),
    ForeignKeyConstraint(["tenant", "route", "revision"], ["rollouts.tenant", "rollouts.route", "rollouts.revision"]),
)
