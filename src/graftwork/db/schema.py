"""The schema: every table, in one place, as the newest migration leaves it.

Every row carries its tenant. SQL that reads or writes a table lives beside the noun it belongs to, not here.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

#: The revision that this code reads and writes; a test holds it to the newest file in `migrations/versions`.
HEAD = "0011"

NAMING = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
}

metadata = MetaData(naming_convention=NAMING)
Count = BigInteger().with_variant(Integer, "sqlite")
# Compared byte by byte everywhere: by a language's rules, PostgreSQL would sort "a-b" as if it were "ab".
Name = String(128).with_variant(String(128, collation="C"), "postgresql")
Digest = String(71)  # "sha256:" and 64 hex digits
Timestamp = String(27)  # RFC 3339, UTC, microseconds: its order as text is its order in time

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

adapters = Table(
    "adapters",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("last_sequence", Count, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
)

#: Immutable but for the stage; a trigger refuses any other UPDATE.
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
    PrimaryKeyConstraint("tenant", "adapter", "sequence"),
    ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"]),
    UniqueConstraint("tenant", "adapter", "semver"),
    UniqueConstraint("tenant", "adapter", "digest"),
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

#: What was measured of a version; never changed, only added to.
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
    Column("body", Text, nullable=False),  # canonical JSON: all of it
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
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
    Index(None, "tenant", "name", "value"),
)
