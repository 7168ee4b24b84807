"""The schema: every table, in one place, as the newest migration leaves it.

Every row carries its tenant. SQL that reads or writes a table lives beside the noun it belongs to, not here.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
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
HEAD = "0018"

NAMING = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
}

metadata = MetaData(naming_convention=NAMING)
Count = BigInteger().with_variant(Integer, "sqlite")


def bytewise(length: int) -> String:
    """Text that is compared byte by byte: by a language's rules, PostgreSQL would sort "a-b" as if it were "ab"."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


Name = bytewise(128)
Bytewise = Text().with_variant(Text(collation="C"), "postgresql")
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

#: Every content that a task had; append-only.
task_revisions = Table(
    "task_revisions",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its name
    Column("digest", Digest, nullable=False),  # of the spec
    Column("spec", Text, nullable=False),  # JSON, in the order that it was given in: answers follow that of a schema
    Column("reason", Text, nullable=True),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name", "number"),
    UniqueConstraint("tenant", "name", "digest"),
)

#: Which of them each name means.
tasks = Table(
    "tasks",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("revision", Count, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
    ForeignKeyConstraint(
        ["tenant", "name", "revision"], ["task_revisions.tenant", "task_revisions.name", "task_revisions.number"]
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
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "revision", "number"),
    ForeignKeyConstraint(["tenant", "route", "revision"], ["rollouts.tenant", "rollouts.route", "rollouts.revision"]),
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

#: Every revision of every route; append-only, triggers refuse UPDATE and DELETE.
route_revisions = Table(
    "route_revisions",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("route", Name, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its route, never given twice
    Column("digest", Digest, nullable=False),
    Column("spec", Text, nullable=False),  # canonical JSON
    Column("reason", Text, nullable=True),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "number"),
)

#: Which of them is live.
routes = Table(
    "routes",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("revision", Count, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
    ForeignKeyConstraint(
        ["tenant", "name", "revision"],
        ["route_revisions.tenant", "route_revisions.route", "route_revisions.number"],
    ),
)

#: One answered request each. They go after the days that their tenant keeps them for, and by their user's wish.
predictions = Table(
    "predictions",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("at", Timestamp, nullable=False),  # when the request came
    Column("position", Count, nullable=False),  # of the last event that its decision knew
    Column("door", String(64), nullable=False),
    Column("principal", Text, nullable=False),
    Column("key_id", Text, nullable=True),
    Column("user_id", Text, nullable=True),
    Column("session_id", Text, nullable=True),
    Column("asked", Text, nullable=True),  # the name that the caller gave
    Column("task", Text, nullable=True),  # by its name and revision
    Column("adapter", Text, nullable=True),  # who answered, without version; None: nobody was chosen
    Column("model", Text, nullable=True),
    Column("digest", Digest, nullable=True),  # None: the base, or nobody
    Column("adapters", Text, nullable=False),  # JSON: the versions that took part, with their scales
    Column("base_digest", Digest, nullable=True),
    Column("template_digest", Digest, nullable=True),  # None: the base's chat template, or none
    Column("route", Text, nullable=True),
    Column("route_revision", Count, nullable=True),
    Column("rollout", Text, nullable=True),
    Column("arm", Text, nullable=True),
    Column("decision", Text, nullable=True),
    Column("engine", Text, nullable=False),
    Column("sampling", Text, nullable=False),  # JSON
    Column("streamed", Boolean, nullable=False),
    Column("choices", Count, nullable=False),
    Column("prompt_tokens", Count, nullable=False),
    Column("output_tokens", Count, nullable=False),
    Column("cached_tokens", Count, nullable=False),
    Column("queue_s", Float(53), nullable=True),
    Column("ttft_s", Float(53), nullable=True),
    Column("latency_s", Float(53), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("status", Count, nullable=False),
    Column("error", Text, nullable=True),
    Column("finish_reason", String(16), nullable=True),
    Column("mean_logprob", Float(53), nullable=True),
    Column("empty", Boolean, nullable=False),
    Column("repetitive", Boolean, nullable=False),
    Column("refusal", Boolean, nullable=False),
    Column("format_valid", Boolean, nullable=True),
    Column("prompt_hash", String(96), nullable=True),
    Column("answer_hash", String(96), nullable=True),
    PrimaryKeyConstraint("tenant", "request_id"),
    Index(None, "tenant", "at", "request_id"),
    Index(None, "tenant", "route", "at"),
    Index(None, "tenant", "user_id"),
)

#: What was said, where a tenant wants it kept: sealed under the tenant's key.
prediction_texts = Table(
    "prediction_texts",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("sealed", Text, nullable=False),  # base64
    PrimaryKeyConstraint("tenant", "request_id"),
    ForeignKeyConstraint(["tenant", "request_id"], ["predictions.tenant", "predictions.request_id"]),
    Index(None, "tenant", "at"),
)

#: What came of an answer: a score or a business event, one of each name and source.
feedback = Table(
    "feedback",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("source", String(64), nullable=False),
    Column("value", Float(53), nullable=True),
    Column("label", Text, nullable=True),
    Column("at", Timestamp, nullable=False),
    Column("by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "request_id", "name", "source"),
    ForeignKeyConstraint(["tenant", "request_id"], ["predictions.tenant", "predictions.request_id"]),
)

#: What was used, by day in UTC: sums that stay when their records go.
usage_days = Table(
    "usage_days",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("day", String(10), nullable=False),
    Column("adapter", Bytewise, nullable=False),
    Column("requests", Count, nullable=False),
    Column("errors", Count, nullable=False),  # of these
    Column("prompt_tokens", Count, nullable=False),
    Column("output_tokens", Count, nullable=False),
    Column("cached_tokens", Count, nullable=False),
    Column("seconds", Float(53), nullable=False),
    PrimaryKeyConstraint("tenant", "day", "adapter"),
)

#: How a tenant wants its answers recorded, and what its hashes are keyed with where there is no keyring.
recordings = Table(
    "recordings",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("spec", Text, nullable=False),  # canonical JSON
    Column("secret", Text, nullable=False),  # base64
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant"),
)

#: What is set for tenants; `local` is one without a row, too.
tenants = Table(
    "tenants",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("home_region", Text, nullable=False),
    Column("weight", Float, nullable=False),
    Column("quotas", Text, nullable=False),  # canonical JSON
    Column("salt", String(64), nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant"),
)

#: People of a tenant.
users = Table(
    "users",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("role", String(16), nullable=False),
    Column("display_name", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
)

#: API keys, of which the secret is not here.
api_keys = Table(
    "api_keys",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("id", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("scopes", Text, nullable=False),  # separated by blanks
    Column("user", Name, nullable=True),
    Column("family", String(16), nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Timestamp, nullable=True),
    Column("revoked_at", Timestamp, nullable=True),
    Column("hash", String(64), nullable=False),
    PrimaryKeyConstraint("tenant", "id"),
    UniqueConstraint("id"),
)

#: What a tenant lets another do with its adapters.
grants = Table(
    "grants",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("id", String(16), nullable=False),
    Column("grantee", Name, nullable=False),
    Column("pattern", Name, nullable=False),
    Column("verbs", Text, nullable=False),  # separated by blanks
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "id"),
    UniqueConstraint("tenant", "grantee", "pattern"),
)

#: Where events are sent, and which.
webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("id", String(32), nullable=False),  # tells it from an earlier one of the same name
    Column("url", Text, nullable=False),
    Column("events", Text, nullable=False),  # canonical JSON
    Column("subjects", Text, nullable=False),  # canonical JSON
    Column("secret", Text, nullable=False),  # sealed where there is a keyring
    Column("previous_secret", Text, nullable=True),
    Column("previous_until", Timestamp, nullable=True),
    Column("cursor", Count, nullable=False),  # all events up to this position are queued
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
)

#: What is to be sent to a webhook, and what was; settled ones are kept for a while.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("webhook", Name, nullable=False),
    Column("number", Count, nullable=False),  # 1, 2, … of its webhook
    Column("id", String(36), nullable=False),  # the same for every attempt
    Column("kind", Text, nullable=False),
    Column("position", Count, nullable=True),  # of the event; NULL: a test
    Column("status", String(16), nullable=False),  # pending, delivered or failed
    Column("attempts", Count, nullable=False),
    Column("queued_at", Timestamp, nullable=False),
    Column("due_at", Timestamp, nullable=False),
    Column("attempted_at", Timestamp, nullable=True),
    Column("answered", Count, nullable=True),  # status of the last answer
    Column("error", Text, nullable=True),
    PrimaryKeyConstraint("tenant", "webhook", "number"),
    UniqueConstraint("tenant", "webhook", "position"),
    ForeignKeyConstraint(["tenant", "webhook"], ["webhooks.tenant", "webhooks.name"]),
    Index(None, "status", "due_at"),
)
