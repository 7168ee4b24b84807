"""What rollouts need of others: whoever judges arms, moves pointers, and knows what is warm."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from graftwork.db import Transaction
from graftwork.registry.versions import Version
from graftwork.traffic.rollouts.plan import Analysis
from graftwork.traffic.rollouts.rollout import ArmVersion, Rollout
from graftwork.traffic.verdict import Verdict


class Judge(Protocol):
    """Says what the evidence of an arm is worth; it only reads.

    It is asked at each look, several times a second: how often evidence is read anew is for the template to say.
    """

    def check(self, tenant: str, analysis: Analysis) -> None:
        """Raises InvalidRequest where there is no such template, or the arguments do not fit it."""
        ...

    def judge(self, rollout: Rollout, arm: str, analysis: Analysis, since: datetime, now: datetime) -> Verdict:
        """The verdict on `arm` against the stable one, by what was observed from `since` on; never raises for lack."""
        ...


class Pointer(Protocol):
    """What a route means, and how that is moved; all in the transaction of the rollout's own change."""

    def target(self, tx: Transaction, tenant: str, route: str) -> tuple[str, Version]:
        """The reference that the route's requests go to, and the version that it means now.

        Raises:
            NotFound: there is no such route. Conflict: it means no one version.
        """
        ...

    def candidate(self, tx: Transaction, tenant: str, route: str, reference: str) -> Version:
        """The version that the route may mean next.

        Raises:
            NotFound: there is none. Conflict: the route cannot mean it.
        """
        ...

    def move(self, tx: Transaction, tenant: str, route: str, to: ArmVersion, **told: Any) -> None:
        """Let the route mean `to`; `told` are actor, reason and at.

        Raises:
            Forbidden: the policy does not allow it.
        """
        ...


class Readiness(Protocol):
    """Knows what this server's engine has in memory."""

    def problem(self, rollout: Rollout) -> str | None:
        """Why one of the arms cannot be brought to memory, where that will not pass by itself."""
        ...

    def ready(self, rollout: Rollout) -> bool:
        """Whether all candidates are in memory."""
        ...
