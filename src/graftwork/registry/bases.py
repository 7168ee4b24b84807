"""Bases: base models as records of their own, what they are by digest, and whose files the store keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, or_, select, tuple_

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import check_name
from graftwork.access.tenants import check_tenant
from graftwork.artifacts.bundle import Manifest
from graftwork.db import Database, Transaction
from graftwork.db.schema import adapters, bases, checkpoints
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.models.base_identity import BaseIdentity
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.adapters import has_versions
from graftwork.registry.page import check_page_size

CREATED = "base.created"
STORED = "base.stored"


@dataclass(frozen=True)
class BaseRecord:
    """One content that a base of this name had; a name with other weights is another record."""

    tenant: str
    name: str
    sequence: int  #: 1 for the first content under this name, then consecutive
    digest: str  #: of weights, config, tokenizer and template together: the identity
    identity: BaseIdentity
    created_at: str
    created_by: str
    manifest: Manifest | None = None  #: its files, where the store keeps them

    def to_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "name": self.name,
            "sequence": self.sequence,
            "digest": self.digest,
            **{field.name: getattr(self.identity, field.name) for field in fields(self.identity)},
            "created_at": self.created_at,
            "created_by": self.created_by,
            "stored_bytes": self.manifest.bytes if self.manifest else None,
            "manifest_digest": self.manifest.digest() if self.manifest else None,
        }

    @classmethod
    def from_row(cls, row: Row[Any]) -> BaseRecord:
        values = dict(row._mapping)
        manifest = values.pop("manifest")
        identity = BaseIdentity(**{field.name: values.pop(field.name) for field in fields(BaseIdentity)})
        return cls(**values, identity=identity, manifest=Manifest.from_json(parse(manifest)) if manifest else None)


class Bases:
    """Reads and adds to one database's base records, which never change.

    Args:
        has_route: whether a route of a tenant has a name, which is then no base's.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = utc_now,
        has_route: Callable[[Transaction, str, str], bool] = lambda tx, tenant, name: False,
    ) -> None:
        self._database, self._clock, self._has_route = database, clock, has_route

    def register(
        self, tenant: str, name: str, identity: BaseIdentity, *, manifest: Manifest | None = None, actor: str,
        still_stored: Callable[[], None] = lambda: None,
    ) -> tuple[BaseRecord, bool]:  # fmt: skip
        """Record a base, with the files that the store keeps of it; True where that is new.

        The same content again is the record that it was, with the files that it had first.

        Args:
            still_stored: called in the transaction before files are recorded; raises where they are gone.

        Raises:
            InvalidRequest: the name.
            Conflict: an adapter or a route has it.
        """
        check_name(name, what="base")
        with self._database.reading() as tx:  # most often it is there
            found = _with_digest(tx, check_tenant(tenant), name, identity.digest)
        if found is not None and (found.manifest or not manifest):
            return found, False
        with self._database.transaction() as tx:
            found = _with_digest(tx, tenant, name, identity.digest)
            made = found is None
            found = found or self._insert(tx, tenant, name, identity, actor)
            if manifest and not found.manifest:
                still_stored()  # here no collection can run beside
                made = True
                self._insert_checkpoint(tx, found, manifest, actor)
            return _whole(tx, found), made

    def page(
        self, tenant: str, *, page_size: int = 100, page_token: str | None = None
    ) -> tuple[list[BaseRecord], str | None]:
        """A tenant's bases by name and sequence, and what leads to the next ones."""
        check_page_size(page_size)
        after = tuple_(bases.c.name, bases.c.sequence) > _read_token(page_token) if page_token else None
        with self._database.reading() as tx:
            query = _query(tenant) if after is None else _query(tenant).where(after)
            rows = tx.execute(query.order_by(bases.c.name, bases.c.sequence).limit(page_size + 1)).all()
        found = [BaseRecord.from_row(row) for row in rows]
        more = len(found) > page_size
        return found[:page_size], f"{found[page_size - 1].name}:{found[page_size - 1].sequence}" if more else None

    def show(self, tenant: str, name: str, digest: str | None = None) -> BaseRecord:
        """The newest base of this name; with a digest, or its beginning, of those that have it, or such weights.

        Raises:
            NotFound: this tenant has none.
        """
        check_name(name, what="base")
        query = _query(tenant).where(bases.c.name == name)
        if digest is not None:
            query = query.where(or_(_begins(bases.c.digest, digest), _begins(bases.c.weights_digest, digest)))
        with self._database.reading() as tx:
            row = tx.execute(query.order_by(bases.c.sequence.desc()).limit(1)).first()
        if row is None:
            which = f" with the digest {digest[:80]}" if digest else ""
            raise NotFound(f"There is no base {name}{which}. `graftwork base list` shows what there is.")
        return BaseRecord.from_row(row)

    def _insert(self, tx: Transaction, tenant: str, name: str, identity: BaseIdentity, actor: str) -> BaseRecord:
        own = select(adapters.c.name).where(adapters.c.tenant == tenant, adapters.c.name == name, has_versions())
        if tx.execute(own).first():
            raise Conflict(f"{name} is the name of an adapter; give the base another one.")
        if self._has_route(tx, tenant, name):
            raise Conflict(f"{name} is the name of a route; give the base another one.")
        now = timestamp(self._clock())
        last = select(func.coalesce(func.max(bases.c.sequence), 0)).where(_named(tenant, name))
        record = BaseRecord(tenant, name, tx.execute(last).scalar_one() + 1, identity.digest, identity, now, actor)
        row = {**vars(record), **vars(identity)}
        tx.execute(bases.insert().values({column.name: row[column.name] for column in bases.c}))
        facts = {"digest": record.digest, "weights_digest": identity.weights_digest, "sequence": record.sequence}
        events.append(tx, tenant, actor, CREATED, f"bases/{name}", facts, at=now)
        return record

    def _insert_checkpoint(self, tx: Transaction, base: BaseRecord, manifest: Manifest, actor: str) -> None:
        now = timestamp(self._clock())
        row = {
            "tenant": base.tenant,
            "base": base.name,
            "sequence": base.sequence,
            "digest": manifest.digest(),
            "manifest": canonical(manifest.to_json(), what="manifest"),
            "created_at": now,
            "created_by": actor,
        }
        tx.execute(checkpoints.insert().values(row))
        facts = {"digest": base.digest, "manifest_digest": manifest.digest(), "bytes": manifest.bytes}
        events.append(tx, base.tenant, actor, STORED, f"bases/{base.name}", facts, at=now)


