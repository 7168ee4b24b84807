"""Holders: who needs a version, so that it cannot be deleted; one pure function for each reason, in a table."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graftwork.db import Transaction
from graftwork.errors import Held
from graftwork.registry.pointers import PRODUCTION
from graftwork.registry.retention.holds import Hold
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView

Kind = Literal["alias", "production", "rollback", "derivative", "hold", "pin", "rollout", "route", "task"]


@dataclass(frozen=True)
class Holder:
    """One reason why a version has to stay."""

    kind: Kind
    version: str  #: label of the one that it holds
    name: str  #: of what holds it: an alias, a version, the number of a hold
    message: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Claims:
    """What is known of an adapter when it is asked who needs its versions."""

    view: AdapterView
    trail: Sequence[int]  #: sequence numbers that were in production and are there, the one that is in it last
    promoted: Container[int]  #: all that ever were in production
    rollbacks: int  #: how many steps along the trail shall stay possible
    holds: Sequence[Hold]  #: those in force
    derivatives: Mapping[int, Sequence[Version]]  #: by sequence number: the versions that were made of it
    rollouts: Mapping[int, Sequence[str]]  #: by sequence number: the routes whose live rollouts are about it


HolderRule = Callable[[Claims, Version], Iterable[Holder]]
#: Reads, in the transaction that deletes, who else needs the versions of a tenant: parts above the registry have some.
ReadHolders = Callable[[Transaction, str], HolderRule]


def aliases(claims: Claims, version: Version) -> Iterator[Holder]:
    for alias in version.aliases:
        if alias != PRODUCTION:
            yield Holder("alias", version.label, alias, f"the alias @{alias} names {version.label}")


def production(_: Claims, version: Version) -> Iterator[Holder]:
    if PRODUCTION in version.aliases:
        yield Holder("production", version.label, PRODUCTION, f"{version.label} is in production")


def rollback_targets(claims: Claims, version: Version) -> Iterator[Holder]:
    targets = claims.trail[-1 - claims.rollbacks : -1]
    if version.sequence in targets:
        steps = list(reversed(targets)).index(version.sequence) + 1
        message = f"{version.label} is where {steps} rollback{'s' * (steps > 1)} would lead"
        yield Holder("rollback", version.label, str(steps), message)


def derivatives(claims: Claims, version: Version) -> Iterator[Holder]:
    for child in claims.derivatives.get(version.sequence, ()):
        yield Holder("derivative", version.label, child.label, f"{child.label} was made of {version.label}")


def holds(claims: Claims, version: Version) -> Iterator[Holder]:
    for hold in claims.holds:
        if hold.sequence in (None, version.sequence):
            message = (
                f"the legal hold {hold.number} keeps {version.label}: {hold.reason} "
                f"(`graftwork hold rm {hold.label}` ends it)"
            )
            yield Holder("hold", version.label, str(hold.number), message)


def rollouts(claims: Claims, version: Version) -> Iterator[Holder]:
    for route in claims.rollouts.get(version.sequence, ()):
        yield Holder("rollout", version.label, route, f"a rollout of {route} is about {version.label}")


#: Every reason. A new one is a function here, and what it looks at in `Claims`.
HOLDERS: tuple[HolderRule, ...] = (production, aliases, rollback_targets, derivatives, holds, rollouts)
#: Those of a whole adapter: its own pointers go with it.
HOLDERS_OF_ADAPTER: tuple[HolderRule, ...] = (production, derivatives, holds, rollouts)


def holders_of(claims: Claims, version: Version, rules: Iterable[HolderRule] = HOLDERS) -> list[Holder]:
    """All who need the version, by the reasons given."""
    return [holder for rule in rules for holder in rule(claims, version)]


def refuse_held(what: str, found: Sequence[Holder]) -> None:
    """Raises Held, with all of `found`, where there are any."""
    if found:
        said = "; ".join(holder.message for holder in found[:5])
        rest = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise Held(f"{what} cannot be deleted: {said}{rest}.", holders=[holder.to_json() for holder in found])
