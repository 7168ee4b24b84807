"""Verdict: what a gate says of the evidence it was shown, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Verdict:
    """`reason` names the figures it rests on, for a person to read."""

    result: Result
    reason: str
    metric: str = ""
    #: What was compared, by name, for whoever draws or stores it.
    figures: tuple[tuple[str, float], ...] = ()
