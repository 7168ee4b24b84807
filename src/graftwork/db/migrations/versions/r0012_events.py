"""Events: a tenant's in order, without sorting them for each page."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_index("ix_events_tenant_position", "events", ["tenant", "position"])
