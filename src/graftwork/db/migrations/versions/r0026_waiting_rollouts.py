"""Waiting rollouts: what candidates wait for that are not in memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("rollouts", sa.Column("waits_for", sa.Text, nullable=True))
