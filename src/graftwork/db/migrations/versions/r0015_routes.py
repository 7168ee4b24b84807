"""Routes: their revisions, which are append-only, and which one is live."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
APPEND_ONLY = "route_revisions are append-only"
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER route_revisions_no_{change} BEFORE {change} ON route_revisions "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        for change in ("update", "delete")
    ),
    "postgresql": (
        "CREATE TRIGGER route_revisions_append_only BEFORE UPDATE OR DELETE ON route_revisions FOR EACH ROW "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
        "CREATE TRIGGER route_revisions_no_truncate BEFORE TRUNCATE ON route_revisions FOR EACH STATEMENT "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
    ),
}


def upgrade() -> None:
    op.create_table(
        "route_revisions",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("route", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "route", "number", name="pk_route_revisions"),
    )
    op.create_table(
        "routes",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", COUNT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_routes"),
        sa.ForeignKeyConstraint(
            ["tenant", "name", "revision"],
            ["route_revisions.tenant", "route_revisions.route", "route_revisions.number"],
            name="fk_routes_route_revisions",
        ),
    )
    for trigger in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(trigger)
