"""What sessions keep to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "session_pins",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("route", BYTEWISE, nullable=False),
        sa.Column("rule", NAME, nullable=False),
        sa.Column("adapter", sa.Text(), nullable=True),
        sa.Column("digest", sa.String(71), nullable=True),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=True),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.String(27), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session", "route", "rule", name="pk_session_pins"),
    )
    op.create_index("ix_session_pins_tenant_expires_at", "session_pins", ["tenant", "expires_at"])
    op.create_index("ix_session_pins_tenant_user_id", "session_pins", ["tenant", "user_id"])
