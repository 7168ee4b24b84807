"""Rollout: one run of a plan: the versions it is about, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graftwork.access.clock import timestamp
from graftwork.protocol.rollouts import RolloutSpec
from graftwork.traffic.live_arms import LiveArm
from graftwork.traffic.mirror import Mirror
from graftwork.traffic.rollouts.plan import STABLE, Plan
from graftwork.traffic.rollouts.state import State


@dataclass(frozen=True)
class ArmVersion:
    """The version that an arm stands for."""

    arm: str
    adapter: str
    sequence: int
    semver: str
    digest: str

    @property
    def label(self) -> str:
        return f"{self.adapter}:{self.semver}"


@dataclass(frozen=True)
class Rollout:
    """Immutable; `changes` tells two states of one apart."""

    tenant: str
    route: str
    revision: int
    spec: Mapping[str, Any]
    arms: Mapping[str, ArmVersion]
    state: State
    changes: int
    analyses: Sequence[Mapping[str, Any]]  #: how each arm stood when it was looked at last
    created_at: str
    created_by: str
    updated_at: str
    ended_at: str | None
    waits_for: str | None = None  #: of candidates that were not in memory when it was looked at last

    @cached_property
    def plan(self) -> Plan:
        return Plan.of(RolloutSpec.model_validate(self.spec))

    @property
    def name(self) -> str:
        """`support/3`: the third of its route."""
        return f"{self.route}/{self.revision}"

    @property
    def full_name(self) -> str:
        """Of all tenants': `local/support/3`."""
        return f"{self.tenant}/{self.name}"

    @cached_property
    def live_arms(self) -> tuple[LiveArm, ...]:
        """Each candidate by its digest, and last the stable arm, which means what the route means."""
        found = []
        for name, version in self.by_arm:
            reference = self.spec["stable"] if name == STABLE else f"{version.adapter}@{version.digest}"
            own = tuple(one for one in self.state.slices if one.arm == name)
            found.append(LiveArm(name, reference, self.state.share(name), own, version.digest, self.name))
        return tuple(found)

    @cached_property
    def mirror(self) -> Mirror | None:
        """What is copied of the requests that the stable arm answers."""
        if self.state.mirror is None:
            return None
        arm, share = self.state.mirror
        reference = f"{self.arms[arm].adapter}@{self.arms[arm].digest}"
        return Mirror(arm, reference, share, self.name, self.arms[STABLE].digest)

    @property
    def by_arm(self) -> list[tuple[str, ArmVersion]]:
        """Arms and their versions, the stable one last."""
        return sorted(self.arms.items(), key=lambda one: (one[0] == STABLE, one[0]))

    def to_json(self) -> dict[str, Any]:
        state, plan = self.state, self.plan
        return {
            "route": self.route,
            "revision": self.revision,
            "status": state.status,
            "strategy": plan.strategy,
            "step": state.step,
            "steps": len(plan.steps),
            "reason": state.reason,
            "held": state.held,
            "waits_for": self.waits_for if state.status == "warming" else None,
            "arms": [
                {
                    "arm": name,
                    "version": one.label,
                    "digest": one.digest,
                    "weight": round(100 * state.share(name), 4) if state.status != "superseded" else 0.0,
                }
                for name, one in self.by_arm
            ],
            "analyses": [dict(one) for one in self.analyses],
            "mirror": round(100 * state.mirror[1], 4) if state.mirror else 0.0,
            "entered_at": timestamp(state.entered_at),
            "created_at": self.created_at,
            "created_by": self.created_by,
            "updated_at": self.updated_at,
            "ended_at": self.ended_at,
            "spec": dict(self.spec),
        }
