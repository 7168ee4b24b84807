"""Pointers: what setting an alias or a stage, promoting and rolling back change; values in, values out.

`@production` and `@previous` move only by promote and rollback: `@production` is the version that a bare name
means, alone in stage production, and `@previous` is the one that the next rollback goes back to. A version
that leaves production is archived: it can still be called by its own reference, and promoted again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graftwork.errors import Conflict, NotFound, PreconditionFailed
from graftwork.registry.rules.policy import Policy, require
from graftwork.registry.rules.stages import Stage, check_transition

if TYPE_CHECKING:
    from graftwork.access.events import Event
    from graftwork.registry.versions import Version

PRODUCTION: Final = "production"
PREVIOUS: Final = "previous"
#: As `expected`: the alias must not be there yet, or must be there wherever it points.
ABSENT: Final = "absent"
PRESENT: Final = "present"

ALIAS_SET: Final = "alias.set"
ALIAS_REMOVED: Final = "alias.removed"
STAGE_SET: Final = "stage.set"
PROMOTED: Final = "version.promoted"
ROLLED_BACK: Final = "version.rolled_back"


@dataclass(frozen=True)
class Move:
    """An alias goes from one version to another; None is nowhere."""

    alias: str
    before: Version | None
    after: Version | None

    def to_json(self) -> dict[str, Any]:
        return {
            "alias": self.alias,
            "from": self.before.brief() if self.before else None,
            "to": self.after.brief() if self.after else None,
        }


@dataclass(frozen=True)
class StageChange:
    version: Version
    after: Stage

    def to_json(self) -> dict[str, Any]:
        return {**self.version.brief(), "from": self.version.stage, "to": self.after}


@dataclass(frozen=True)
class Change:
    """What one decision changes, in the order it must be written, with the event that tells of it."""

    kind: str
    moves: tuple[Move, ...]
    stages: tuple[StageChange, ...] = ()

    def __post_init__(self) -> None:
        real = (move for move in self.moves if _sequence(move.before) != _sequence(move.after))
        object.__setattr__(self, "moves", tuple(real))

    def payload(self, reason: str | None) -> dict[str, Any]:
        return {
            "moves": [move.to_json() for move in self.moves],
            "stages": [stage.to_json() for stage in self.stages],
            "reason": reason,
        }


def plan_alias(
    aliases: Mapping[str, Version], alias: str, target: Version, *, expected: str | None = None
) -> Change | None:
    """Set an alias; None when it is there already.

    Raises:
        PreconditionFailed: it does not point where `expected` (a digest, ABSENT, or None for "anywhere")
            says. Conflict: `@production` and `@previous` follow promote and rollback.
    """
    before = aliases.get(alias)
    check_expected(alias, before, expected)
    if before is not None and before.sequence == target.sequence:
        return None
    if alias == PRODUCTION:
        raise Conflict(
            f"{target.label} is in stage {target.stage}, and @production may only name the version in stage "
            f"production; promote {target.label} instead, which moves both."
        )
    _check_free(alias)
    return Change(ALIAS_SET, (Move(alias, before, target),))


def plan_removal(aliases: Mapping[str, Version], alias: str, *, expected: str | None = None) -> Change:
    """Take an alias away.

    Raises:
        NotFound: there is no such alias.
        PreconditionFailed: it does not point where `expected` says.
        Conflict: it is `@production` or `@previous`.
    """
    before = aliases.get(alias)
    if before is None:
        raise NotFound(f"There is no alias @{alias}.")
    check_expected(alias, before, expected)
    if alias == PRODUCTION:
        raise Conflict("@production cannot be taken away; promote another version or roll back.")
    _check_free(alias)
    return Change(ALIAS_REMOVED, (Move(alias, before, None),))


def plan_stage(
    aliases: Mapping[str, Version], target: Version, stage: Stage, policy: Policy, *, expected: Stage | None = None
) -> Change | None:
    """Put a version into a stage; into production as `plan_promote` does. None when it is there already.

    Raises:
        PreconditionFailed: it is not in the stage `expected`.
        Conflict: from its stage nobody may put it there.
        Forbidden: the policy does not allow it.
    """
    check_transition(target.label, target.stage, stage, expected=expected)
    if stage == "production":
        return plan_promote(aliases, target, policy)
    if stage == target.stage:
        return None
    if stage == "staging":
        require("staging", target, policy)
    return Change(STAGE_SET, (), (StageChange(target, stage),))


def plan_promote(aliases: Mapping[str, Version], target: Version, policy: Policy) -> Change | None:
    """Make a version the production version; the one it replaces is archived and becomes `@previous`.

    Raises:
        Forbidden: the policy does not allow it.
    """
    replaced = aliases.get(PRODUCTION)
    if replaced is not None and replaced.sequence == target.sequence:
        return None
    require("production", target, policy)
    moves, stages = [Move(PRODUCTION, replaced, target)], [StageChange(target, "production")]
    if replaced is not None:
        moves.append(Move(PREVIOUS, aliases.get(PREVIOUS), replaced))
        stages.insert(0, StageChange(replaced, "archived"))
    return Change(PROMOTED, tuple(moves), tuple(stages))


def plan_rollback(aliases: Mapping[str, Version], trail: Sequence[Version], policy: Policy) -> Change:
    """Go back one step along the trail of production versions (`production_trail`); the one left is archived.

    Raises:
        Conflict: there is nothing to go back to.
        Forbidden: the policy does not allow the version to be in production any more.
    """
    if len(trail) < 2:
        raise Conflict("There is no earlier production version to roll back to; promote one by its reference.")
    further, target, left = trail[-3] if len(trail) > 2 else None, trail[-2], trail[-1]
    require("production", target, policy, returning=True)
    moves = (Move(PRODUCTION, left, target), Move(PREVIOUS, aliases.get(PREVIOUS), further))
    return Change(ROLLED_BACK, moves, (StageChange(left, "archived"), StageChange(target, "production")))


def production_trail(events: Iterable[Event]) -> list[int]:
    """Sequence numbers of the versions in production and, before it, those that rollbacks go back through.

    A promotion adds to the trail, a rollback takes its last away, and those before it that were deleted meanwhile: two
    rollbacks in a row go two steps back. What is deleted leaves the trail; `live_trail` is what is left of it.
    """
    trail: list[int] = []
    for event in events:
        if event.kind not in (PROMOTED, ROLLED_BACK):
            continue
        now = event.payload["moves"][0]["to"]["sequence"]
        if event.kind == PROMOTED:
            trail.append(now)
            continue
        trail.pop()
        while trail[-1] != now:
            trail.pop()
    return trail


def ever_in_production(events: Iterable[Event]) -> set[int]:
    """Sequence numbers of all versions that were in production at some time."""
    return {event.payload["moves"][0]["to"]["sequence"] for event in events if event.kind == PROMOTED}


def live_trail(trail: Iterable[int], live: Container[int]) -> list[int]:
    """The trail without what was deleted, and without the steps from a version to itself that this leaves."""
    found: list[int] = []
    for sequence in trail:
        if sequence in live and found[-1:] != [sequence]:
            found.append(sequence)
    return found


def check_expected(alias: str, actual: Version | None, expected: str | None) -> None:
    """Raises PreconditionFailed when the alias is not at `expected`: a digest, ABSENT or PRESENT; None is anywhere."""
    if expected is None or expected == (actual.digest if actual else ABSENT) or (actual and expected == PRESENT):
        return
    where = f"at {actual.label} ({actual.digest})" if actual else "not set"
    raise PreconditionFailed(f"The alias @{alias} is {where}, not at {expected} as you expected; look again.")


def _sequence(version: Version | None) -> int | None:
    return version.sequence if version else None


def _check_free(alias: str) -> None:
    if alias == PREVIOUS:
        raise Conflict("@previous follows promote and rollback by itself; choose another alias name.")
