"""What rollouts need of others: whoever judges arms, and whoever knows what is warm."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from graftwork.traffic.rollouts.plan import Analysis, Pin
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.verdict import Verdict


class Judge(Protocol):
    """Says what the evidence of an arm is worth; it only reads.

    It is asked at each look, several times a second: how often evidence is read anew is for the template to say.
    """

    def pin(self, tenant: str, analysis: Analysis) -> Pin:
        """What it means from now on, whatever becomes of the template.

        Raises:
            InvalidRequest: there is no such template, or the arguments do not fit it; `field` is the analysis's own.
        """
        ...

    def judge(self, rollout: Rollout, arm: str, analysis: Analysis, since: datetime, now: datetime) -> Verdict:
        """The verdict on `arm` against the stable one, by what was observed from `since` on; never raises for lack."""
        ...

    def keep(self, live: Collection[str]) -> None:
        """Forget what was known of all rollouts but these, by tenant, route and revision: `local/support/3`."""
        ...


class Readiness(Protocol):
    """Knows what this server's engine has in memory."""

    def problem(self, rollout: Rollout) -> str | None:
        """Why one of the arms cannot be brought to memory, where that will not pass by itself."""
        ...

    def waits_for(self, rollout: Rollout) -> str | None:
        """What the candidates that are not in memory wait for, where that is known; a sentence."""
        ...

    def ready(self, rollout: Rollout) -> bool:
        """Whether all candidates are in memory."""
        ...
