"""Subjects: what the events of a route are about, and which there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graftwork.access.events import Event

ROUTES = "routes/"
ROUTE_SET: Final = "route.set"
ROUTE_ROLLED_BACK: Final = "route.rolled_back"
ROUTE_REMOVED: Final = "route.removed"


def subject_of_route(name: str) -> str:
    """What the events about a route have as their subject."""
    return f"{ROUTES}{name}"


def route_in(subject: str) -> str | None:
    """The route that an event's subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(ROUTES) if subject.startswith(ROUTES) else None


def live_trail(events: Iterable[Event]) -> list[int]:
    """The revisions that rollbacks go back through, the live one last; empty where there is no route now.

    A change adds to the trail and a rollback takes away what it goes back over, so that two in a row go two steps back.
    """
    trail: list[int] = []
    for event in events:
        if event.kind == ROUTE_REMOVED:
            trail = []
        elif event.kind in (ROUTE_SET, ROUTE_ROLLED_BACK):
            number = event.payload["to"]["revision"]
            if event.kind == ROUTE_ROLLED_BACK and number in trail:
                del trail[len(trail) - trail[::-1].index(number) :]
            else:
                trail.append(number)
    return trail
