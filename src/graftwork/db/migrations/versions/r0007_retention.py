"""Retention: versions can be deleted, legal holds keep them, rules let them go."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0005"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
APPEND_ONLY = ("holds", "hold_releases")
#: A deleted version's row stays as it was, so that its number is never given again and whatever speaks of it can.
GONE = "a deleted version stays as it was"
KEPT = "rows of versions stay; a deleted one is marked"
ONE_DIGEST = "uq_versions_tenant_adapter_digest"


def upgrade() -> None:
    op.add_column("versions", sa.Column("deleted_at", TIMESTAMP, nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        _drop_constraint_on_sqlite()
    else:
        op.drop_constraint(ONE_DIGEST, "versions")
    live = sa.text("deleted_at IS NULL")
    op.create_index(
        "ix_versions_live_digest",
        "versions",
        ["tenant", "adapter", "digest"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    _holds()
    _rules()
    for statement in _triggers(op.get_bind().dialect.name):
        op.execute(statement)


def _drop_constraint_on_sqlite() -> None:
    """SQLite drops no constraint: the table is made anew under its name, with all that hangs on it.

    While it is gone, rows of other tables point nowhere; each row that comes back settles its own.
    """
    sqlite = op.get_bind().exec_driver_sql
    made = sqlite("SELECT type, sql FROM sqlite_master WHERE tbl_name = 'versions' AND sql IS NOT NULL").all()
    (table,) = (sql for kind, sql in made if kind == "table")
    without, found = re.subn(rf",\s*CONSTRAINT {ONE_DIGEST} UNIQUE \([^)]*\)", "", table)
    assert found == 1, "the first migration has made it"
    sqlite("PRAGMA defer_foreign_keys = ON")
    sqlite("CREATE TABLE versions_before AS SELECT * FROM versions")
    sqlite("DROP TABLE versions")
    sqlite(without)
    sqlite("INSERT INTO versions SELECT * FROM versions_before")
    sqlite("DROP TABLE versions_before")
    for kind, sql in made:
        if kind != "table":
            sqlite(sql)


def _holds() -> None:
    op.create_table(
        "holds",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "number", name="pk_holds"),
        sa.ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"], name="fk_holds_adapters"),
    )
    op.create_table(
        "hold_releases",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "number", name="pk_hold_releases"),
        sa.ForeignKeyConstraint(["tenant", "number"], ["holds.tenant", "holds.number"], name="fk_hold_releases_holds"),
    )


def _rules() -> None:
    op.create_table(
        "retention_rules",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "adapter", name="pk_retention_rules"),
    )


def _triggers(database: str) -> list[str]:
    if database == "sqlite":
        return [
            f"CREATE TRIGGER versions_gone BEFORE UPDATE ON versions WHEN OLD.deleted_at IS NOT NULL "
            f"BEGIN SELECT RAISE(ABORT, '{GONE}'); END",
            f"CREATE TRIGGER versions_kept BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, '{KEPT}'); END",
            *(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
                for table in APPEND_ONLY
                for change in ("UPDATE", "DELETE")
            ),
        ]
    refuse = "FOR EACH ROW EXECUTE FUNCTION graftwork_refuse"
    return [
        "CREATE TRIGGER versions_gone BEFORE UPDATE ON versions FOR EACH ROW WHEN (OLD.deleted_at IS NOT NULL) "
        f"EXECUTE FUNCTION graftwork_refuse('{GONE}')",
        f"CREATE TRIGGER versions_kept BEFORE DELETE ON versions {refuse}('{KEPT}')",
        *(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} {refuse}('{table} are append-only')"
            for table in APPEND_ONLY
        ),
    ]
