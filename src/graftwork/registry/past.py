"""Past: how an adapter stood at a time, by the log alone; what was pushed never changes, and is read as it lies.

The order of events is that of their positions. A time means the state after the last event that is not later than it by
its own clock, so that a clock that was set back never shows an order that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graftwork.access.events import Event, read_events
from graftwork.db import Transaction
from graftwork.errors import NotFound
from graftwork.registry.registration import CREATED
from graftwork.registry.rules.approval import DECIDED, Opinion
from graftwork.registry.rules.deprecation import DEPRECATED, UNDEPRECATED, Deprecation
from graftwork.registry.rules.policy import OPEN, POLICY_REMOVED, POLICY_SET, POLICY_SUBJECT, Policy
from graftwork.registry.rules.stages import Stage
from graftwork.registry.rules.standing import Standing
from graftwork.registry.subjects import ADAPTER_DELETED, SIGNATURE_ADDED, VERSION_DELETED, subject_of
from graftwork.registry.versions import ever_of
from graftwork.registry.view import AdapterView


@dataclass(frozen=True)
class Pointer:
    """Where an alias points, and who moved it there, when and why."""

    adapter: str
    alias: str
    sequence: int
    version: str
    digest: str
    moved_at: str
    moved_by: str
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def pointers_in(adapter: str, events: Iterable[Event]) -> dict[str, Pointer]:
    """An adapter's aliases after these events of it."""
    found: dict[str, Pointer] = {}
    for event in events:
        if event.kind == ADAPTER_DELETED:
            found.clear()
        for move in event.payload.get("moves", ()):
            found.pop(move["alias"], None)
            if (to := move["to"]) is not None:
                moved = (event.at, event.actor, event.payload["reason"])
                pointer = Pointer(adapter, move["alias"], to["sequence"], to["version"], to["digest"], *moved)
                found[pointer.alias] = pointer
    return found


def moves_of(events: Iterable[Event], alias: str) -> list[Event]:
    """Those of the events that moved the alias."""
    return [event for event in events if any(move["alias"] == alias for move in event.payload.get("moves", ()))]


def aliases_in(events: Iterable[Event]) -> set[str]:
    """Every alias that these events moved."""
    return {move["alias"] for event in events for move in event.payload.get("moves", ())}


def until(events: Sequence[Event], at: str | None) -> list[Event]:
    """The events that had happened at a time; None is now."""
    last = max((event.position for event in events if at is None or event.at <= at), default=0)
    return [event for event in events if event.position <= last]


def view_at(tx: Transaction, view: AdapterView, at: str) -> AdapterView:
    """The adapter as it stood at a time, from how it stands now; with the versions that were deleted since.

    Raises:
        NotFound: it had no version then.
    """
    events = until(read_events(tx, view.tenant, subject_of(view.name)), at)
    replayed = _Replayed()
    for event in events:
        replayed.take(event)
    tenants = until(read_events(tx, view.tenant, POLICY_SUBJECT), at)
    policy = replayed.policy or (_policy(tenants[-1]) if tenants else None) or OPEN
    stages = replayed.stages
    versions = [
        version.with_state({"stage": stages[version.sequence], "aliases": ()})
        for version in ever_of(tx, view.tenant, view.name)
        if version.sequence in stages
    ]
    pointers = {pointer.alias: pointer.sequence for pointer in pointers_in(view.name, events).values()}
    found = AdapterView.of(versions, pointers, replayed.standing(policy))
    if found is None:
        raise NotFound(f"The adapter {view.name} had no version at {at}.")
    return found


@dataclass
class _Replayed:
    """What an adapter's events come to, by sequence number."""

    stages: dict[int, Stage] = field(default_factory=dict)
    opinions: dict[int, tuple[Opinion, ...]] = field(default_factory=dict)
    signers: dict[int, frozenset[str]] = field(default_factory=dict)
    deprecations: dict[int, Deprecation] = field(default_factory=dict)
    policy: Policy | None = None

    def standing(self, policy: Policy) -> Standing:
        return Standing(policy, self.opinions, self.signers, self.deprecations)

    def take(self, event: Event) -> None:
        payload = event.payload
        for change in payload.get("stages", ()):
            self.stages[change["sequence"]] = change["to"]
        match event.kind:
            case kind if kind == CREATED:
                self.stages[payload["sequence"]] = payload["stage"]
            case kind if kind == VERSION_DELETED:
                self.stages.pop(payload["sequence"], None)
            case kind if kind == SIGNATURE_ADDED:
                signers = self.signers.get(payload["sequence"], frozenset())
                self.signers[payload["sequence"]] = signers | {payload["fingerprint"]}
            case kind if kind in DECIDED:
                opinion = Opinion(DECIDED[kind], payload["reason"], event.actor, event.at)
                given = self.opinions.get(payload["sequence"], ())
                self.opinions[payload["sequence"]] = (*given, opinion)
            case kind if kind == DEPRECATED:
                self.deprecations[payload["sequence"]] = Deprecation.from_json(payload)
            case kind if kind == UNDEPRECATED:
                self.deprecations.pop(payload["sequence"], None)
            case kind if kind in (POLICY_SET, POLICY_REMOVED):
                self.policy = _policy(event)


def _policy(event: Event) -> Policy | None:
    after = event.payload["after"]
    return Policy.from_json(after) if after is not None else None
