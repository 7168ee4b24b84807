"""Stages: how far a version is approved, and from which stage it may go to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from graftwork.errors import Conflict, PreconditionFailed

Stage = Literal["development", "staging", "production", "archived"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)

#: From each stage, where somebody may put a version. Production is entered by promotion or rollback only, which move
#: `@production` with it, and left only when another version enters it: a bare name never loses its meaning.
ALLOWED: Final[Mapping[Stage, tuple[Stage, ...]]] = {
    "development": ("staging", "production", "archived"),
    "staging": ("development", "production", "archived"),
    "production": (),
    "archived": ("staging", "production"),
}


def check_transition(label: str, before: Stage, after: Stage, *, expected: Stage | None = None) -> None:
    """Whether the version called `label` may go from one stage to another.

    Raises:
        PreconditionFailed: it is not in the stage `expected`.
        Conflict: it may not, naming what is allowed.
    """
    if expected not in (None, before):
        raise PreconditionFailed(f"{label} is in stage {before}, not in {expected} as you expected; look again.")
    if after in (before, *ALLOWED[before]):
        return
    if before == "production":
        raise Conflict(
            f"{label} is in production, and leaves it only when another version takes its place: promote one, or "
            "roll back. Either archives it."
        )
    allowed = " or ".join(ALLOWED[before])
    raise Conflict(f"{label} is in stage {before} and cannot go to {after}; from {before} it may go to {allowed}.")
