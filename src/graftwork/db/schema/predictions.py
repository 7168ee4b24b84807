"""What is known of answers."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKeyConstraint, Index, PrimaryKeyConstraint, String, Table, Text

from graftwork.db.schema.ground import Bytewise, Count, Digest, Name, Timestamp, bytewise, metadata

#: One answered request each. They go after the days that their tenant keeps them for, and by their user's wish.
predictions = Table(
    "predictions",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", bytewise(64), nullable=False),
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

#: How a version would have answered beside the one that did; they go with the records of their requests.
shadow_diffs = Table(
    "shadow_diffs",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("arm", Name, nullable=False),
    Column("at", Timestamp, nullable=False),  # when the request came
    Column("door", String(64), nullable=False),
    Column("route", Text, nullable=False),
    Column("rollout", Text, nullable=False),
    Column("user_id", Text, nullable=True),
    Column("model", Text, nullable=False),  # the version that answered
    Column("digest", Digest, nullable=False),
    Column("shadow_model", Text, nullable=False),
    Column("shadow_digest", Digest, nullable=False),
    Column("outcome", String(16), nullable=False),  # of the copy
    Column("error", Text, nullable=True),
    Column("sampled", Boolean, nullable=False),
    Column("exact", Boolean, nullable=True),  # None from here on: there was nothing to compare, or it is not known
    Column("normalised", Boolean, nullable=True),
    Column("similarity", Float(53), nullable=True),
    Column("length_ratio", Float(53), nullable=True),
    Column("latency_s", Float(53), nullable=True),
    Column("shadow_latency_s", Float(53), nullable=True),
    Column("shadow_ttft_s", Float(53), nullable=True),
    Column("output_tokens", Count, nullable=False),
    Column("shadow_prompt_tokens", Count, nullable=True),
    Column("shadow_output_tokens", Count, nullable=False),
    Column("mean_logprob", Float(53), nullable=True),
    Column("shadow_mean_logprob", Float(53), nullable=True),
    Column("finish_reason", String(16), nullable=True),
    Column("shadow_finish_reason", String(16), nullable=True),
    Column("empty", Boolean, nullable=False),
    Column("repetitive", Boolean, nullable=False),
    Column("refusal", Boolean, nullable=False),
    Column("answer_hash", String(96), nullable=True),
    Column("shadow_hash", String(96), nullable=True),
    PrimaryKeyConstraint("tenant", "request_id", "arm"),
    Index(None, "tenant", "at", "request_id"),
    Index(None, "tenant", "route", "at"),
    Index(None, "tenant", "user_id"),
)

#: What copies said, where a tenant wants texts kept: sealed under the tenant's key.
shadow_texts = Table(
    "shadow_texts",
    metadata,
    Column("tenant", Name, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("arm", Name, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("sealed", Text, nullable=False),  # base64
    PrimaryKeyConstraint("tenant", "request_id", "arm"),
    ForeignKeyConstraint(
        ["tenant", "request_id", "arm"], ["shadow_diffs.tenant", "shadow_diffs.request_id", "shadow_diffs.arm"]
    ),
    Index(None, "tenant", "at"),
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
