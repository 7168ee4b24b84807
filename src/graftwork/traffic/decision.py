"""Asked and Decision: what a caller says about who should answer, and who does."""

from __future__ import annotations

from dataclasses import dataclass

from graftwork.protocol.routes import Defaults
from graftwork.registry.versions import Version
from graftwork.traffic.composition import Composition
from graftwork.traffic.mirror import Shadow
from graftwork.traffic.routes.circumstances import UNKNOWN, Circumstances
from graftwork.traffic.routes.defaults import NO_DEFAULTS
from graftwork.traffic.sessions.pin import Pins, Turn


@dataclass(frozen=True)
class Asked:
    """What the caller said about who should answer."""

    model: str | None = None
    adapter_id: str | None = None
    header: str | None = None
    #: References with scales: these adapters together.
    adapters: tuple[tuple[str, float], ...] = ()
    #: The route at whose own door the request came.
    route: str | None = None
    #: The route that no name at all means, by the key or the tenant.
    default: str | None = None
    #: What rules look at.
    seen: Circumstances = UNKNOWN
    #: What the request's session keeps to; None where it has no session, or sessions keep nothing.
    pins: Pins | None = None


@dataclass(frozen=True)
class Decision:
    """Who answers, and by which rule: a version, a composition of several, or, with neither, the base itself."""

    version: Version | None
    #: What answers are signed with: `name:1.4.0`, `a:1.0.0*0.7+b:1.0.0*0.3`, or the base's name.
    model: str
    route: str
    arm: str
    #: What won and how the name was read: `model:production`, `adapter_id:newest`, `default:base`; of a route resource
    #: also its rule: `model:office-hours:canary`. At its end `session` where the request's session kept to that, and
    #: `released` with the reason where it could keep no longer to what it had.
    reason: str
    composition: Composition | None = None
    #: Of a route resource: the live revision, the rule that won, and what that sets.
    revision: int | None = None
    rule: str | None = None
    defaults: Defaults = NO_DEFAULTS
    #: Where arms were split: what the arm names, and where in [0, 1) the request lies.
    reference: str | None = None
    point: float | None = None
    #: The rollout that chose the arm, `support/3`.
    rollout: str | None = None
    #: What the request did to the pin of its session, where it has one and a route decided.
    turn: Turn | None = None
    #: The copies that are to be made of the request; who asks never learns of them.
    shadows: tuple[Shadow, ...] = ()

    @property
    def versions(self) -> tuple[Version, ...]:
        """All that take part; none for the base."""
        if self.composition is not None:
            return tuple(version for version, _ in self.composition.parts)
        return () if self.version is None else (self.version,)

    @property
    def digest(self) -> str | None:
        """The identity of what answers; None for the base, which has its own."""
        if self.composition is not None:
            return self.composition.digest
        return None if self.version is None else self.version.digest
