"""servable: whether a version may be asked: one that was chosen, or the one of an arm, for answers and for copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from graftwork.errors import NotFound, Refused
from graftwork.registry.reference import Reference, parse_reference
from graftwork.registry.rules.policy import forbid
from graftwork.registry.versions import Version


def servable(reference: str, resolve: Callable[[Reference], Version]) -> Version | None:
    """What the reference of an arm means now; None where that is gone, archived or may not serve."""
    try:
        version = resolve(parse_reference(reference))
    except NotFound:
        return None
    return None if version.forbidden or version.stage == "archived" else version


def require_servable(versions: Iterable[Version], *, base: str, base_digest: str) -> None:
    """Make sure that the policy lets what was chosen serve, and that it was pushed for the weights that run here.

    Shapes alone would not tell of other weights.

    Raises:
        Forbidden: with what the policy demands and the version lacks.
        Refused: naming both bases.
    """
    for version in versions:
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
