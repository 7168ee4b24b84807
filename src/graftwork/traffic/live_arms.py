"""LiveArms: who may answer on a route while it is moved from one version to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from graftwork.registry.reference import Reference
from graftwork.registry.versions import Version
from graftwork.traffic.mirror import Mirror
from graftwork.traffic.routes.arms import Arm
from graftwork.traffic.servable import servable
from graftwork.traffic.split import Slice, point_of


@dataclass(frozen=True)
class LiveArm(Arm):
    """One of a rollout's, with the slices of [0, 1) whose keys it has."""

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

    def mirror(self, tenant: str, route: str) -> Mirror | None:
        """What is copied of the requests there; None where nothing is."""
        ...


def answering(
    arms: Sequence[LiveArm], stable: Version, point: float, resolve: Callable[[Reference], Version]
) -> tuple[LiveArm, Version] | None:
    """The arm that has a point, and its version; None where the route no longer means what the rollout leads away from.

    Whoever moved the route's pointer meanwhile has the last word at once; and what is gone, archived or may not serve
    leaves its keys to the stable arm.
    """
    if arms[-1].digest != stable.digest:
        return None
    arm = next(arm for arm in arms if arm.has(point))
    if arm is not arms[-1] and (version := servable(arm.reference, resolve)) is not None:
        return arm, version
    return arms[-1], stable


def all_answering(
    arms: Sequence[LiveArm], stable: Version, resolve: Callable[[Reference], Version]
) -> Iterator[tuple[LiveArm, Version]]:
    """Every arm that `answering` has keys for, with its version; none where the rollout has no effect."""
    if arms[-1].digest != stable.digest:
        return
    left = bool(arms[-1].slices)
    for arm in (one for one in arms[:-1] if one.slices):
        if (version := servable(arm.reference, resolve)) is not None:
            yield arm, version
        else:
            left = True  # to the stable arm
    if left:
        yield arms[-1], stable


def point_in(tenant: str, route: str, key: str) -> float:
    """Where a key lies on a route: the same on every server, and on another route somewhere else."""
    return point_of(f"{tenant}/{route}", key)
