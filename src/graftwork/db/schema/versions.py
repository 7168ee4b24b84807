"""Adapters, their versions and pointers, and base models."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from graftwork.db.schema.ground import Count, Digest, Name, Timestamp, metadata

adapters = Table(
    "adapters",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("last_sequence", Count, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("display_name", Text, nullable=False, server_default=""),
    Column("description", Text, nullable=False, server_default=""),
    PrimaryKeyConstraint("tenant", "name"),
)

#: Immutable but for the stage, and once it is marked as deleted wholly; triggers refuse any other UPDATE.
versions = Table(
    "versions",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("semver", String(64), nullable=False),
    Column("digest", Digest, nullable=False),
    Column("manifest", Text, nullable=False),  # canonical JSON
    Column("stage", String(16), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("base", Text, nullable=False),
    Column("base_digest", Digest, nullable=False),
    Column("rank", Count, nullable=False),
    Column("bytes", Count, nullable=False),
    Column("metadata", Text, nullable=False),  # canonical JSON
    Column("account", Text, nullable=False),  # canonical JSON
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("semantic_digest", Digest, nullable=True),  # none of versions that are older than the column
    Column("deleted_at", Timestamp, nullable=True),
    PrimaryKeyConstraint("tenant", "adapter", "sequence"),
    ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"]),
    UniqueConstraint("tenant", "adapter", "semver"),  # deleted ones too: a number is never given again
    Index(
        "ix_versions_live_digest",
        "tenant",
        "adapter",
        "digest",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
    ),
    Index(None, "tenant", "adapter", "semantic_digest"),
    Index(
        "ix_versions_one_production",
        "tenant",
        "adapter",
        unique=True,
        # Only SQLite's word for it (the migration has PostgreSQL's too): naming another dialect here would import
        # that dialect (20 ms) at every start.
        sqlite_where=text("stage = 'production'"),
    ),
    # Searches go through versions in one of these orders; the first holds all that filters ask of a version itself, so
    # that the long rows are not read.
    Index(
        "ix_versions_search",
        *("tenant", "created_at", "adapter", "sequence", "stage", "kind", "base", "base_digest", "rank", "bytes"),
        *("created_by", "deleted_at"),
    ),
    Index("ix_versions_rank", "tenant", "rank", "adapter", "sequence"),
    Index("ix_versions_bytes", "tenant", "bytes", "adapter", "sequence"),
    Index("ix_versions_digest", "tenant", "digest"),
)

aliases = Table(
    "aliases",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("alias", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "alias"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
)

#: What base models are, each as often as its content changed; append-only.
bases = Table(
    "bases",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("sequence", Count, nullable=False),  # 1, 2, … of its name
    Column("digest", Digest, nullable=False),  # of its weights, config, tokenizer and template together
    Column("source", Text, nullable=False),
    Column("revision", Text, nullable=True),
    Column("architecture", Text, nullable=False),
    Column("weights_digest", Digest, nullable=False),
    Column("outline_digest", Digest, nullable=False),
    Column("config_digest", Digest, nullable=True),
    Column("tokenizer_digest", Digest, nullable=True),
    Column("template_digest", Digest, nullable=True),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name", "sequence"),
    UniqueConstraint("tenant", "name", "digest"),
)

#: The files of a base, where they are kept in the artifact store; append-only.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("base", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("digest", Digest, nullable=False),  # of the manifest
    Column("manifest", Text, nullable=False),  # canonical JSON
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "base", "sequence"),
    ForeignKeyConstraint(["tenant", "base", "sequence"], ["bases.tenant", "bases.name", "bases.sequence"]),
)
