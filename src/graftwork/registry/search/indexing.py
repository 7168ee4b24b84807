"""Indexing: what searches find a version by is written in the transaction that registers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, delete, select, update

from graftwork.db import Transaction
from graftwork.db.index_terms import facts_of, words_of
from graftwork.db.schema import facts, tags, texts
from graftwork.registry.versions import Version


@dataclass(frozen=True)
class Described:
    """What the files of a version say of it: adapter_config.json, and the text of README.md."""

    config: Mapping[str, Any] = field(default_factory=dict)
    card: str = ""


NOTHING = Described()


def index(tx: Transaction, version: Version, described: Described = NOTHING) -> None:
    """Let searches find a version that was just written."""
    metadata = version.metadata or {}
    own = {"tenant": version.tenant, "adapter": version.adapter, "sequence": version.sequence}
    found = facts_of(version.semver, metadata, described.config)
    tx.execute(facts.insert(), [{**own, **vars(fact)} for fact in found])
    description = metadata.get("description")
    said = (version.adapter, description if isinstance(description, str) else "", described.card)
    set_words(tx, version.tenant, version.adapter, version.sequence, words_of(*said))


def set_words(tx: Transaction, tenant: str, adapter: str, sequence: int, words: str) -> None:
    """What full text finds a version by, or an adapter where `sequence` is 0, instead of what it was."""
    where = and_(texts.c.tenant == tenant, texts.c.adapter == adapter, texts.c.sequence == sequence)
    if tx.execute(select(texts.c.id).where(where)).first() is not None:
        tx.execute(update(texts).where(where).values(words=words))
        return
    tx.execute(texts.insert().values(tenant=tenant, adapter=adapter, sequence=sequence, words=words))


def forget(tx: Transaction, tenant: str, adapter: str, sequence: int) -> None:
    """Take away what searches knew of a version, before its row is deleted."""
    for table in (facts, tags, texts):
        same = and_(table.c.tenant == tenant, table.c.adapter == adapter, table.c.sequence == sequence)
        tx.execute(delete(table).where(same))
