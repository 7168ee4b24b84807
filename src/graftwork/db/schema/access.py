"""Who may ask, and where events are sent."""

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

from graftwork.db.schema.ground import Count, Name, Timestamp, metadata

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
    Column("default_route", Text, nullable=True),
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
    Column("default_route", Text, nullable=True),
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
