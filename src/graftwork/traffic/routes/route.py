"""Route: one revision of a route, and which of its rules a request meets; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from graftwork.protocol.routes import Defaults, Match, Refusal, RouteSpec
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.routes.arms import RuleArm, arms_of
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.criteria import Criterion, criteria_of
from graftwork.traffic.routes.defaults import NO_DEFAULTS, over

ALWAYS = Match.model_construct()


@dataclass(frozen=True)
class Ruling:
    """The rule that a request meets, or none, with the defaults of it and of those that it fell through."""

    rule: str | None
    arms: tuple[RuleArm, ...] = ()
    refusal: Refusal | None = None
    defaults: Defaults = NO_DEFAULTS


@dataclass(frozen=True)
class Tried:
    """One rule as a request found it: for each of its matches what the request is not; an empty list fits."""

    name: str
    action: str
    matches: tuple[tuple[str, ...], ...]

    @property
    def fits(self) -> bool:
        return not self.matches or any(not why for why in self.matches)


@dataclass(frozen=True)
class Route(Resource[RouteSpec]):
    """What is worked out of the rules is kept with them."""

    def ruling(self, seen: Circumstances) -> Ruling:
        """The first rule that fits and does not say `next`."""
        bits, defaults = self._index.fitting(seen), NO_DEFAULTS
        while bits:
            at = self._index.owners[(bits & -bits).bit_length() - 1]
            rule = self.spec.rules[at]
            defaults = over(defaults, rule.defaults) if rule.defaults else defaults
            if not rule.next:
                return Ruling(self.rule_name(at), self._arms[at], rule.refuse, defaults)
            bits &= ~self._index.of_rule[at]
        return Ruling(None, defaults=defaults)

    def tried(self, seen: Circumstances) -> Iterator[Tried]:
        """Every rule up to the one that decides, and what keeps the request from it."""
        bits, first = self._index.fitting(seen), 0
        failed = [(one, one.demanding & ~one.fitting(seen)) for one in self._index.criteria]
        for at, rule in enumerate(self.spec.rules):
            action = "targets" if rule.targets else "refuse" if rule.refuse else "next"
            why = tuple(
                tuple(one.why_not(match, seen) for one, of in failed if of >> bit & 1)
                for bit, match in enumerate(rule.matches, first)
            )
            yield Tried(self.rule_name(at), action, why)
            if bits & self._index.of_rule[at] and not rule.next:
                return
            first += max(1, len(rule.matches))

    @property
    def arms(self) -> tuple[RuleArm, ...]:
        """Those of all rules."""
        return tuple(arm for arms in self._arms for arm in arms)

    def rule_name(self, at: int) -> str:
        return self.spec.rules[at].name or f"rule-{at + 1}"

    @cached_property
    def _index(self) -> _Index:
        return _Index(self.spec)

    @cached_property
    def _arms(self) -> tuple[tuple[RuleArm, ...], ...]:
        return tuple(arms_of(rule.targets or ()) if rule.targets else () for rule in self.spec.rules)


class _Index:
    """A bit for each match of each rule, in order; a rule without matches has one that always fits."""

    def __init__(self, spec: RouteSpec) -> None:
        self.owners: list[int] = []  #: by bit: which rule it is of
        self.of_rule: list[int] = []  #: by rule: its bits
        numbered: list[tuple[Match, int]] = []
        for at, rule in enumerate(spec.rules):
            before = len(self.owners)
            for match in rule.matches or (ALWAYS,):
                numbered.append((match, 1 << len(self.owners)))
                self.owners.append(at)
            self.of_rule.append((1 << len(self.owners)) - (1 << before))
        every = (1 << len(self.owners)) - 1
        self.criteria: tuple[Criterion, ...] = tuple(criteria_of(numbered))
        self._free = [(one, every & ~one.demanding) for one in self.criteria]
        self._every = every

    def fitting(self, seen: Circumstances) -> int:
        """The bits of all matches that a request fits."""
        bits = self._every
        for one, free in self._free:
            bits &= one.fitting(seen) | free
            if not bits:
                break
        return bits
