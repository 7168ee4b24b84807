"""The first schema: events, adapters, versions, aliases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
DIGEST = sa.String(71)
TIMESTAMP = sa.String(27)

FROZEN_COLUMNS = (
    "tenant, adapter, sequence, semver, digest, manifest, kind, base, base_digest, rank, bytes, metadata, "
    "account, created_at, created_by"
)
APPEND_ONLY = "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
SQLITE_TRIGGERS = (
    f"CREATE TRIGGER events_no_update BEFORE UPDATE ON events {APPEND_ONLY}",
    f"CREATE TRIGGER events_no_delete BEFORE DELETE ON events {APPEND_ONLY}",
    f"CREATE TRIGGER versions_frozen BEFORE UPDATE OF {FROZEN_COLUMNS} ON versions "
    "BEGIN SELECT RAISE(ABORT, 'a version is immutable but for its stage'); END",
)


def upgrade() -> None:
    _events()
    _adapters()
    _versions()
    _aliases()
    if op.get_bind().dialect.name == "sqlite":
        for trigger in SQLITE_TRIGGERS:
            op.execute(trigger)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("position", COUNT, autoincrement=False, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("at", TIMESTAMP, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("previous", DIGEST, nullable=False),
        sa.Column("hash", DIGEST, nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_events"),
        sa.UniqueConstraint("previous", name="uq_events_previous"),
        sa.UniqueConstraint("hash", name="uq_events_hash"),
    )
    op.create_index("ix_events_tenant_subject_position", "events", ["tenant", "subject", "position"])


def _adapters() -> None:
    op.create_table(
        "adapters",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("last_sequence", COUNT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_adapters"),
    )


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("semver", sa.String(64), nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("base_digest", DIGEST, nullable=False),
        sa.Column("rank", COUNT, nullable=False),
        sa.Column("bytes", COUNT, nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "adapter", "sequence", name="pk_versions"),
        sa.ForeignKeyConstraint(
            ["tenant", "adapter"], ["adapters.tenant", "adapters.name"], name="fk_versions_adapters"
        ),
        sa.UniqueConstraint("tenant", "adapter", "semver", name="uq_versions_tenant_adapter_semver"),
        sa.UniqueConstraint("tenant", "adapter", "digest", name="uq_versions_tenant_adapter_digest"),
    )
    production = sa.text("stage = 'production'")
    op.create_index(
        "ix_versions_one_production",
        "versions",
        ["tenant", "adapter"],
        unique=True,
        sqlite_where=production,
        postgresql_where=production,
    )


def _aliases() -> None:
    op.create_table(
        "aliases",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("alias", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "adapter", "alias", name="pk_aliases"),
        sa.ForeignKeyConstraint(
            ["tenant", "adapter", "sequence"],
            ["versions.tenant", "versions.adapter", "versions.sequence"],
            name="fk_aliases_versions",
        ),
    )
