"""Tenants, users, API keys and grants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
TIMESTAMP = sa.String(27)


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("home_region", sa.Text(), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("quotas", sa.Text(), nullable=False),
        sa.Column("salt", sa.String(64), nullable=False),
        *_made(),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenants"),
    )
    op.create_table(
        "users",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        *_made(),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_users"),
    )
    op.create_table(
        "api_keys",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("user", NAME, nullable=True),
        sa.Column("family", sa.String(16), nullable=False),
        *_made(),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
        sa.Column("revoked_at", TIMESTAMP, nullable=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_api_keys"),
        sa.UniqueConstraint("id", name="uq_api_keys_id"),
    )
    op.create_table(
        "grants",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("grantee", NAME, nullable=False),
        sa.Column("pattern", NAME, nullable=False),
        sa.Column("verbs", sa.Text(), nullable=False),
        *_made(),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_grants"),
        sa.UniqueConstraint("tenant", "grantee", "pattern", name="uq_grants_tenant_grantee_pattern"),
    )


def _made() -> list[sa.Column[str]]:
    return [
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
    ]
