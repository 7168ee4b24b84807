"""choose: which version answers a request, by one documented order.

1  adapter_id in the body, or the X-Adapter-Id header; both and different is an error; or adapters in the body, several
   with scales, which together with either of these is an error too
2  model absent, empty or "default": the default route of the key that asks, else of its tenant, else the base
3  model as the name of the base: the base; no adapter and no route can have that name
4  model as a route: a route resource, by its rules; else every adapter's own name is one, and means @production, or its
   newest version while it never had a production version; while a rollout runs there, the arm of the request's key; and
   of those that may answer now the one that the request's session has kept to
5  model as a reference: name:1.4.0, name@alias, name@sha256:…

At a route's own door the route decides; who names a version there names one that the route leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from graftwork.access.names import DEFAULT, GRAMMAR, MAX_LENGTH
from graftwork.errors import InvalidRequest, NotFound, RouteRefused, UnknownModel
from graftwork.registry.reference import Newest, Reference, parse_reference
from graftwork.registry.versions import Version
from graftwork.traffic.composition import Composition
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.live_arms import LiveArm, LiveArms, all_answering, answering, point_in
from graftwork.traffic.mirror import shadows_of
from graftwork.traffic.routes.arms import USER, Arm, pick
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.sessions.pin import Pin, Place, Turn, Why, kept
from graftwork.traffic.sessions.release import Endings, why_released

PRODUCTION = "production"
EXPLICIT = "explicit"
NO_ROUTES = RouteTable()
_LONGEST_ECHO = 200


class Resolver(Protocol):
    """What a choice reads of the registry's snapshot."""

    def resolve(self, tenant: str, reference: Reference) -> Version:
        """The version that `reference` means now; raises UnknownModel."""
        ...


def choose(
    asked: Asked,
    *,
    tenant: str,
    base: str,
    versions: Resolver,
    routes: RouteTable = NO_ROUTES,
    rollouts: LiveArms | None = None,
    endings: Endings | None = None,
) -> Decision:
    """The one that answers.

    Args:
        rollouts: those that run, which may replace a route's sole arm.
        endings: how others ended, for sessions to be told.

    Raises:
        InvalidRequest: the body and the header name different adapters, or one beside several; or at a route's door
            something that the route does not lead to.
        Refused: the scales of one of several adapters overflow.
        UnknownModel: the name is malformed, unknown or not the caller's to see: one and the same error.
        RouteRefused: a rule of the route says so.
        NotFound: no rule of the route fits, or its arm names no version.
    """
    made = _Choice(asked, tenant, base, versions, routes, rollouts, endings).made()
    return made if made.rollout is None or rollouts is None else _mirrored(made, asked, tenant, versions, rollouts)


