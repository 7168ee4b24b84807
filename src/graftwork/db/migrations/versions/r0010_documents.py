"""Documents and signatures: what is added to a version after its push, and never changed or taken away."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DIGEST = sa.String(71)
OF_A_VERSION = ["tenant", "adapter", "sequence"]
TABLES = ("documents", "signatures")


def upgrade() -> None:
    op.create_table(
        "documents",
        *_of_a_version(),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("revision", COUNT, nullable=False),
        sa.Column("media_type", sa.String(127), nullable=False),
        sa.Column("size", COUNT, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        *_stamps(),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "number", name="pk_documents"),
        sa.UniqueConstraint(
            *OF_A_VERSION, "kind", "name", "revision", name="uq_documents_tenant_adapter_sequence_kind_name_revision"
        ),
        _version("fk_documents_versions"),
    )
    op.create_table(
        "signatures",
        *_of_a_version(),
        sa.Column("fingerprint", DIGEST, nullable=False),
        sa.Column("algorithm", sa.String(16), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("bundle", DIGEST, nullable=False),
        sa.Column("size", COUNT, nullable=False),
        *_stamps(),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "number", name="pk_signatures"),
        sa.UniqueConstraint(*OF_A_VERSION, "bundle", name="uq_signatures_tenant_adapter_sequence_bundle"),
        _version("fk_signatures_versions"),
    )
    for statement in _sqlite() if op.get_bind().dialect.name == "sqlite" else _postgresql():
        op.execute(statement)


def _of_a_version() -> list[sa.Column[Any]]:
    return [
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("number", COUNT, nullable=False),
    ]


def _stamps() -> list[sa.Column[Any]]:
    return [
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
    ]


def _version(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(OF_A_VERSION, [f"versions.{column}" for column in OF_A_VERSION], name=name)


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
