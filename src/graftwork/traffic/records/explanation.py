"""Explanation: how what decided and what answered stood then, and who had brought it there; by the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graftwork.access.events import Event, read_events
from graftwork.db import Transaction
from graftwork.registry.past import Pointer, pointers_in
from graftwork.registry.subjects import subject_of
from graftwork.traffic.records.record import Record
from graftwork.traffic.rollouts.subjects import subject_of as subject_of_rollout
from graftwork.traffic.routes.routes import ROUTE


@dataclass(frozen=True)
class Told:
    """Of one adapter: where its aliases pointed, and all that had been done with the version that answered."""

    adapter: str
    version: str
    digest: str
    pointers: tuple[Pointer, ...]
    events: tuple[Event, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "adapter": self.adapter,
            "version": self.version,
            "digest": self.digest,
            "pointers": [one.to_json() for one in self.pointers],
            "events": [one.to_json() for one in self.events],
        }


def history_of(tx: Transaction, record: Record) -> Iterator[Told]:
    """Each adapter that took part, after the last event that the decision knew: positions say so, no clocks."""
    for part in record.adapters:
        known = _known(tx, record, subject_of(part["adapter"]))
        pointers = tuple(sorted(pointers_in(part["adapter"], known).values(), key=lambda one: one.alias))
        about = tuple(event for event in known if _is_about(event, part["sequence"]))
        yield Told(part["adapter"], part["version"], part["digest"], pointers, about)


def deciding(tx: Transaction, record: Record) -> Iterator[Event]:
    """Who had set the revision of the route that decided, and who had moved the rollout; none where neither did."""
    if record.route is not None and record.route_revision is not None:
        for event in _known(tx, record, ROUTE.subject(record.route)):
            if (event.payload.get("to") or {}).get("revision") == record.route_revision:
                yield event
    if record.rollout is not None:
        route, _, number = record.rollout.rpartition("/")
        for event in _known(tx, record, subject_of_rollout(route)):
            if event.payload.get("revision") == int(number):
                yield event


def _known(tx: Transaction, record: Record, subject: str) -> list[Event]:
    """The events about something that had happened by the position at which it was decided."""
    return [event for event in read_events(tx, record.tenant, subject) if event.position <= record.position]


def _is_about(event: Event, sequence: int) -> bool:
    """Whether it pushed, moved, staged, judged or signed the version with this number."""
    payload = event.payload
    moved = [move[side] for move in payload.get("moves", ()) for side in ("from", "to")]
    named = [payload, *moved, *payload.get("stages", ())]
    return any(one is not None and one.get("sequence") == sequence for one in named)
