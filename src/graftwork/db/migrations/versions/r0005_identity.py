"""Identity: the semantic digest of versions; base models as records of their own, and their checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DIGEST = sa.String(71)

SQLITE_TRIGGERS = (
    "CREATE TRIGGER versions_semantic_digest_frozen BEFORE UPDATE OF semantic_digest ON versions "
    "BEGIN SELECT RAISE(ABORT, 'a version is immutable but for its stage'); END",
    *(
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
        for table in ("bases", "checkpoints")
        for change in ("UPDATE", "DELETE")
    ),
)
POSTGRESQL_TRIGGERS = (
    "CREATE TRIGGER versions_semantic_digest_frozen BEFORE UPDATE OF semantic_digest ON versions FOR EACH ROW "
    "EXECUTE FUNCTION graftwork_refuse('a version is immutable but for its stage')",
    *(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW "
        f"EXECUTE FUNCTION graftwork_refuse('{table} are append-only')"
        for table in ("bases", "checkpoints")
    ),
)


def upgrade() -> None:
    op.add_column("versions", sa.Column("semantic_digest", DIGEST, nullable=True))
    op.create_index("ix_versions_tenant_adapter_semantic_digest", "versions", ["tenant", "adapter", "semantic_digest"])
    _bases()
    _checkpoints()
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    for trigger in SQLITE_TRIGGERS if on_sqlite else POSTGRESQL_TRIGGERS:
        op.execute(trigger)


def _bases() -> None:
    op.create_table(
        "bases",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=True),
        sa.Column("architecture", sa.Text(), nullable=False),
        sa.Column("weights_digest", DIGEST, nullable=False),
        sa.Column("outline_digest", DIGEST, nullable=False),
        sa.Column("config_digest", DIGEST, nullable=True),
        sa.Column("tokenizer_digest", DIGEST, nullable=True),
        sa.Column("template_digest", DIGEST, nullable=True),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", "sequence", name="pk_bases"),
        sa.UniqueConstraint("tenant", "name", "digest", name="uq_bases_tenant_name_digest"),
    )


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("base", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "base", "sequence", name="pk_checkpoints"),
        sa.ForeignKeyConstraint(
            ["tenant", "base", "sequence"],
            ["bases.tenant", "bases.name", "bases.sequence"],
            name="fk_checkpoints_bases",
        ),
    )
