"""Arms: who may answer behind one rule, and which keys each has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from graftwork.protocol.routes import Target
from graftwork.traffic.split import draw, shares

#: What a sole or last target is called that has no name of its own.
STABLE = "stable"
#: In a reference: the id of the user who asks.
USER = "{user}"


@dataclass(frozen=True)
class Arm:
    """A name, the reference that answers, and its share of all keys, 0 to 1."""

    name: str
    reference: str
    share: float


@dataclass(frozen=True)
class RuleArm(Arm):
    """One of a rule's targets."""

    lot: str  #: what its keys are drawn under: its name if it has one of its own, else what it leads to


def arms_of(targets: Sequence[Target]) -> tuple[RuleArm, ...]:
    """A rule's targets, in the order in which they were written; who is where does not depend on that order.

    Raises:
        InvalidRequest: two have the same name.
    """
    names = [one.arm or _name(index, len(targets)) for index, one in enumerate(targets)]
    parts = shares([(name, float(one.weight or 1)) for name, one in zip(names, targets, strict=True)])
    lots = [f"arm {one.arm}" if one.arm is not None else f"to {one.reference}" for one in targets]
    return tuple(
        RuleArm(name, one.reference, parts[name], f"{lot} {rank}")
        for name, one, lot, rank in zip(
            names, targets, lots, _ranks(lots, [parts[name] for name in names]), strict=True
        )
    )


def pick(arms: Sequence[RuleArm], point: float) -> RuleArm:
    """The arm that has a point."""
    return arms[draw([(arm.lot, arm.share) for arm in arms], point)]


def _ranks(lots: Sequence[str], weights: Sequence[float]) -> list[int]:
    """Of each how many are before it that lead to the same: the heaviest first, whatever order they were written in.

    So one that is added makes none of them lighter, nor one that is removed any heavier.
    """
    ranks = [0] * len(lots)
    before: Counter[str] = Counter()
    for at in sorted(range(len(lots)), key=lambda at: -weights[at]):
        ranks[at] = before[lots[at]]
        before[lots[at]] += 1
    return ranks


def _name(index: int, count: int) -> str:
    return STABLE if index == count - 1 else f"arm-{index + 1}"
