"""apply: writes what a decision changes, and its event, in the transaction that it was decided in."""

from __future__ import annotations

from graftwork.access import events
from graftwork.db import Transaction
from graftwork.registry import aliases, versions
from graftwork.registry.pointers import Change
from graftwork.registry.subjects import subject_of
from graftwork.registry.view import AdapterView


def apply(
    tx: Transaction, view: AdapterView, change: Change | None, *, actor: str, reason: str | None, at: str
) -> None:
    """None changes nothing and writes no event."""
    if change is None:
        return
    for stage in change.stages:
        versions.set_stage(tx, stage.version, stage.after)
    for move in change.moves:
        before, after = (end.sequence if end else None for end in (move.before, move.after))
        aliases.move(tx, view.tenant, view.name, move.alias, before=before, after=after, at=at, actor=actor)
    events.append(tx, view.tenant, actor, change.kind, subject_of(view.name), change.payload(reason), at=at)
