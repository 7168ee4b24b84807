"""Search: facts and words of versions, tags, what adapters are for; and the orders that searches go through."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from graftwork.db.index_terms import facts_of, words_of

revision = "0008"
down_revision = "0007"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OF_A_VERSION = ["tenant", "adapter", "sequence"]

SEARCHED = ["created_at", "adapter", "sequence", "stage", "kind", "base", "base_digest", "rank", "bytes"]
SEARCHED += ["created_by", "deleted_at"]
INDEXES = {
    "ix_versions_search": ("versions", SEARCHED),
    "ix_versions_rank": ("versions", ["rank", "adapter", "sequence"]),
    "ix_versions_bytes": ("versions", ["bytes", "adapter", "sequence"]),
    "ix_versions_digest": ("versions", ["digest"]),
    "ix_metrics_last": ("metrics", ["adapter", "sequence", "name", "number", "value"]),
    "ix_metrics_value": ("metrics", ["name", "value", "adapter", "sequence", "number"]),
    "ix_facts_text": ("facts", ["key", "text", "adapter", "sequence"]),
    "ix_facts_number": ("facts", ["key", "number", "adapter", "sequence"]),
    "ix_tags_text": ("tags", ["key", "text", "adapter", "sequence"]),
    "ix_tags_number": ("tags", ["key", "number", "adapter", "sequence"]),
}
#: External content (https://sqlite.org/fts5.html#external_content_tables); words come between blanks already.
FORGET = "INSERT INTO texts_fts(texts_fts, rowid, words) VALUES ('delete', old.id, old.words);"
KEEP = "INSERT INTO texts_fts(rowid, words) VALUES (new.id, new.words);"
SQLITE = (
    "DROP TABLE IF EXISTS texts_fts",
    "CREATE VIRTUAL TABLE texts_fts USING fts5"
    "(words, content='texts', content_rowid='id', tokenize='ascii', detail='none')",
    f"CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN {KEEP} END",
    f"CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN {FORGET} END",
    f"CREATE TRIGGER texts_changed AFTER UPDATE ON texts BEGIN {FORGET} {KEEP} END",
)
POSTGRESQL = ("CREATE INDEX ix_texts_words ON texts USING gin (array_to_tsvector(string_to_array(words, ' ')))",)
PAGE = 1000


def upgrade() -> None:
    for column in ("display_name", "description"):
        op.add_column("adapters", sa.Column(column, sa.Text(), nullable=False, server_default=""))
    op.drop_index("ix_metrics_tenant_name_value", "metrics")
    _facts()
    _tags()
    _texts()
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, ["tenant", *columns])
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)
    _fill()


def _facts() -> None:
    op.create_table(
        "facts",
        *_of_a_version(),
        sa.Column("key", BYTEWISE, nullable=False),
        sa.Column("text", BYTEWISE, nullable=False),
        sa.Column("number", sa.Float(53)),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "key", "text", name="pk_facts"),
        sa.ForeignKeyConstraint(
            OF_A_VERSION, [f"versions.{column}" for column in OF_A_VERSION], name="fk_facts_versions"
        ),
    )


def _tags() -> None:
    op.create_table(
        "tags",
        *_of_a_version(),
        sa.Column("key", NAME, nullable=False),
        sa.Column("text", BYTEWISE, nullable=False),
        sa.Column("number", sa.Float(53)),
        sa.Column("updated_at", sa.String(27), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(*OF_A_VERSION, "key", name="pk_tags"),
        sa.ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"], name="fk_tags_adapters"),
    )


def _texts() -> None:
    op.create_table(
        "texts",
        sa.Column("id", COUNT, nullable=False),
        *_of_a_version(),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_texts"),
        sa.ForeignKeyConstraint(["tenant", "adapter"], ["adapters.tenant", "adapters.name"], name="fk_texts_adapters"),
        sa.UniqueConstraint(*OF_A_VERSION, name="uq_texts_tenant_adapter_sequence"),
    )


def _of_a_version() -> list[sa.Column[Any]]:
    return [
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("adapter", NAME, nullable=False),
        sa.Column("sequence", COUNT, nullable=False),
    ]


def _fill() -> None:
    """What pushes write from now on, of the versions that are there; their files are not read for it."""
    bind = op.get_bind()
    versions = sa.table("versions", *map(sa.column, (*OF_A_VERSION, "semver", "metadata")))
    facts = sa.table("facts", *map(sa.column, (*OF_A_VERSION, "key", "text", "number")))
    texts = sa.table("texts", *map(sa.column, (*OF_A_VERSION, "words")))
    last = None
    key = sa.tuple_(*(versions.c[name] for name in OF_A_VERSION))
    while True:
        query = sa.select(versions).order_by(*(versions.c[name] for name in OF_A_VERSION)).limit(PAGE)
        rows = bind.execute(query if last is None else query.where(key > last)).all()
        if not rows:
            return
        last = tuple(rows[-1][:3])
        found = [(dict(zip(OF_A_VERSION, row[:3], strict=True)), row.semver, json.loads(row.metadata)) for row in rows]
        bind.execute(
            facts.insert(),
            [{**own, **vars(fact)} for own, semver, metadata in found for fact in facts_of(semver, metadata, {})],
        )
        bind.execute(
            texts.insert(),
            [{**own, "words": words_of(own["adapter"], *_texts_in(metadata))} for own, _, metadata in found],
        )


def _texts_in(metadata: dict[str, Any]) -> list[str]:
    return [metadata["description"]] if isinstance(metadata.get("description"), str) else []
