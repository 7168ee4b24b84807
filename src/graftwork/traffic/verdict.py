"""Verdict: what a gate says of the evidence it was shown, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Result = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Verdict:
    """`reason` names the figures it rests on, for a person to read."""

    result: Result
    reason: str
    metric: str = ""
    #: What was compared, by name, for whoever draws or stores it.
    figures: tuple[tuple[str, float], ...] = ()
    #: How many looks said so each, where there were several; those that nothing said are left out.
    looks: Mapping[Result, int] = field(default_factory=dict)
    #: Of each metric, where it is of several.
    parts: tuple[Verdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """How a metric stands."""
        told = {"name": self.metric, "result": self.result, "reason": self.reason}
        return {**told, "figures": dict(self.figures), "looks": dict(self.looks)}
