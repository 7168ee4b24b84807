"""AdapterModel: what one adapter of a registry should be, in the plainest terms, for tests to hold a registry to."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from graftwork.registry.retention.rules import Rules
from graftwork.registry.rules.policy import Gate, Policy
from graftwork.registry.rules.stages import Stage

#: Who pushes everything.
AUTHOR = "me"


class AdapterModel:
    """Versions are their sequence numbers."""

    def __init__(self) -> None:
        self.count = 0  # ever pushed
        self.live: dict[int, bytes] = {}  # to their weights
        self.added: dict[int, set[bytes]] = {}  # documents, reports and signatures
        self.trail: list[int] = []  # the last one is in production
        self.promoted: set[int] = set()
        self.aliases: dict[str, int] = {}
        self.stages: dict[int, Stage] = {}
        self.verdicts: dict[int, dict[str, str]] = {}  # by actor
        self.signed: set[int] = set()
        self.deprecated: set[int] = set()
        self.policy: Policy | None = None
        self.held: set[int | None] = set()  # None: all of it
        self.rules = Rules()

    def push(self, weights: bytes) -> int:
        """The same weights again are the version that has them."""
        for sequence, known in self.live.items():
            if known == weights:
                return sequence
        self.count += 1
        self.live[self.count], self.added[self.count] = weights, set()
        self.stages[self.count] = "development"
        return self.count

    def promote(self, sequence: int) -> None:
        if self.trail[-1:] != [sequence]:
            self.trail.append(sequence)
            self._enter_production(sequence)

    def rollback(self) -> int:
        self.trail.pop()
        self._enter_production(self.trail[-1])
        return self.trail[-1]

    def _enter_production(self, sequence: int) -> None:
        self.promoted.add(sequence)
        self.stages |= {one: "archived" for one, stage in self.stages.items() if stage == "production"}
        self.stages[sequence] = "production"

    def drop(self, sequence: int) -> None:
        """Whatever was said of a version goes with it; rollbacks step over it."""
        for said in (self.live, self.added, self.stages, self.verdicts):
            said.pop(sequence, None)
        for about in (self.held, self.signed, self.deprecated):
            about.discard(sequence)
        self.trail = [one for one, _ in groupby(one for one in self.trail if one != sequence)]

    def drop_all(self) -> None:
        self.aliases.clear()
        self.rules = Rules()
        for sequence in list(self.live):
            self.drop(sequence)

    def pointers(self) -> dict[str, int]:
        """By alias, those that follow promotions among them."""
        following = zip(("production", "previous"), reversed(self.trail), strict=False)
        return {**self.aliases, **dict(following)}

    def approval(self, sequence: int, policy: Policy) -> str:
        given = self.verdicts.get(sequence, {})
        if "rejected" in given.values():
            return "rejected"
        counted = [actor for actor in given if policy.approval.author_may_approve or actor != AUTHOR]
        return "approved" if len(counted) >= policy.approval.needed else "pending"

    def may_pass(self, gate: Gate, sequence: int, policy: Policy, *, returning: bool = False) -> bool:
        met = {
            "approval": self.approval(sequence, policy) == "approved",
            "signature": sequence in self.signed,
            "staging": returning or self.stages[sequence] in ("staging", "production"),
        }
        return all(met[demand] for demand in policy.require.get(gate, ()))

    def state(self, policy: Policy) -> dict[int, dict[str, Any]]:
        """What may change of each version that is there."""
        pointers = self.pointers()
        return {
            one: {
                "stage": self.stages[one],
                "aliases": sorted(alias for alias, at in pointers.items() if at == one),
                "approval": self.approval(one, policy),
                "signed": one in self.signed,
                "deprecated": one in self.deprecated,
                "forbidden": not self.may_pass("serving", one, policy),
            }
            for one in self.live
        }

    def holders(self, sequence: int) -> set[str]:
        """Why it cannot be deleted."""
        found = {"alias" if alias != "production" else alias for alias, at in self.pointers().items() if at == sequence}
        if sequence in self.trail[-1 - self.rules.keep_rollbacks : -1]:
            found.add("rollback")
        return found | ({"hold"} if self.held & {None, sequence} else set())

    def going(self) -> set[int]:
        """What the retention rules let go."""
        return {one for place, one in enumerate(sorted(self.live, reverse=True)) if self._may_go(place, one)}

    def _may_go(self, place: int, one: int) -> bool:
        if place == 0 or self.holders(one) or (self.rules.keep_production and one in self.promoted):
            return False
        if self.stages[one] == "archived" and self.rules.archived_days is not None:
            return True
        return self.rules.keep_last is not None and place >= self.rules.keep_last
