"""LiveArms: who may answer on a route while it is moved from one version to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from graftwork.traffic.split import Slice, point_of


@dataclass(frozen=True)
class LiveArm:
    """A name, the reference that answers, and the slices of [0, 1) whose keys it has."""

    name: str
    reference: str
    slices: tuple[Slice, ...]
    digest: str  #: what the reference must mean, or else somebody moved it meanwhile
    rollout: str  #: `support/3`: the third of its route

    def has(self, point: float) -> bool:
        return any(one.start <= point < one.end for one in self.slices)


class LiveArms(Protocol):
    """What rollouts have made of routes."""

    def arms(self, tenant: str, route: str) -> Sequence[LiveArm] | None:
        """The arms of the rollout that runs there, the stable one last; None where none does. They cover [0, 1)."""
        ...


def point_in(tenant: str, route: str, key: str) -> float:
    """Where a key lies on a route: the same on every server, and on another route somewhere else."""
    return point_of(f"{tenant}/{route}", key)