@dataclass(frozen=True)
class _Choice:
    """One request, and what it is decided on."""

    asked: Asked
    tenant: str
    base: str
    versions: Resolver
    routes: RouteTable
    rollouts: LiveArms | None
    endings: Endings | None

    def made(self) -> Decision:
        asked, explicit = self.asked, self._explicit()
        if asked.adapters:
            if explicit or asked.route is not None:
                raise InvalidRequest(
                    "adapters names several, and adapter_id, the header X-Adapter-Id or the route's own door one. Give "
                    "one of these.",
                    field="adapters",
                )
            return self._composed(asked.adapters)
        if asked.route is not None:
            return self._at_door(asked.route, explicit)
        if explicit:
            return self._adapter(*explicit)
        if asked.model and asked.model != DEFAULT:
            return self._named(asked.model, "model")
        return self._named(asked.default, "default") if asked.default else self._base("default")

    def _explicit(self) -> tuple[str, str] | None:
        """The adapter that is named as such, and where."""
        by_body, by_header = self.asked.adapter_id, self.asked.header  # empty ones are malformed: never the base
        if by_body is not None and by_header is not None and by_body != by_header:
            raise InvalidRequest(
                f"adapter_id is {_echo(by_body)!r} but the header X-Adapter-Id is "
                f"{_echo(by_header)!r}. Give one of them, or the same in both.",
                field="adapter_id",
            )
        if by_body is not None:
            return by_body, "adapter_id"
        return (by_header, "header") if by_header is not None else None

    def _named(self, name: str, how: str) -> Decision:
        if name == self.base:  # even if another process has given an adapter that name meanwhile
            return self._base(how)
        if (route := self.routes.find(self.tenant, name)) is not None:
            return self._routed(route, how)
        found = self._adapter(name, how)
        if found.arm == EXPLICIT:
            return found
        if found.arm != PRODUCTION:
            return self._in_turn((found.route, ""), lambda: found, lambda: iter([found]))
        how = f"{how}:rollout"
        return self._in_turn((found.route, ""), lambda: self._rolled_out(found, how), lambda: self._arms_of(found, how))

    def _routed(self, route: Route, how: str) -> Decision:
        ruling = route.ruling(self.asked.seen)
        if ruling.refusal is not None:
            raise RouteRefused(ruling.refusal.message, status=ruling.refusal.status)
        if ruling.rule is None:
            raise NotFound(f"No rule of the route {route.name} fits this request.")
        how, arms, point = f"{how}:{ruling.rule}", ruling.arms, self._point(route.name)
        of_rule: dict[str, Any] = {"revision": route.revision.number, "rule": ruling.rule, "defaults": ruling.defaults}

        def by_key() -> Decision:
            found = self._armed(route.name, pick(arms, point), point, how)
            return replace(self._rolled_out(found, how) if len(arms) == 1 else found, **of_rule)

        def answering_now() -> Iterator[Decision]:
            for arm in arms:
                with suppress(NotFound):
                    found = self._armed(route.name, arm, point, how)
                    for one in self._arms_of(found, how) if len(arms) == 1 else [found]:
                        yield replace(one, **of_rule)

        return self._in_turn((route.name, ruling.rule), by_key, answering_now)

    def _in_turn(
        self, place: Place, by_key: Callable[[], Decision], answering_now: Callable[[], Iterator[Decision]]
    ) -> Decision:
        """What the request's session keeps to, of what answers at a place now; else what its key falls to."""
        if (pins := self.asked.pins) is None:
            return by_key()
        options = [one for one in answering_now() if not any(version.forbidden for version in one.versions)]
        told = tuple((one.arm, one.digest) for one in options)
        index, before = kept(pins, place, told), pins.get(place)
        found = options[index] if index is not None else by_key()
        ground = (found.revision, next((one.rollout for one in options if one.rollout is not None), None), told)
        now = Pin(_called(found), found.digest, found.arm, found.rollout, before.number if before else 1)
        if index is not None:
            turn = Turn(place, "kept", before or now, ground)
        elif before is None:
            turn = Turn(place, "began", now, ground)
        else:
            now = replace(now, number=before.number + 1)
            turn = Turn(place, "released", now, ground, self._why(before, place[0], ground[1]), before)
        return replace(found, turn=turn, reason=found.reason + turn.told)

    def _armed(self, route: str, arm: Arm, point: float, how: str) -> Decision:
        reference = self._filled(route, arm)
        try:
            found = self._base(how) if reference == self.base else self._adapter(reference, how)
        except UnknownModel:
            raise _leads_nowhere(route, arm, reference) from None
        reason = f"{how}:{arm.name}"
        return replace(found, route=route, arm=arm.name, reason=reason, reference=reference, point=point)

    def _rolled_out(self, found: Decision, how: str) -> Decision:
        """The same, or the arm of a rollout of its route that leads away from just that version."""
        arms = self._live_arms(found.route)
        if not arms or found.version is None:
            return found
        point = self._point(found.route)
        moved = answering(arms, found.version, point, self._resolve)
        return found if moved is None else _moved(found, *moved, point, how)

    def _arms_of(self, found: Decision, how: str) -> Iterator[Decision]:
        """Whatever `_rolled_out` may make of it, for any key."""
        arms = self._live_arms(found.route)
        made = [*all_answering(arms, found.version, self._resolve)] if arms and found.version is not None else []
        point = self._point(found.route)
        yield from (_moved(found, arm, version, point, how) for arm, version in made) if made else [found]

    def _why(self, pin: Pin, route: str, rollout: str | None) -> Why:
        version = None if pin.adapter is None else self._pinned(f"{pin.adapter}@{pin.digest}")
        of = pin.rollout
        ending = None if of is None or self.endings is None else self.endings.ending(self.tenant, route, of)
        runs = rollout is not None and (of == rollout or self._live_arms(route)[-1].digest == pin.digest)
        return why_released(pin, version, runs=runs, ending=ending)

    def _pinned(self, reference: str) -> Version | None:
        try:
            return self._resolve(parse_reference(reference))
        except NotFound:
            return None

    def _resolve(self, reference: Reference) -> Version:
        return self.versions.resolve(self.tenant, reference)

    def _point(self, route: str) -> float:
        return point_in(self.tenant, route, self.asked.seen.split_key)

    def _live_arms(self, route: str) -> Sequence[LiveArm]:
        return (self.rollouts.arms(self.tenant, route) or ()) if self.rollouts is not None else ()

    def _filled(self, route: str, arm: Arm) -> str:
        """The reference with the user's id, which is never rewritten: what is no part of a name leads nowhere."""
        if USER not in arm.reference:
            return arm.reference
        user = self.asked.seen.user
        if user is None or len(user) > MAX_LENGTH or not GRAMMAR.fullmatch(user):
            raise _leads_nowhere(route, arm, arm.reference)
        return arm.reference.replace(USER, user)

    def _at_door(self, door: str, explicit: tuple[str, str] | None) -> Decision:
        model, route = self.asked.model, self.routes.find(self.tenant, door)
        if explicit is None and model and model not in (DEFAULT, door):
            explicit = model, "model"
        if explicit is None:
            return self._named(door, "route")
        if route is None and door != self.base:
            self._adapter(door, "route")  # an unknown door is unknown, whatever is asked for there
        found = self._adapter(*explicit)
        if not self._leads_to(door, route, found):
            raise InvalidRequest(
                f"{explicit[1]} is {_echo(explicit[0])!r}, which the route {_echo(door)} does not lead to. Leave it "
                "out, or ask at /v1.",
                field="model" if explicit[1] == "model" else "adapter_id",
            )
        return replace(found, route=door)

    def _leads_to(self, door: str, route: Route | None, found: Decision) -> bool:
        if route is None:
            return found.route == door
        for arm in {arm.reference: arm for arm in (*route.arms, *self._live_arms(door))}.values():
            try:
                if self._adapter(self._filled(door, arm), "route").digest == found.digest:
                    return True
            except NotFound:
                continue
        return False

    def _composed(self, named: Sequence[tuple[str, float]]) -> Decision:
        """One version alone at scale 1 is that version, and nothing at all is the base."""
        found = [(self._adapter(text, "adapters"), scale) for text, scale in named]
        made = Composition.of((one.version, scale) for one, scale in found if one.version is not None)
        if not made.parts:
            return self._base("adapters")
        if len(made.parts) == 1 and made.parts[0][1] == 1:
            digest = made.parts[0][0].digest
            return min((one for one, _ in found if one.digest == digest), key=lambda one: one.model)
        return Decision(None, made.label, made.names, arm="composed", reason="adapters:composed", composition=made)

    def _adapter(self, text: str, how: str) -> Decision:
        unknown = UnknownModel(_echo(text))
        try:
            reference = parse_reference(text)
            version = self.versions.resolve(self.tenant, reference)
        except (InvalidRequest, NotFound):
            raise unknown from None
        arm = _arm(reference, version)
        name = version.adapter if version.tenant == self.tenant else f"{version.tenant}/{version.adapter}"
        return Decision(version, f"{name}:{version.semver}", route=name, arm=arm, reason=f"{how}:{arm}")

    def _base(self, how: str) -> Decision:
        return Decision(None, self.base, route=self.base, arm="base", reason=f"{how}:base")


