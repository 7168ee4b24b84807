"""What a request means that names nothing, by its key or its tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    for table in ("tenants", "api_keys"):
        op.add_column(table, sa.Column("default_route", sa.Text(), nullable=True))
