"""servable: the version of an arm, where it may be asked; the same for who answers and for who only gets copies."""

from __future__ import annotations

from collections.abc import Callable

from graftwork.errors import NotFound
from graftwork.registry.reference import Reference, parse_reference
from graftwork.registry.versions import Version


def servable(reference: str, resolve: Callable[[Reference], Version]) -> Version | None:
    """What the reference of an arm means now; None where that is gone, archived or may not serve."""
    try:
        version = resolve(parse_reference(reference))
    except NotFound:
        return None
    return None if version.forbidden or version.stage == "archived" else version
