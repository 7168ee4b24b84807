"""What filters and words find versions by, and what was measured of them."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from graftwork.db.schema.ground import Bytewise, Count, Digest, Name, Timestamp, metadata

#: What was measured of a version; only added to: a trigger refuses UPDATE.
evaluations = Table(
    "evaluations",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its version
    Column("family", String(16), nullable=False),
    Column("name", Name, nullable=False),
    Column("split", String(16), nullable=False),  # "" where it is of no split
    Column("source", String(16), nullable=False),
    Column("comparable", Digest, nullable=False),  # of what it was measured on: the same for what can be compared
    Column("supersedes", Count, nullable=True),  # number of the one that it corrects
    Column("blobs", Text, nullable=False),  # canonical JSON: digests of the files that belong to it
    Column("body", Text, nullable=False),  # canonical JSON: all of it
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence", "supersedes"],
        ["evaluations.tenant", "evaluations.adapter", "evaluations.sequence", "evaluations.number"],
    ),
    UniqueConstraint("tenant", "adapter", "sequence", "supersedes"),  # there is one newest form of each
)

#: The numbers in evaluations. What a metric of a version is now, is its value in the last evaluation that has it.
metrics = Table(
    "metrics",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("number", Count, nullable=False),
    Column("name", Name, nullable=False),
    Column("value", Float(53), nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number", "name"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence", "number"],
        ["evaluations.tenant", "evaluations.adapter", "evaluations.sequence", "evaluations.number"],
    ),
    Index("ix_metrics_last", "tenant", "adapter", "sequence", "name", "number", "value"),
    Index("ix_metrics_value", "tenant", "name", "value", "adapter", "sequence", "number"),
)

#: What filters can ask of a version and is no column of it: metadata and configuration, key by key. Made of the
#: version when it is pushed, and can be made again.
facts = Table(
    "facts",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("key", Bytewise, nullable=False),
    Column("text", Bytewise, nullable=False),
    Column("number", Float(53)),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "key", "text"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
    Index("ix_facts_text", "tenant", "key", "text", "adapter", "sequence"),
    Index("ix_facts_number", "tenant", "key", "number", "adapter", "sequence"),
)

#: What somebody said of a version, or in row 0 of an adapter, after it was pushed.
tags = Table(
    "tags",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("key", Name, nullable=False),
    Column("text", Bytewise, nullable=False),
    Column("number", Float(53)),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "key"),
    ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"]),
    Index("ix_tags_text", "tenant", "key", "text", "adapter", "sequence"),
    Index("ix_tags_number", "tenant", "key", "number", "adapter", "sequence"),
)

#: The words of a version, or in row 0 of an adapter. SQLite finds them by the table `texts_fts`, which triggers keep;
#: PostgreSQL by an index that only its migration names.
texts = Table(
    "texts",
    metadata,
    Column("id", Count, primary_key=True),
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("words", Text, nullable=False),
    ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"]),
    UniqueConstraint("tenant", "adapter", "sequence"),
)
