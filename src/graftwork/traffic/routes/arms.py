"""Arms: who may answer behind one rule, and which keys each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graftwork.protocol.routes import Target
from graftwork.traffic.split import Slice, slices_of

#: What a sole or last target is called that has no name of its own.
STABLE = "stable"
#: In a reference: the id of the user who asks.
USER = "{user}"


@dataclass(frozen=True)
class Arm:
    """A name, the reference that answers, and the slices of [0, 1) whose keys it has."""

    name: str
    reference: str
    slices: tuple[Slice, ...]

    @property
    def share(self) -> float:
        return sum(one.end - one.start for one in self.slices)

    def has(self, point: float) -> bool:
        return any(one.start <= point < one.end for one in self.slices)


def arms_of(targets: Sequence[Target]) -> tuple[Arm, ...]:
    """A rule's targets, in the order in which they were written; who is where does not depend on that order."""
    names = [one.arm or _name(index, len(targets)) for index, one in enumerate(targets)]
    weighted = [(name, float(one.weight or 1)) for name, one in zip(names, targets, strict=True)]
    slices = slices_of([weighted[index] for index in sorted(range(len(targets)), key=lambda one: _place(targets[one]))])
    return tuple(
        Arm(name, one.reference, tuple(piece for piece in slices if piece.arm == name))
        for name, one in zip(names, targets, strict=True)
    )


def pick(arms: Sequence[Arm], point: float) -> Arm:
    """The arm that has a point."""
    return next(arm for arm in arms if arm.has(point))


def _place(target: Target) -> tuple[bool, str]:
    """Where its slices lie beside others': the stable one's last, the others' by their names, or what they lead to."""
    return target.arm == STABLE, target.arm or target.reference


def _name(index: int, count: int) -> str:
    return STABLE if index == count - 1 else f"arm-{index + 1}"
