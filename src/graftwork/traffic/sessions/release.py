"""why_released: why a session cannot keep to what it had; pure."""

from __future__ import annotations

from typing import Protocol

from graftwork.registry.versions import Version
from graftwork.traffic.routes.arms import STABLE
from graftwork.traffic.sessions.pin import Ending, Pin, Why


class Endings(Protocol):
    """What is known of rollouts that are over."""

    def ending(self, tenant: str, route: str, rollout: str) -> Ending | None:
        """How it ended; None where it runs, or nobody knows."""
        ...


def why_released(pin: Pin, version: Version | None, *, runs: bool, ending: Ending | None) -> Why:
    """What the caller is told.

    That it was archived says something of a rollout's arm; what a name meant is archived by whatever moves the name.

    Args:
        version: the pinned one as it stands now; None where it is gone, or the pin is of the base.
        runs: whether the rollout that decides here is the pin's own, or leads away from the pinned version.
        ending: how that ended, where it has.
    """
    if version is None:
        return "moved" if pin.adapter is None else "deleted"
    if version.forbidden:
        return "forbidden"
    if pin.rollout is not None and pin.arm != STABLE and ending != "promoted":
        if version.stage == "archived":
            return "archived"
        return "weight" if runs else ending or "moved"
    if runs:
        return "weight"
    return "promoted" if ending == "promoted" and pin.arm == STABLE else "moved"
