"""candidates: the versions that a policy means, one of an adapter at most; pure."""

from __future__ import annotations

from collections.abc import Iterator

from graftwork.access.grants import fits
from graftwork.protocol.promotions import PromotionSpec, WhenPart
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView


def candidate(view: AdapterView, when: WhenPart) -> Version | None:
    """The version that has the alias, or the newest in the stage; not what is in production already, nor by its stage
    one that was pushed before that: nobody's staging is emptied backwards.
    """
    production = view.production
    if when.alias is not None:
        found = view.aliases.get(when.alias)
        return found if found is None or production is None or found.digest != production.digest else None
    found = next((one for one in reversed(view.versions) if one.stage == when.stage), None)
    older = found is not None and production is not None and found.sequence < production.sequence
    return None if older else found


def candidates(snapshot: Snapshot, tenant: str, spec: PromotionSpec, *, after: str = "") -> Iterator[Version]:
    """By the adapters' names, from the first one after `after`."""
    for view in snapshot.by_tenant.get(tenant, ()):
        if view.name > after and fits(spec.adapters, view.name) and (found := candidate(view, spec.when)) is not None:
            yield found
