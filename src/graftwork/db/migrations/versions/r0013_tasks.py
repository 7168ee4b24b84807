"""Tasks: their revisions, which are append-only, and which of them each name means."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
APPEND_ONLY = "task_revisions are append-only"
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER task_revisions_no_{change} BEFORE {change} ON task_revisions "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        for change in ("update", "delete")
    ),
    "postgresql": (
        "CREATE TRIGGER task_revisions_append_only BEFORE UPDATE OR DELETE ON task_revisions FOR EACH ROW "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
        "CREATE TRIGGER task_revisions_no_truncate BEFORE TRUNCATE ON task_revisions FOR EACH STATEMENT "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
    ),
}


def upgrade() -> None:
    op.create_table(
        "task_revisions",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", "number", name="pk_task_revisions"),
        sa.UniqueConstraint("tenant", "name", "digest", name="uq_task_revisions_tenant_name_digest"),
    )
    op.create_table(
        "tasks",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", COUNT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_tasks"),
        sa.ForeignKeyConstraint(
            ["tenant", "name", "revision"],
            ["task_revisions.tenant", "task_revisions.name", "task_revisions.number"],
            name="fk_tasks_task_revisions",
        ),
    )
    for trigger in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(trigger)
