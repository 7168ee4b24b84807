"""Evaluations: what was measured of a version, and the numbers among it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OF_A_VERSION = ["tenant", "adapter", "sequence"]
#: Rows may go with their version; while they are there, they are what was written.
TRIGGERS = {
    "sqlite": "CREATE TRIGGER {table}_frozen BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{why}'); END",
    "postgresql": "CREATE TRIGGER {table}_frozen BEFORE UPDATE ON {table} FOR EACH ROW "
    "EXECUTE FUNCTION graftwork_refuse('{why}')",
}


def upgrade() -> None:
    op.create_table(
        "evaluations",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("family", sa.String(16), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("split", sa.String(16), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("comparable", sa.String(71), nullable=False),
        sa.Column("supersedes", COUNT, nullable=True),
        sa.Column("blobs", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "number", name="pk_evaluations"),
        sa.ForeignKeyConstraint(
            OF_A_VERSION, [f"versions.{column}" for column in OF_A_VERSION], name="fk_evaluations_versions"
        ),
        sa.ForeignKeyConstraint(
            [*OF_A_VERSION, "supersedes"],
            [f"evaluations.{column}" for column in (*OF_A_VERSION, "number")],
            name="fk_evaluations_evaluations",
        ),
        sa.UniqueConstraint(*OF_A_VERSION, "supersedes", name="uq_evaluations_tenant_adapter_sequence_supersedes"),
    )
    op.create_table(
        "metrics",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "number", "name", name="pk_metrics"),
        sa.ForeignKeyConstraint(
            [*OF_A_VERSION, "number"],
            [f"evaluations.{column}" for column in (*OF_A_VERSION, "number")],
            name="fk_metrics_evaluations",
        ),
    )
    op.create_index("ix_metrics_tenant_name_value", "metrics", ["tenant", "name", "value"])
    for table in ("evaluations", "metrics"):
        trigger = TRIGGERS[op.get_bind().dialect.name]
        op.execute(trigger.format(table=table, why="evaluations are append-only: add one that supersedes it"))
