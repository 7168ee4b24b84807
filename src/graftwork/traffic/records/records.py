"""Records: what is known of answers: listed, explained, observed, deleted by user, let go by age."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.events import Event
from graftwork.db import Database, Transaction
from graftwork.db.schema import feedback, prediction_texts, predictions, shadow_diffs, shadow_texts
from graftwork.errors import InvalidRequest, NotFound
from graftwork.registry.page import Page, check_page_size
from graftwork.traffic.observation import Observation
from graftwork.traffic.records.explanation import Told, deciding, history_of
from graftwork.traffic.records.feedback import Feedback, feedback_of
from graftwork.traffic.records.observed import observations
from graftwork.traffic.records.record import Record
from graftwork.traffic.records.recording import SUBJECT, hashers_of, recording_of
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.sessions.rows import forget as forget_pins

FORGOTTEN: Final = "predictions.forgotten"
#: Rows that go in one transaction, so that nobody waits long for his turn.
AT_ONCE: Final = 500
#: What goes with rows of a table, what hangs on others first. How copies differed goes by itself, as long after its
#: request as its record: it is written later, and whether the record was or not.
_GOING: Final[Mapping[Table, Sequence[Table]]] = {
    prediction_texts: (prediction_texts,),
    predictions: (prediction_texts, feedback, predictions),
    shadow_texts: (shadow_texts,),
    shadow_diffs: (shadow_texts, shadow_diffs),
}
_BY_TENANT: Final = (predictions, shadow_diffs)
#: Of a request's id, so much says which one is meant, where no other begins so.
LEAST_BEGINNING: Final = 8
_BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_BEGINNING},31}}", re.ASCII)
_TOKEN = re.compile(r"([0-9TZ:.-]{27})~(\w{1,64})", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    """Which records; None is any. `since` and `until` as `timestamp` writes them."""

    adapter: str | None = None
    digest: str | None = None
    route: str | None = None
    arm: str | None = None
    rollout: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        for name in ("adapter", "digest", "route", "arm", "rollout", "user_id", "session_id", "outcome"):
            if (value := getattr(self, name)) is not None:
                yield predictions.c[name] == value
        if self.since is not None:
            yield predictions.c.at >= self.since
        if self.until is not None:
            yield predictions.c.at < self.until


@dataclass(frozen=True)
class Explained:
    """A record, what was said where it is kept, what was said of it, and how all stood when it was decided."""

    record: Record
    text: Any
    #: Whether it is kept and was not to be read.
    withheld: bool
    feedback: tuple[Feedback, ...]
    history: tuple[Told, ...]
    #: Of the route's revision and the rollout that decided.
    decided_by: tuple[Event, ...]


class Records:
    """For use from any thread."""

    def __init__(self, database: Database, vault: Vault, clock: Clock = utc_now) -> None:
        self._database, self._vault, self._clock = database, vault, clock

    def page(self, tenant: str, wanted: Wanted, *, page_size: int = 100, page_token: str = "") -> Page[Record]:
        """Records that are wanted, the newest first.

        Raises:
            InvalidRequest: the token is not one that this list gave out.
        """
        check_page_size(page_size)
        query = select(predictions).where(predictions.c.tenant == tenant, *wanted.conditions())
        if page_token:
            query = query.where(_before(page_token))
        query = query.order_by(predictions.c.at.desc(), predictions.c.request_id.desc()).limit(page_size + 1)
        with self._database.reading() as tx:
            found = [Record.from_row(row) for row in tx.execute(query)]
        last = found[page_size - 1] if len(found) > page_size else None
        return Page(tuple(found[:page_size]), f"{last.at}~{last.request_id}" if last else None)

    def explain(self, tenant: str, request_id: str, *, texts: bool = True) -> Explained:
        """All that is known of one answer, by its id or a beginning of it; what was said only with `texts`.

        Raises:
            NotFound: the tenant has no record of it: there was none, or it is kept no longer.
            InvalidRequest: several begin so.
            Unavailable, Damaged: what was said is kept, and cannot be read.
        """
        with self._database.reading() as tx:
            record = _one(tx, tenant, request_id)
            request_id = record.request_id
            own = _of(prediction_texts, tenant, [request_id])
            sealed = tx.execute(select(prediction_texts.c.sealed).where(own)).scalar()
            said, history = feedback_of(tx, tenant, request_id), tuple(history_of(tx, record))
            decided_by = tuple(deciding(tx, record))
        text = self._vault.open(tenant, request_id, sealed) if sealed is not None and texts else None
        return Explained(record, text, sealed is not None and not texts, tuple(said), history, decided_by)

    def observations(
        self,
        tenant: str,
        route: str,
        *,
        rollout: str | None = None,
        arm: str | None = None,
        since: str,
        limit: int = 100_000,
    ) -> list[Observation]:
        """What gates judge: answers of a route since a time, in order; the newest `limit`.

        Of all, of one arm, or of those that one rollout decided. Not what no version can help: nobody was chosen, or
        the caller was refused.
        """
        wanted = Wanted(route=route, rollout=rollout, arm=arm, since=since)
        where = (predictions.c.tenant == tenant, *wanted.conditions())
        with self._database.reading() as tx:
            return observations(tx, where, limit=limit)

    def forget(self, tenant: str, user: str, *, actor: str) -> int:
        """Delete every record of a user with its hashes, texts, copies and feedback, and what the user's sessions keep
        to; how many records there were.

        Usage stays, which has no users. The event does not name the user either: it has a keyed hash of him.
        """
        copies, gone = 0, 0
        while (batch := self._forget(shadow_diffs, tenant, user)) > 0:
            copies += batch
        while True:
            with self._database.transaction() as tx:
                batch = _delete(tx, predictions, tenant, user)
                gone += batch
                if batch < AT_ONCE:
                    pins = forget_pins(tx, tenant, user)
                    if gone or copies or pins:
                        at = timestamp(self._clock())
                        hashed = hashers_of(tx, self._vault, [tenant], at=at)[tenant]
                        payload = {"user": hashed(user.encode("utf-8", "surrogatepass")), "records": gone, "pins": pins}
                        events.append(tx, tenant, actor, FORGOTTEN, SUBJECT, payload, at=at)
                    return gone

    def _forget(self, table: Table, tenant: str, user: str) -> int:
        with self._database.transaction() as tx:
            return _delete(tx, table, tenant, user)

    def sweep(self) -> int:
        """Let go what its tenant keeps no longer, a few rows at a time; how many records went."""
        return sum(self._sweep(tenant) for tenant in self._tenants())

    def _sweep(self, tenant: str) -> int:
        with self._database.reading() as tx:
            kept = recording_of(tx, tenant)
        now = self._clock()
        days = kept.text_days if kept.keep_text else 0
        for table in (prediction_texts, shadow_texts):
            self._let_go(tenant, table, timestamp(now - timedelta(days=days)))
        before = timestamp(now - timedelta(days=kept.keep_days))
        self._let_go(tenant, shadow_diffs, before)
        return self._let_go(tenant, predictions, before)

    def _let_go(self, tenant: str, table: Table, before: str) -> int:
        gone, batch = 0, AT_ONCE
        while batch == AT_ONCE:
            old = select(table.c.request_id).where(table.c.tenant == tenant, table.c.at < before).limit(AT_ONCE)
            with self._database.reading() as tx:
                ids = tx.execute(old).scalars().all()
            if ids:
                with self._database.transaction() as tx:
                    for one in _GOING[table]:
                        tx.execute(delete(one).where(_of(one, tenant, ids)))
            batch = len(ids)
            gone += batch
        return gone

    def _tenants(self) -> Iterator[str]:
        """Those that have any, each found by the primary key."""
        last = ""
        while True:
            with self._database.reading() as tx:
                queries = [select(func.min(one.c.tenant)).where(one.c.tenant > last) for one in _BY_TENANT]
                found = [tenant for query in queries if (tenant := tx.execute(query).scalar()) is not None]
            if not found:
                return
            last = min(found)
            yield last


def _one(tx: Transaction, tenant: str, request_id: str) -> Record:
    found = tx.execute(select(predictions).where(_of(predictions, tenant, [request_id]))).all()
    if not found and _BEGINNING.fullmatch(request_id):
        column = predictions.c.request_id
        within = and_(predictions.c.tenant == tenant, column > request_id, column < f"{request_id}g")
        found = tx.execute(select(predictions).where(within).limit(2)).all()
    if not found:
        raise NotFound(
            f"There is no record of the request {request_id[:64]}. `graftwork prediction list` has the ids of those "
            f"that are kept; of an id the first {LEAST_BEGINNING} characters are enough, and no fewer."
        )
    if len(found) > 1:
        raise InvalidRequest(
            f"The ids of several requests begin with {request_id}: give more of it.", field="request_id"
        )
    return Record.from_row(found[0])


def _delete(tx: Transaction, table: Table, tenant: str, user: str) -> int:
    """Delete some of a user's, with what hangs on them; how many."""
    own = and_(table.c.tenant == tenant, table.c.user_id == user)
    ids = tx.execute(select(table.c.request_id).where(own).limit(AT_ONCE)).scalars().all()
    if ids:
        for one in _GOING[table]:
            tx.execute(delete(one).where(_of(one, tenant, ids)))
    return len(ids)


def _of(table: Table, tenant: str, ids: Sequence[str]) -> ColumnElement[bool]:
    return and_(table.c.tenant == tenant, table.c.request_id.in_(ids))


def _before(token: str) -> ColumnElement[bool]:
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
    at, request_id = found.groups()
    return or_(predictions.c.at < at, and_(predictions.c.at == at, predictions.c.request_id < request_id))
