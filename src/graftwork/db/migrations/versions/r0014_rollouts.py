"""Rollouts, their arms and changes, of which the last two are append-only; and leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
OF_A_ROLLOUT = ["tenant", "route", "revision"]
OF_A_VERSION = ["tenant", "adapter", "sequence"]
TABLES = ("rollout_arms", "rollout_steps")
LIVE = sa.text("ended_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "rollouts",
        *_of_a_rollout(),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("changes", COUNT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("ended_at", TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint(*OF_A_ROLLOUT, name="pk_rollouts"),
    )
    op.create_index(
        "ix_rollouts_one_live", "rollouts", ["tenant", "route"], unique=True, sqlite_where=LIVE, postgresql_where=LIVE
    )
    op.create_table(
        "rollout_arms",
        *_of_a_rollout(),
        sa.Column("arm", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_ROLLOUT, "arm", name="pk_rollout_arms"),
        _rollouts_key("rollout_arms"),
        sa.ForeignKeyConstraint(
            OF_A_VERSION, [f"versions.{column}" for column in OF_A_VERSION], name="fk_rollout_arms_versions"
        ),
    )
    op.create_index("ix_rollout_arms_tenant_adapter_sequence", "rollout_arms", OF_A_VERSION)
    op.create_table(
        "rollout_steps",
        *_of_a_rollout(),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_ROLLOUT, "number", name="pk_rollout_steps"),
        _rollouts_key("rollout_steps"),
    )
    op.create_table(
        "leases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", COUNT, nullable=False),
        sa.Column("expires_s", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    for statement in _sqlite() if op.get_bind().dialect.name == "sqlite" else _postgresql():
        op.execute(statement)


def _of_a_rollout() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("route", NAME, nullable=False),
        sa.Column("revision", COUNT, nullable=False),
    ]


def _rollouts_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        OF_A_ROLLOUT, [f"rollouts.{column}" for column in OF_A_ROLLOUT], name=f"fk_{table}_rollouts"
    )


def _sqlite() -> list[str]:
    return [
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
        for table in TABLES
        for change in ("UPDATE", "DELETE")
    ]


def _postgresql() -> list[str]:
    refuse = "EXECUTE FUNCTION graftwork_refuse('{table} are append-only')"
    triggers = (
        "CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW " + refuse,
        "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT " + refuse,
    )
    return [trigger.format(table=table) for table in TABLES for trigger in triggers]