def _moved(found: Decision, arm: LiveArm, version: Version, point: float, how: str) -> Decision:
    """A route's sole arm in the place of which a rollout has put one of its own."""
    return replace(
        found,
        version=version,
        model=version.label,
        arm=arm.name,
        reason=f"{how}:{arm.name}",
        reference=arm.reference,
        point=point,
        rollout=arm.rollout,
    )


def _called(found: Decision) -> str | None:
    """The adapter as a reference of the caller's names it."""
    return None if found.version is None else found.model.rpartition(":")[0]


def _mirrored(made: Decision, asked: Asked, tenant: str, versions: Resolver, rollouts: LiveArms) -> Decision:
    """The same with the copies that the rollout which decided has made."""
    mirror = rollouts.mirror(tenant, made.route)
    if mirror is None or mirror.rollout != made.rollout or made.digest is None:
        return made

    def resolve(reference: Reference) -> Version:
        return versions.resolve(tenant, reference)

    shadows = shadows_of(mirror, tenant, made.route, asked.seen.request, made.digest, resolve)
    return replace(made, shadows=shadows) if shadows else made


def _arm(reference: Reference, version: Version) -> str:
    if not isinstance(reference.selector, Newest):
        return EXPLICIT
    return PRODUCTION if PRODUCTION in version.aliases else "newest"


def _leads_nowhere(route: str, arm: Arm, reference: str) -> NotFound:
    return NotFound(f"The route {route} leads to {_echo(reference)} (arm {arm.name}), which names no version.")


def _echo(text: str) -> str:
    return text[:_LONGEST_ECHO]
