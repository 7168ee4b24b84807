"""Holds: legal holds, which keep a version or a whole adapter whatever else would let it go; append-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, func, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.db.schema import hold_releases, holds, versions
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.reading import find, view_for
from graftwork.registry.reference import Newest, parse_reference
from graftwork.registry.subjects import subject_of

HOLD_SET: Final = "hold.set"
HOLD_RELEASED: Final = "hold.released"


@dataclass(frozen=True)
class Hold:
    """One hold in force; `sequence` and `semver` are None where it is of the whole adapter, coming versions too."""

    number: int
    adapter: str
    sequence: int | None
    semver: str | None
    reason: str
    created_at: str
    created_by: str

    @property
    def label(self) -> str:
        return self.adapter if self.semver is None else f"{self.adapter}:{self.semver}"

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


class Holds:
    """Sets and releases the holds of one database."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock

    def set(self, tenant: str, reference: str, *, reason: str, actor: str) -> tuple[Hold, bool]:
        """Hold a version, or with a bare name the whole adapter; True where it was not held for this reason already.

        Raises:
            NotFound: there is no such version. Conflict: it is held for another reason.
        """
        with self._database.transaction() as tx:
            adapter, sequence, semver = _target(tx, tenant, reference)
            if (known := _of_target(tx, tenant, adapter, sequence)) is not None:
                if known.reason == reason:
                    return known, False
                raise Conflict(f"{known.label} is held already (hold {known.number}): {known.reason}")
            highest = select(func.coalesce(func.max(holds.c.number), 0)).where(holds.c.tenant == tenant)
            number, at = int(tx.execute(highest).scalar_one()) + 1, timestamp(self._clock())
            made = Hold(number, adapter, sequence, semver, reason, at, actor)
            row = {**made.to_json(), "tenant": tenant}
            row.pop("semver")
            tx.execute(holds.insert().values(row))
            _tell(tx, tenant, actor, HOLD_SET, made, reason, at)
            return made, True

    def release(self, tenant: str, reference: str, *, reason: str, actor: str) -> Hold:
        """End the hold of exactly this version, or adapter.

        Raises:
            NotFound: it is not held.
        """
        with self._database.transaction() as tx:
            adapter, sequence, semver = _target(tx, tenant, reference)
            known = _of_target(tx, tenant, adapter, sequence)
            if known is None:
                what = adapter if semver is None else f"{adapter}:{semver}"
                raise NotFound(f"{what} is not held. `graftwork hold list` shows what is.")
            at = timestamp(self._clock())
            row = {"tenant": tenant, "number": known.number, "reason": reason, "created_at": at, "created_by": actor}
            tx.execute(hold_releases.insert().values(row))
            _tell(tx, tenant, actor, HOLD_RELEASED, known, reason, at)
            return known

    def list(self, tenant: str, *, page_size: int = 100, page_token: str | None = None) -> Page[Hold]:
        """The holds in force, in the order they were set; pass `next_page_token` on to get the next ones."""
        check_page_size(page_size)
        if page_token and not (page_token.isascii() and page_token.isdecimal() and len(page_token) <= 18):
            raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
        with self._database.reading() as tx:
            found = _in_force(tx, tenant, after=int(page_token or 0), limit=page_size + 1)
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), str(found[page_size - 1].number) if more else None)


def holds_of(tx: Transaction, tenant: str, adapter: str) -> list[Hold]:
    """The holds in force on an adapter and its versions."""
    return _in_force(tx, tenant, adapter=adapter)


def _target(tx: Transaction, tenant: str, reference: str) -> tuple[str, int | None, str | None]:
    wanted = parse_reference(reference)
    view = view_for(tx, tenant, wanted)
    if isinstance(wanted.selector, Newest):
        return view.name, None, None
    found = find(tx, view, wanted)
    return view.name, found.sequence, found.semver


def _of_target(tx: Transaction, tenant: str, adapter: str, sequence: int | None) -> Hold | None:
    return next((hold for hold in holds_of(tx, tenant, adapter) if hold.sequence == sequence), None)


def _in_force(
    tx: Transaction, tenant: str, *, adapter: str | None = None, after: int = 0, limit: int | None = None
) -> list[Hold]:
    over = select(hold_releases.c.number).where(
        hold_releases.c.tenant == holds.c.tenant, hold_releases.c.number == holds.c.number
    )
    held = and_(
        versions.c.tenant == holds.c.tenant,
        versions.c.adapter == holds.c.adapter,
        versions.c.sequence == holds.c.sequence,
    )
    columns = [column for column in holds.c if column.name != "tenant"]
    query = (
        select(*columns, versions.c.semver)
        .join(versions, held, isouter=True)
        .where(holds.c.tenant == tenant, holds.c.number > after, ~over.exists())
        .order_by(holds.c.number)
        .limit(limit)
    )
    if adapter is not None:
        query = query.where(holds.c.adapter == adapter)
    return [Hold(**row._mapping) for row in tx.execute(query)]


def _tell(tx: Transaction, tenant: str, actor: str, kind: str, hold: Hold, reason: str, at: str) -> None:
    payload = {"number": hold.number, "sequence": hold.sequence, "version": hold.semver, "reason": reason}
    events.append(tx, tenant, actor, kind, subject_of(hold.adapter), payload, at=at)
