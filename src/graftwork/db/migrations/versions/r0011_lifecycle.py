"""Lifecycle: approvals, which are append-only, deprecations and policies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
OF_A_VERSION = ["tenant", "adapter", "sequence"]
APPEND_ONLY = "approvals are append-only"
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER approvals_no_{change} BEFORE {change} ON approvals "
        f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        for change in ("update", "delete")
    ),
    "postgresql": (
        "CREATE TRIGGER approvals_append_only BEFORE UPDATE OR DELETE ON approvals FOR EACH ROW "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
        "CREATE TRIGGER approvals_no_truncate BEFORE TRUNCATE ON approvals FOR EACH STATEMENT "
        f"EXECUTE FUNCTION graftwork_refuse('{APPEND_ONLY}')",
    ),
}


def upgrade() -> None:
    op.create_table(
        "approvals",
        *_of_a_version(),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "number", name="pk_approvals"),
        _versions_key("approvals"),
    )
    op.create_table(
        "deprecations",
        *_of_a_version(),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("until", TIMESTAMP, nullable=True),
        sa.Column("deprecated_at", TIMESTAMP, nullable=False),
        sa.Column("deprecated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, name="pk_deprecations"),
        _versions_key("deprecations"),
    )
    op.create_table(
        "policies",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "adapter", name="pk_policies"),
    )
    for trigger in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(trigger)


def _of_a_version() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
    ]


def _versions_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        OF_A_VERSION, [f"versions.{column}" for column in OF_A_VERSION], name=f"fk_{table}_versions"
    )
