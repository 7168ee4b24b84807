"""Which set of documents a resource was applied with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def bytewise(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "applied_resources",
        sa.Column("tenant", bytewise(128), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("name", bytewise(300), nullable=False),
        sa.Column("applied_set", bytewise(128), nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("applied_at", sa.String(27), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", "name", name="pk_applied_resources"),
    )
