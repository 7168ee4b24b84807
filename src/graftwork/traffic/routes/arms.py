"""Arms: who may answer behind one rule, and which keys each has."""

from __future__ import annotations

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
        RuleArm(name, one.reference, parts[name], f"{lot} {lots[:index].count(lot)}")  # several may lead to the same
        for index, (name, one, lot) in enumerate(zip(names, targets, lots, strict=True))
    )


def pick(arms: Sequence[RuleArm], point: float) -> RuleArm:
    """The arm that has a point."""
    return arms[draw([(arm.lot, arm.share) for arm in arms], point)]


def _name(index: int, count: int) -> str:
    return STABLE if index == count - 1 else f"arm-{index + 1}"