def has_name(tx: Transaction, tenant: str, name: str) -> bool:
    """Whether a base of this tenant is called so."""
    return tx.execute(select(bases.c.sequence).where(_named(tenant, name)).limit(1)).first() is not None


def stored_manifests(tx: Transaction, tenant: str) -> Iterator[Manifest]:
    """The files of every base that the store keeps for this tenant."""
    for row in tx.execute(select(checkpoints.c.manifest).where(checkpoints.c.tenant == tenant)):
        yield Manifest.from_json(parse(row.manifest))


def _query(tenant: str) -> Any:
    of_a_base = and_(
        checkpoints.c.tenant == bases.c.tenant,
        checkpoints.c.base == bases.c.name,
        checkpoints.c.sequence == bases.c.sequence,
    )
    return select(bases, checkpoints.c.manifest).outerjoin(checkpoints, of_a_base).where(bases.c.tenant == tenant)


def _with_digest(tx: Transaction, tenant: str, name: str, digest: str) -> BaseRecord | None:
    row = tx.execute(_query(tenant).where(bases.c.name == name, bases.c.digest == digest)).first()
    return BaseRecord.from_row(row) if row else None


def _whole(tx: Transaction, base: BaseRecord) -> BaseRecord:
    found = _with_digest(tx, base.tenant, base.name, base.digest)
    assert found is not None, "it was written in this transaction"
    return found


def _named(tenant: str, name: str) -> ColumnElement[bool]:
    return and_(bases.c.tenant == tenant, bases.c.name == name)


def _begins(column: ColumnElement[str], digest: str) -> ColumnElement[bool]:
    return func.substr(column, 1, len(digest)) == digest


def _read_token(token: str) -> tuple[str, int]:
    name, _, sequence = token.partition(":")
    if not name or not (sequence.isascii() and sequence.isdecimal() and len(sequence) < 10):
        raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
    return name, int(sequence)
