"""Feedback: scores and business events that are said of an answer afterwards; one of each name and source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, and_, select

from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.db.schema import feedback, predictions
from graftwork.errors import NotFound


@dataclass(frozen=True)
class Feedback:
    """A number, a label, or both; `source` says from where: `user`, `judge`, `checkout`."""

    request_id: str
    name: str
    source: str
    value: float | None
    label: str | None
    at: str = ""
    by: str = ""

    @classmethod
    def from_row(cls, row: Row[Any]) -> Feedback:
        return cls(row.request_id, row.name, row.source, row.value, row.label, row.at, row.by)

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


class Feedbacks:
    """For use from any thread."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock

    def give(self, tenant: str, said: Feedback, *, actor: str) -> tuple[Feedback, bool]:
        """What is said now, and whether nothing was said under this name from this source before.

        The same again changes nothing; another value takes the place of the one before.

        Raises:
            NotFound: the tenant has no record of the request: there was none, or it is kept no longer.
        """
        with self._database.transaction() as tx:
            own = and_(predictions.c.tenant == tenant, predictions.c.request_id == said.request_id)
            if tx.execute(select(predictions.c.request_id).where(own)).first() is None:
                raise NotFound(f"There is no record of the request {said.request_id[:64]}.")
            same = (_of(tenant, said.request_id), feedback.c.name == said.name, feedback.c.source == said.source)
            known = tx.execute(select(feedback).where(*same)).first()
            if known is not None and (known.value, known.label) == (said.value, said.label):
                return Feedback.from_row(known), False
            said = replace(said, at=timestamp(self._clock()), by=actor)
            if known is None:
                tx.execute(feedback.insert().values({"tenant": tenant, **said.to_json()}))
            else:
                now = {"value": said.value, "label": said.label, "at": said.at, "by": said.by}
                tx.execute(feedback.update().where(*same).values(now))
            return said, known is None


def feedback_of(tx: Transaction, tenant: str, request_id: str) -> list[Feedback]:
    """All that was said of one answer."""
    query = select(feedback).where(_of(tenant, request_id)).order_by(feedback.c.name, feedback.c.source)
    return [Feedback.from_row(row) for row in tx.execute(query)]


def _of(tenant: str, request_id: str) -> Any:
    return and_(feedback.c.tenant == tenant, feedback.c.request_id == request_id)
