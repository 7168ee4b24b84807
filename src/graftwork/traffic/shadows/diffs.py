"""Diffs: writes what became of copies, and reads it: listed, by request, in a report, and as gates see it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select, tuple_

from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database
from graftwork.db.schema import shadow_diffs, shadow_texts
from graftwork.errors import InvalidRequest
from graftwork.registry.page import Page, check_page_size
from graftwork.traffic.observation import Observation
from graftwork.traffic.records.recording import hashers_of
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.shadows.copied import Copied
from graftwork.traffic.shadows.diff import Diff
from graftwork.traffic.shadows.report import report_of

#: The newest that a report, or a judge, looks at.
MOST = 100_000
_TOKEN = re.compile(r"([0-9TZ:.-]{27})~(\w{1,64})~([^~\0]{1,128})", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    """Which diffs; None is any. `since` and `until` as `timestamp` writes them."""

    route: str | None = None
    rollout: str | None = None
    arm: str | None = None
    shadow_digest: str | None = None
    outcome: str | None = None
    exact: bool | None = None
    since: str | None = None
    until: str | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        for name in ("route", "rollout", "arm", "shadow_digest", "outcome", "exact"):
            if (value := getattr(self, name)) is not None:
                yield shadow_diffs.c[name] == value
        if self.since is not None:
            yield shadow_diffs.c.at >= self.since
        if self.until is not None:
            yield shadow_diffs.c.at < self.until


class Diffs:
    """For use from any thread. They go with the records of their requests; see `Records`."""

    def __init__(self, database: Database, vault: Vault, clock: Clock = utc_now) -> None:
        self._database, self._vault, self._clock = database, vault, clock

    def write(self, copies: Sequence[Copied]) -> None:
        """Compare all of them, and write that in one transaction, or nothing of it.

        Raises:
            Unavailable: not now.
        """
        diffs = [Diff.of(one) for one in copies]
        sealed = [self._sealed(one) for one in copies if one.keep_text and one.shadow.error is None]
        with self._database.transaction() as tx:
            tenants = {one.tenant for one in copies}
            hashers = hashers_of(tx, self._vault, tenants, at=timestamp(self._clock()))
            rows = [diff.hashed(one, hashers[one.tenant]) for diff, one in zip(diffs, copies, strict=True)]
            tx.execute(shadow_diffs.insert(), [row.to_row() for row in rows])
            if sealed:
                tx.execute(shadow_texts.insert(), sealed)

    def page(self, tenant: str, wanted: Wanted, *, page_size: int = 100, page_token: str = "") -> Page[Diff]:
        """Diffs that are wanted, the newest first.

        Raises:
            InvalidRequest: the token is not one that this list gave out.
        """
        check_page_size(page_size)
        found = self._newest(tenant, wanted, limit=page_size + 1, before=page_token)
        last = found[page_size - 1] if len(found) > page_size else None
        return Page(tuple(found[:page_size]), f"{last.at}~{last.request_id}~{last.arm}" if last else None)

    def of_request(self, tenant: str, request_id: str) -> list[tuple[Diff, Any]]:
        """What became of the copies of one request, and what they said where that is kept.

        Raises:
            Unavailable, Damaged: it is kept, and cannot be read.
        """
        own = shadow_diffs.c.tenant == tenant, shadow_diffs.c.request_id == request_id
        texts = shadow_texts.c.tenant == tenant, shadow_texts.c.request_id == request_id
        with self._database.reading() as tx:
            found = [Diff.from_row(row) for row in tx.execute(select(shadow_diffs).where(*own))]
            said = {row.arm: row.sealed for row in tx.execute(select(shadow_texts).where(*texts))}
        place = _place(request_id)
        return [(one, self._vault.open(tenant, place, said[one.arm]) if one.arm in said else None) for one in found]

    def report(self, tenant: str, wanted: Wanted) -> list[dict[str, Any]]:
        """What they say of each pair of versions; of more than `MOST` the newest."""
        return report_of(self._newest(tenant, wanted, limit=MOST))

    def observations(
        self, tenant: str, route: str, *, rollout: str, arm: str, since: str, limit: int = MOST
    ) -> list[Observation]:
        """The copies that a rollout sent an arm since a time, as gates see answers, in order; the newest `limit`."""
        found = self._newest(tenant, Wanted(route=route, rollout=rollout, arm=arm, since=since), limit=limit)
        return [one.observation for one in reversed(found)]

    def _newest(self, tenant: str, wanted: Wanted, *, limit: int, before: str = "") -> list[Diff]:
        order = shadow_diffs.c.at, shadow_diffs.c.request_id, shadow_diffs.c.arm
        query = select(shadow_diffs).where(shadow_diffs.c.tenant == tenant, *wanted.conditions())
        if before:
            query = query.where(tuple_(*order) < _read_token(before))
        with self._database.reading() as tx:
            rows = tx.execute(query.order_by(*(column.desc() for column in order)).limit(limit))
            return [Diff.from_row(row) for row in rows]

    def _sealed(self, one: Copied) -> dict[str, Any]:
        sealed = self._vault.seal(one.tenant, _place(one.request_id), list(one.shadow.texts))
        return {
            "tenant": one.tenant,
            "request_id": one.request_id,
            "arm": one.arm,
            "at": one.at,
            "sealed": sealed,
        }


def _place(request_id: str) -> str:
    """What the text of a copy is bound to, so that it is never read as the answer."""
    return f"{request_id}/shadow"


def _read_token(token: str) -> tuple[str, ...]:
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
    return found.groups()
