"""State: where a rollout stands, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from graftwork.access.clock import timestamp
from graftwork.protocol.rollouts import Status
from graftwork.traffic.resize import share_of
from graftwork.traffic.rollouts.plan import STABLE
from graftwork.traffic.split import Slice

#: Why it is paused: somebody asked, a step says so, no verdict came in time, or the policy forbids what comes next.
Held = Literal["asked", "step", "undecided", "forbidden"]
ENDED: Final[frozenset[Status]] = frozenset({"promoted", "completed", "aborted", "superseded"})
ALL_STABLE: Final = (Slice(STABLE, 0.0, 1.0),)


@dataclass(frozen=True)
class State:
    """`step` is the one that is to be done, or that lasts; the number of steps when all are done."""

    status: Status
    entered_at: datetime  #: when that step began
    step: int = 0
    reason: str = ""  #: of the last change, for a person to read
    started_at: datetime | None = None  #: when the candidates were warm
    slices: tuple[Slice, ...] = ALL_STABLE
    mirror: tuple[str, float] | None = None  #: arm and share of requests
    held: Held | None = None
    held_at: datetime | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def promoted(self) -> str | None:
        """The arm that the route was made to mean at the end."""
        return self.slices[0].arm if self.status == "promoted" else None

    def share(self, arm: str) -> float:
        """What part of the keys an arm answers, 0 to 1."""
        return share_of(self.slices, arm)

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "entered_at": timestamp(self.entered_at),
            "step": self.step,
            "reason": self.reason,
            "started_at": timestamp(self.started_at) if self.started_at else None,
            "slices": [[one.arm, one.start, one.end] for one in self.slices],
            "mirror": list(self.mirror) if self.mirror else None,
            "held": self.held,
            "held_at": timestamp(self.held_at) if self.held_at else None,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> State:
        times = {
            name: datetime.fromisoformat(told[name]) if told[name] else None
            for name in ("entered_at", "started_at", "held_at")
        }
        slices = tuple(Slice(arm, start, end) for arm, start, end in told["slices"])
        mirror = tuple(told["mirror"]) if told["mirror"] else None
        return cls(**{**told, **times, "slices": slices, "mirror": mirror})

    def brief(self) -> dict[str, Any]:
        """What events say of it."""
        arms = sorted({one.arm for one in self.slices})
        weights = {arm: round(100 * self.share(arm), 4) for arm in arms}
        mirror = round(100 * self.mirror[1], 4) if self.mirror else 0.0
        return {"status": self.status, "step": self.step, "weights": weights, "mirror": mirror, "held": self.held}
