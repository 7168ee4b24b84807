"""Signatures: who vouches for the files of a version; each is verified before it is recorded, and stays.

Whoever signs does it at home: the server is given a signature and a public key, never a private one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, func, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.artifacts.digest import check_digest
from graftwork.artifacts.signing.keys import read_public
from graftwork.artifacts.signing.signature import MAX_SIGNATURE_BYTES, verify
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database, Transaction
from graftwork.db.schema import signatures
from graftwork.errors import Conflict, NotFound, Refused
from graftwork.registry import idempotency
from graftwork.registry.idempotency import Once
from graftwork.registry.reference import Reference
from graftwork.registry.resolving import resolve, still
from graftwork.registry.subjects import SIGNATURE_ADDED, subject_of
from graftwork.registry.versions import Version

MAX_SIGNATURES: Final = 100


@dataclass(frozen=True)
class Signature:
    """One signature of a version, which held when it was recorded."""

    number: int  #: 1, 2, … of its version
    fingerprint: str  #: of the public key
    algorithm: str
    public_key: str  #: PEM
    bundle: str  #: digest of the signature file
    size: int  #: of that file, in bytes
    created_at: str
    created_by: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_row(cls, row: Row[Any]) -> Signature:
        return cls(**{name: getattr(row, name) for name in cls.__dataclass_fields__})


class Signatures:
    """Reads and adds signatures; raises as `Registry` does for references, names and a database that is busy."""

    def __init__(self, database: Database, store: BlobStore, clock: Clock = utc_now) -> None:
        self._database = database
        self._store = store
        self._clock = clock

    def add(
        self,
        tenant: str,
        reference: Reference | str,
        bundle: str,
        public_key: str,
        *,
        actor: str,
        once: Once | None = None,
    ) -> tuple[Signature, bool]:
        """Record the signature in the stored blob `bundle`; True when it is new.

        Raises:
            InvalidRequest: the public key is none, or a weak one.
            Conflict: the blob is not stored, or the version has too many signatures.
            Refused: the signature is not one of that key over exactly this version's files.
        """
        key = read_public(public_key.encode())
        with self._database.reading() as tx:
            version = resolve(tx, tenant, reference)
        size = self._stored(tenant, check_digest(bundle))
        if size > MAX_SIGNATURE_BYTES:
            raise Refused(f"The signature file has more than {MAX_SIGNATURE_BYTES} bytes.")
        verify(b"".join(self._store.open(tenant, bundle)), version.manifest, key)
        made = Signature(0, key.fingerprint, key.algorithm, key.pem, bundle, size, "", actor)
        with self._database.transaction() as tx:
            version = still(tx, version)
            self._stored(tenant, bundle)  # again: here no collection can run beside
            number, created = idempotency.numbered(
                tx, version, once, lambda: self._add(tx, version, made), now=self._clock()
            )
            return _at(tx, version, number), created

    def _stored(self, tenant: str, bundle: str) -> int:
        size = self._store.has(tenant, bundle)
        if size is None:
            raise Conflict(f"Upload the signature file first, then add it: {bundle} is not stored.")
        return size

    def of(self, tenant: str, reference: Reference | str) -> tuple[Signature, ...]:
        """A version's signatures in the order they were added; at most `MAX_SIGNATURES`."""
        with self._database.reading() as tx:
            return of_version(tx, resolve(tx, tenant, reference))

    def show(self, tenant: str, reference: Reference | str, number: int) -> Signature:
        """The signature with that number; raises NotFound."""
        with self._database.reading() as tx:
            return _at(tx, resolve(tx, tenant, reference), number)

    def _add(self, tx: Transaction, version: Version, made: Signature) -> tuple[int, bool]:
        known = tx.execute(_signatures(version).where(signatures.c.bundle == made.bundle)).first()
        if known is not None:
            return int(known.number), False
        last = tx.execute(select(func.coalesce(func.max(signatures.c.number), 0)).where(_of(version))).scalar_one()
        if last >= MAX_SIGNATURES:
            raise Conflict(f"{version.label} has {MAX_SIGNATURES} signatures, the most that a version may have.")
        number, now = last + 1, timestamp(self._clock())
        of = {"tenant": version.tenant, "adapter": version.adapter, "sequence": version.sequence, "number": number}
        tx.execute(signatures.insert().values(made.to_json() | of | {"created_at": now}))
        told = {
            "signature": number,
            "fingerprint": made.fingerprint,
            "algorithm": made.algorithm,
            "bundle": made.bundle,
        }
        subject, payload = subject_of(version.adapter), {**version.brief(), **told}
        events.append(tx, version.tenant, made.created_by, SIGNATURE_ADDED, subject, payload, at=now)
        return number, True


def of_version(tx: Transaction, version: Version) -> tuple[Signature, ...]:
    """A version's signatures in the order they were added."""
    rows = tx.execute(_signatures(version).order_by(signatures.c.number))
    return tuple(Signature.from_row(row) for row in rows)


def held(tx: Transaction, tenant: str) -> set[tuple[str, int, str]]:
    """(adapter, sequence, digest) of every blob that holds a signature of the tenant's versions."""
    query = select(signatures.c.adapter, signatures.c.sequence, signatures.c.bundle)
    rows = tx.execute(query.where(signatures.c.tenant == tenant))
    return {(row.adapter, row.sequence, row.bundle) for row in rows}


def _at(tx: Transaction, version: Version, number: int) -> Signature:
    row = tx.execute(_signatures(version).where(signatures.c.number == number)).first()
    if row is None:
        raise NotFound(f"{version.label} has no signature {number}.")
    return Signature.from_row(row)


def _signatures(version: Version) -> Any:
    return select(signatures).where(_of(version))


def _of(version: Version) -> ColumnElement[bool]:
    return and_(
        signatures.c.tenant == version.tenant,
        signatures.c.adapter == version.adapter,
        signatures.c.sequence == version.sequence,
    )
