"""write, move: how a name comes to mean something else, and how the log is told, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graftwork.access import events
from graftwork.access.events import Event
from graftwork.db import Transaction
from graftwork.protocol.canonical import sha256
from graftwork.registry.owners import disown
from graftwork.traffic.resources import rows
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Made, Spec


def write(
    tx: Transaction,
    kind: Kind[Spec, Made],
    key: tuple[str, str],
    before: Made | None,
    spec: Spec,
    text: str,
    *,
    actor: str,
    reason: str | None,
    at: str,
) -> Made:
    """Let (tenant, name) mean a new revision; `text` is the kind's text of `spec`, and `before` what is live."""
    made = rows.insert_revision(tx, kind, *key, text=text, digest=sha256(text), at=at, actor=actor, reason=reason)
    after = kind.made(*key, made, spec, at, actor)
    move(tx, kind, kind.set, key, before, after, actor=actor, reason=reason, at=at)
    return after


def move(
    tx: Transaction,
    kind: Kind[Any, Made],
    event: str,
    key: tuple[str, str],
    before: Made | None,
    after: Made | None,
    *,
    actor: str,
    reason: str | None,
    at: str,
) -> None:
    """Let (tenant, name) mean another of its revisions, or nothing; `event` is the kind's word for why.

    Raises:
        PreconditionFailed: it no longer means `before`.
    """
    was, now = (end.revision if end is not None else None for end in (before, after))
    rows.point(
        tx, kind, *key, before=was.number if was else None, after=now.number if now else None, at=at, actor=actor
    )
    payload = {"from": was.brief() if was else None, "to": now.brief() if now else None, "reason": reason}
    if after is None:
        disown(tx, key[0], [(kind.title, key[1])])
    events.append(tx, key[0], actor, event, kind.subject(key[1]), payload, at=at)


def live_trail(kind: Kind[Any, Any], told: Iterable[Event]) -> list[int]:
    """The revisions that rollbacks go back through, the live one last; empty where the name means nothing now.

    A change adds to the trail and a rollback takes away what it goes back over, so that two in a row go two steps back.
    """
    trail: list[int] = []
    for event in told:
        if event.kind == kind.removed:
            trail = []
        elif event.kind in (kind.set, kind.rolled_back):
            number = event.payload["to"]["revision"]
            if event.kind == kind.rolled_back and number in trail:
                del trail[len(trail) - trail[::-1].index(number) :]
            else:
                trail.append(number)
    return trail
