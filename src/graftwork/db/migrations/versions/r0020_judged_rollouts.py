"""Judged rollouts: how their arms stand, and what gates said where they decided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("rollouts", sa.Column("analyses", sa.Text(), nullable=True))
    op.add_column("rollout_steps", sa.Column("evidence", sa.Text(), nullable=True))
