"""Lineage: nodes and the edges between them, append-only; of versions that are there already, their bases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


NODES_OF_VERSIONS = """
    INSERT INTO lineage_nodes (tenant, number, kind, name, digest, created_at)
    SELECT tenant, row_number() OVER (PARTITION BY tenant ORDER BY kind, name, digest), kind, name, digest, created_at
    FROM (
        SELECT tenant, 'version' AS kind, digest AS name, '' AS digest, min(created_at) AS created_at
        FROM versions GROUP BY tenant, versions.digest
        UNION ALL
        SELECT tenant, 'base', base, base_digest, min(created_at) FROM versions GROUP BY tenant, base, base_digest
    ) AS found
"""
BASES_OF_VERSIONS = """
    INSERT INTO lineage_edges (tenant, source, role, target, created_at, created_by)
    SELECT v.tenant, s.number, 'based_on', t.number, min(v.created_at), min(v.created_by)
    FROM versions v
    JOIN lineage_nodes s ON s.tenant = v.tenant AND s.kind = 'version' AND s.name = v.digest AND s.digest = ''
    JOIN lineage_nodes t ON t.tenant = v.tenant AND t.kind = 'base' AND t.name = v.base AND t.digest = v.base_digest
    GROUP BY v.tenant, s.number, t.number
"""


def upgrade() -> None:
    op.create_table(
        "lineage_nodes",
        sa.Column("tenant", _text(128), nullable=False),
        sa.Column("number", COUNT, nullable=False),
        sa.Column("kind", _text(16), nullable=False),
        sa.Column("name", _text(1024), nullable=False),
        sa.Column("digest", _text(160), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "number", name="pk_lineage_nodes"),
        sa.UniqueConstraint("tenant", "kind", "name", "digest", name="uq_lineage_nodes_tenant_kind_name_digest"),
    )
    op.create_table(
        "lineage_edges",
        sa.Column("tenant", _text(128), nullable=False),
        sa.Column("source", COUNT, nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("target", COUNT, nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "source", "role", "target", name="pk_lineage_edges"),
        sa.ForeignKeyConstraint(
            ["tenant", "source"], ["lineage_nodes.tenant", "lineage_nodes.number"], name="fk_lineage_edges_source"
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "target"], ["lineage_nodes.tenant", "lineage_nodes.number"], name="fk_lineage_edges_target"
        ),
    )
    op.create_index(
        "ix_lineage_edges_tenant_target_role_source", "lineage_edges", ["tenant", "target", "role", "source"]
    )
    op.execute(NODES_OF_VERSIONS)
    op.execute(BASES_OF_VERSIONS)
    for table in ("lineage_nodes", "lineage_edges"):
        _make_append_only(table)


def _make_append_only(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'lineage is append-only'); END"
            )
        return
    refuse = "EXECUTE FUNCTION graftwork_refuse('lineage is append-only')"
    op.execute(f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {refuse}")
    op.execute(f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refuse}")
