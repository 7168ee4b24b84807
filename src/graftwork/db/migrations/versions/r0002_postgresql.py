"""On PostgreSQL: the log is append-only, versions are immutable, and each commit that grows the log notifies."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

FROZEN_COLUMNS = (
    "tenant, adapter, sequence, semver, digest, manifest, kind, base, base_digest, rank, bytes, metadata, "
    "account, created_at, created_by"
)
REFUSE = (
    "CREATE FUNCTION graftwork_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$"
)
NOTIFY = (
    "CREATE FUNCTION graftwork_notify() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM pg_notify('graftwork_events', ''); RETURN NULL; END $$"
)
APPEND_ONLY = "EXECUTE FUNCTION graftwork_refuse('events are append-only')"
STATEMENTS = (
    REFUSE,
    NOTIFY,
    f"CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events FOR EACH ROW {APPEND_ONLY}",
    f"CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT {APPEND_ONLY}",
    "CREATE TRIGGER events_notify AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION graftwork_notify()",
    f"CREATE TRIGGER versions_frozen BEFORE UPDATE OF {FROZEN_COLUMNS} ON versions FOR EACH ROW "
    "EXECUTE FUNCTION graftwork_refuse('a version is immutable but for its stage')",
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for statement in STATEMENTS:
            op.execute(statement)
