"""Resources: what routes and tasks had tables of their own for, and analysis templates have none yet, is in two."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

KIND = sa.String(16)
NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
APPEND_ONLY = "resource_revisions are append-only"
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER resource_revisions_no_{change} BEFORE {change} ON resource_revisions "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        for change in ("update", "delete")
    ),
    "postgresql": (
        "CREATE TRIGGER resource_revisions_append_only BEFORE UPDATE OR DELETE ON resource_revisions FOR EACH ROW "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
        "CREATE TRIGGER resource_revisions_no_truncate BEFORE TRUNCATE ON resource_revisions FOR EACH STATEMENT "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
    ),
}
REVISION = "number, digest, spec, reason, created_at, created_by"
POINTER = "tenant, name, revision, updated_at, updated_by"
#: Of each kind: its word, its old tables, and what the name was called in the first.
OLD = (("task", "task_revisions", "name", "tasks"), ("route", "route_revisions", "route", "routes"))


def upgrade() -> None:
    op.create_table(
        "resource_revisions",
        sa.Column("kind", KIND, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "tenant", "name", "number", name="pk_resource_revisions"),
    )
    op.create_table(
        "resources",
        sa.Column("kind", KIND, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", COUNT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "tenant", "name", name="pk_resources"),
        sa.ForeignKeyConstraint(
            ["kind", "tenant", "name", "revision"],
            [f"resource_revisions.{column}" for column in ("kind", "tenant", "name", "number")],
            name="fk_resources_resource_revisions",
        ),
    )
    for kind, revisions, named, pointers in OLD:
        op.execute(
            f"INSERT INTO resource_revisions (kind, tenant, name, {REVISION}) "
            f"SELECT '{kind}', tenant, {named}, {REVISION} FROM {revisions}"
        )
        op.execute(f"INSERT INTO resources (kind, {POINTER}) SELECT '{kind}', {POINTER} FROM {pointers}")
        op.drop_table(pointers)
        op.drop_table(revisions)
    for trigger in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(trigger)
