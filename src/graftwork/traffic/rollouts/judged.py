"""Judged: what gates say of a rollout's arms, at one look, by one template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from graftwork.access.clock import timestamp
from graftwork.traffic.gates.arguments import told
from graftwork.traffic.rollouts.plan import Analysis
from graftwork.traffic.verdict import Verdict


@dataclass(frozen=True)
class Judged:
    """Verdicts by arm, and what they rest on; an arm that is left out is not known yet."""

    analysis: Analysis
    since: datetime
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[str, Verdict] | None:
        """The first arm, by name, that fails, and why."""
        found = (one for one in sorted(self.verdicts.items()) if one[1].result == "fail")
        return next(found, None)

    def passed(self, arms: tuple[str, ...]) -> bool:
        """Whether all of them do."""
        return set(self.verdicts) >= set(arms) and all(one.result == "pass" for one in self.verdicts.values())

    @property
    def said(self) -> str:
        """Of every arm the reason, for a person to read."""
        return " ".join(f"{arm}: {one.reason}" for arm, one in sorted(self.verdicts.items()))

    def to_json(self) -> list[dict[str, Any]]:
        """How each arm stands."""
        of = {"name": self.analysis.name, "revision": self.analysis.revision, "args": told(self.analysis.args)}
        of |= {"since": timestamp(self.since)}
        return [
            {"arm": arm, **of, "result": one.result, "reason": one.reason, "metrics": _metrics(one)}
            for arm, one in sorted(self.verdicts.items())
        ]


def _metrics(verdict: Verdict) -> list[dict[str, Any]]:
    """Of a verdict on several metrics each; on one, that one."""
    parts = verdict.parts or ((verdict,) if verdict.metric else ())
    return [one.to_json() for one in parts]
