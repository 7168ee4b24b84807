"""choose: which version answers a request, by one documented order.

1  adapter_id in the body, or the X-Adapter-Id header; both and different is an error; or adapters in the body, several
   with scales, which together with either of these is an error too
2  model absent, empty or "default", or the name of the base: the base; no adapter can have that name
3  model as a route: every adapter's own name is one, and means @production,
   or its newest version while it never had a production version; while a rollout runs there, the arm that has the
   request's key
4  model as a reference: name:1.4.0, name@alias, name@sha256:…
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from graftwork.access.names import DEFAULT
from graftwork.errors import InvalidRequest, NotFound, Refused, UnknownModel
from graftwork.registry.reference import Newest, Reference, parse_reference
from graftwork.registry.rules.policy import forbid
from graftwork.registry.versions import Version
from graftwork.traffic.composition import Composition
from graftwork.traffic.live_arms import LiveArms, point_in

PRODUCTION = "production"
_LONGEST_ECHO = 200


@dataclass(frozen=True)
class Asked:
    """What the caller said about who should answer."""

    model: str | None = None
    adapter_id: str | None = None
    header: str | None = None
    #: References with scales: these adapters together.
    adapters: tuple[tuple[str, float], ...] = ()
    #: What an arm of a rollout is chosen by: equal ones get the same arm.
    key: str = ""


@dataclass(frozen=True)
class Decision:
    """Who answers, and by which rule: a version, a composition of several, or, with neither, the base itself."""

    version: Version | None
    #: What answers are signed with: `name:1.4.0`, `a:1.0.0*0.7+b:1.0.0*0.3`, or the base's name.
    model: str
    route: str
    arm: str
    #: The rule that won and how the name was read: `model:production`, `adapter_id:newest`, `default:base`.
    reason: str
    composition: Composition | None = None
    #: The rollout that chose the arm, `support/3`.
    rollout: str | None = None

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


class Resolver(Protocol):
    """What a choice reads of the registry's snapshot."""

    def resolve(self, tenant: str, reference: Reference) -> Version:
        """The version that `reference` means now; raises UnknownModel."""
        ...


def choose(asked: Asked, *, tenant: str, base: str, versions: Resolver, rollouts: LiveArms | None = None) -> Decision:
    """The one that answers.

    Raises:
        InvalidRequest: the body and the header name different adapters, or one beside several.
        Refused: the scales of one of several adapters overflow.
        UnknownModel: the name is malformed, unknown or not the caller's to see: one and the same error.
    """
    by_body, by_header = asked.adapter_id, asked.header  # empty ones are malformed: they never mean the base
    if by_body is not None and by_header is not None and by_body != by_header:
        raise InvalidRequest(
            f"adapter_id is {_echo(by_body)!r} but the header X-Adapter-Id is "
            f"{_echo(by_header)!r}. Give one of them, or the same in both.",
            field="adapter_id",
        )
    if asked.adapters:
        if by_body is not None or by_header is not None:
            raise InvalidRequest(
                "adapters names several, and adapter_id or the header X-Adapter-Id one. Give one of these.",
                field="adapters",
            )
        return _composed(asked.adapters, tenant, base, versions)
    if by_body is not None:
        return _adapter(by_body, "adapter_id", tenant, versions)
    if by_header is not None:
        return _adapter(by_header, "header", tenant, versions)
    if not asked.model or asked.model == DEFAULT:
        return _base(base, "default")
    if asked.model == base:  # even if another process has given an adapter that name meanwhile
        return _base(base, "model")
    decision = _adapter(asked.model, "model", tenant, versions)
    return decision if rollouts is None else _rolled_out(decision, asked, tenant, versions, rollouts)


def require_servable(decision: Decision, *, base: str, base_digest: str) -> None:
    """Make sure that the policy lets what was chosen serve, and that it was pushed for the weights that run here.

    Shapes alone would not tell of other weights.

    Raises:
        Forbidden: with what the policy demands and the version lacks.
        Refused: naming both bases.
    """
    for version in decision.versions:
        require_allowed(version)
        if version.base_digest == base_digest:
            continue
        raise Refused(
            f"{version.label} was pushed for the base {version.base} ({version.base_digest[:19]}), but this server "
            f"runs {base} ({base_digest[:19]}). Push the adapter again on this base, or serve it on its own."
        )


def require_allowed(version: Version) -> None:
    """Raises Forbidden where the policy does not let the version serve."""
    forbid(f"The policy forbids to serve {version.label}", version.forbidden)


def _composed(named: Sequence[tuple[str, float]], tenant: str, base: str, versions: Resolver) -> Decision:
    """One version alone at scale 1 is that version, and nothing at all is the base."""
    found = [(_adapter(text, "adapters", tenant, versions), scale) for text, scale in named]
    made = Composition.of((one.version, scale) for one, scale in found if one.version is not None)
    if not made.parts:
        return _base(base, "adapters")
    if len(made.parts) == 1 and made.parts[0][1] == 1:
        digest = made.parts[0][0].digest
        return min((one for one, _ in found if one.digest == digest), key=lambda one: one.model)
    return Decision(None, made.label, made.names, arm="composed", reason="adapters:composed", composition=made)


def _adapter(text: str, rule: str, tenant: str, versions: Resolver) -> Decision:
    unknown = UnknownModel(_echo(text))
    try:
        reference = parse_reference(text)
        if reference.tenant not in (None, tenant):
            raise unknown
        version = versions.resolve(tenant, reference)
    except (InvalidRequest, NotFound):
        raise unknown from None
    arm = _arm(reference, version)
    return Decision(
        version, f"{version.adapter}:{version.semver}", route=version.adapter, arm=arm, reason=f"{rule}:{arm}"
    )


def _rolled_out(decision: Decision, asked: Asked, tenant: str, versions: Resolver, rollouts: LiveArms) -> Decision:
    """The same, or the arm of a rollout that leads away from just that.

    Whoever moved the route's pointer meanwhile has the last word at once; and what may not serve leaves its keys to the
    stable arm.
    """
    if decision.arm != PRODUCTION or (arms := rollouts.arms(tenant, decision.route)) is None:
        return decision
    if arms[-1].digest != decision.digest:
        return decision
    point = point_in(tenant, decision.route, asked.key)
    arm = next(arm for arm in arms if arm.has(point))
    version = None if arm is arms[-1] else _servable(arm.reference, tenant, versions)
    if version is None:
        arm, version = arms[-1], decision.version
    assert version is not None, "the stable arm answered without the rollout"
    reason = f"model:rollout:{arm.name}"
    return replace(decision, version=version, model=version.label, arm=arm.name, reason=reason, rollout=arm.rollout)


def _servable(reference: str, tenant: str, versions: Resolver) -> Version | None:
    try:
        version = versions.resolve(tenant, parse_reference(reference))
    except NotFound:
        return None
    return None if version.forbidden else version


def _arm(reference: Reference, version: Version) -> str:
    if not isinstance(reference.selector, Newest):
        return "explicit"
    return PRODUCTION if PRODUCTION in version.aliases else "newest"


def _base(base: str, rule: str) -> Decision:
    return Decision(None, base, route=base, arm="base", reason=f"{rule}:base")


def _echo(text: str) -> str:
    return text[:_LONGEST_ECHO]
