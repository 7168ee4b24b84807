"""What versions came from, and what was added to them."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, PrimaryKeyConstraint, String, Table, Text, UniqueConstraint

from graftwork.db.schema.ground import Count, Digest, Name, Timestamp, bytewise, metadata

#: What lineage speaks of, by a number that edges name it by; triggers refuse UPDATE and DELETE, here and of edges.
lineage_nodes = Table(
    "lineage_nodes",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("number", Count, nullable=False),
    Column("kind", bytewise(16), nullable=False),
    Column("name", bytewise(1024), nullable=False),
    Column("digest", bytewise(160), nullable=False),  # "" where nothing pins the name to one content
    Column("created_at", Timestamp, nullable=False),
    PrimaryKeyConstraint("tenant", "number"),
    UniqueConstraint("tenant", "kind", "name", "digest"),
)

#: That `source` stands on `target`.
lineage_edges = Table(
    "lineage_edges",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("source", Count, nullable=False),
    Column("role", String(32), nullable=False),
    Column("target", Count, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "source", "role", "target"),
    ForeignKeyConstraint(
        ["tenant", "source"], ["lineage_nodes.tenant", "lineage_nodes.number"], name="fk_lineage_edges_source"
    ),
    ForeignKeyConstraint(
        ["tenant", "target"], ["lineage_nodes.tenant", "lineage_nodes.number"], name="fk_lineage_edges_target"
    ),
    Index(None, "tenant", "target", "role", "source"),  # the primary key leads upstream, this one downstream
)

#: Companions that were added to a version after its push; append-only.
documents = Table(
    "documents",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its version
    Column("kind", String(24), nullable=False),
    Column("name", String(255), nullable=False),
    Column("revision", Count, nullable=False),  # 1, 2, … of its kind and name
    Column("media_type", String(127), nullable=False),
    Column("size", Count, nullable=False),
    Column("digest", Digest, nullable=False),
    Column("note", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number"),
    UniqueConstraint("tenant", "adapter", "sequence", "kind", "name", "revision"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
)

#: Who vouches for the files of a version: each was verified before it was recorded. Append-only.
signatures = Table(
    "signatures",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("adapter", Name, nullable=False),
    Column("sequence", Count, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its version
    Column("fingerprint", Digest, nullable=False),  # of the public key
    Column("algorithm", String(16), nullable=False),
    Column("public_key", Text, nullable=False),  # PEM
    Column("bundle", Digest, nullable=False),  # of the file that holds the signature
    Column("size", Count, nullable=False),  # of that file
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "adapter", "sequence", "number"),
    UniqueConstraint("tenant", "adapter", "sequence", "bundle"),
    ForeignKeyConstraint(
        ["tenant", "adapter", "sequence"], ["versions.tenant", "versions.adapter", "versions.sequence"]
    ),
)
