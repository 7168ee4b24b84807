"""Webhooks, and what is to be sent to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("subjects", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("previous_secret", sa.Text(), nullable=True),
        sa.Column("previous_until", TIMESTAMP, nullable=True),
        sa.Column("cursor", COUNT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_webhooks"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("webhook", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("position", COUNT, nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", COUNT, nullable=False),
        sa.Column("queued_at", TIMESTAMP, nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("attempted_at", TIMESTAMP, nullable=True),
        sa.Column("answered", COUNT, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "webhook", "number", name="pk_webhook_deliveries"),
        sa.UniqueConstraint("tenant", "webhook", "position", name="uq_webhook_deliveries_tenant_webhook_position"),
        sa.ForeignKeyConstraint(
            ["tenant", "webhook"], ["webhooks.tenant", "webhooks.name"], name="fk_webhook_deliveries_webhooks"
        ),
    )
    op.create_index("ix_webhook_deliveries_status_due_at", "webhook_deliveries", ["status", "due_at"])
