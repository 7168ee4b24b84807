"""Explanation: how the adapters that answered stood when that was decided, and who brought them there; by the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graftwork.access.events import Event, read_events
from graftwork.db import Transaction
from graftwork.registry.past import Pointer, pointers_in
from graftwork.registry.subjects import subject_of
from graftwork.traffic.records.record import Record


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
        log = read_events(tx, record.tenant, subject_of(part["adapter"]))
        known = [event for event in log if event.position <= record.position]
        pointers = tuple(sorted(pointers_in(part["adapter"], known).values(), key=lambda one: one.alias))
        about = tuple(event for event in known if _is_about(event, part["sequence"]))
        yield Told(part["adapter"], part["version"], part["digest"], pointers, about)


def _is_about(event: Event, sequence: int) -> bool:
    """Whether it pushed, moved, staged, judged or signed the version with this number."""
    payload = event.payload
    moved = [move[side] for move in payload.get("moves", ()) for side in ("from", "to")]
    named = [payload, *moved, *payload.get("stages", ())]
    return any(one is not None and one.get("sequence") == sequence for one in named)
