"""Promoted arms: ended rollouts say which arm was promoted; and ids of records are compared byte by byte.

A promoted rollout had given everybody back to the arm `stable`. Its state says now whom the route was made to mean, and
its event has said so all the time.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

ROLLOUTS = sa.table("rollouts", *map(sa.column, ("tenant", "route", "revision", "status", "state")))
EVENTS = sa.table("events", *map(sa.column, ("position", "tenant", "subject", "kind", "payload")))


def upgrade() -> None:
    bind = op.get_bind()
    ended = bind.execute(sa.select(ROLLOUTS).where(ROLLOUTS.c.status == "promoted")).all()
    for tenant, route in sorted({(row.tenant, row.route) for row in ended}):
        promoted = _promoted(bind, tenant, route)
        for row in ended:
            if (row.tenant, row.route) == (tenant, route) and row.revision in promoted:
                state = {**json.loads(row.state), "slices": [[promoted[row.revision], 0, 1]]}
                told = json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                bind.execute(sa.update(ROLLOUTS).where(*_is(row)).values(state=told))
    if bind.dialect.name == "postgresql":
        op.execute('ALTER TABLE predictions ALTER COLUMN request_id TYPE varchar(64) COLLATE "C"')


def _promoted(bind: sa.Connection, tenant: str, route: str) -> dict[int, str]:
    """The arms that rollouts of a route promoted, by revision."""
    about = EVENTS.c.tenant == tenant, EVENTS.c.subject == f"rollouts/{route}", EVENTS.c.kind == "rollout.promoted"
    payloads = bind.execute(sa.select(EVENTS.c.payload).where(*about)).scalars()
    return {told["revision"]: told["arm"] for told in map(json.loads, payloads)}


def _is(row: sa.Row[tuple[str, str, int, str, str]]) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        ROLLOUTS.c.tenant == row.tenant,
        ROLLOUTS.c.route == row.route,
        ROLLOUTS.c.revision == row.revision,
    )
