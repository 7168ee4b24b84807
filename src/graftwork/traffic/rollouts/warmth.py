"""keep_warm: which versions a server keeps in memory though nobody asks for them, so that going back takes no load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graftwork.engine.request import AdapterHandle
from graftwork.engine.residency import Residency
from graftwork.registry.pointers import PREVIOUS, PRODUCTION
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.traffic.rollouts.live import LiveRollouts

#: What part of adapter memory `@previous` versions may hold.
SHARE: Final = 0.25


def keep_warm(
    snapshot: Snapshot, memory: Mapping[str, Residency], *, base_digest: str, budget_bytes: int
) -> dict[str, AdapterHandle]:
    """By digest, the most wanted first: the arms of live rollouts, whatever they take, and then, within
    `budget_bytes`, the `@previous` of each adapter whose production version is in memory, those used last first.

    What runs on another base, or is forbidden to serve, is not among them.
    """
    arms = [version for version in _arms(snapshot) if _serves(version, base_digest)]
    found = {version.digest: _handle(version) for version in arms}
    left = budget_bytes
    for version in _previous(snapshot, memory):
        here = memory.get(version.digest)
        size = here.bytes if here is not None and here.bytes else version.bytes
        if version.digest not in found and _serves(version, base_digest) and size <= left:
            left -= size
            found[version.digest] = _handle(version)
    return found


def _arms(snapshot: Snapshot) -> list[Version]:
    found = []
    for one in snapshot.part(LiveRollouts).by_route.values():
        for arm in one.arms.values():
            view = snapshot.adapters.get((one.tenant, arm.adapter))
            version = view.by_digest.get(arm.digest) if view is not None else None
            found += [version] if version is not None else []
    return found


def _previous(snapshot: Snapshot, memory: Mapping[str, Residency]) -> list[Version]:
    found = []
    for digest, here in memory.items():
        view = snapshot.adapters.get((here.tenant, here.label.partition(":")[0]))
        if here.state != "resident" or view is None or PREVIOUS not in view.aliases:
            continue
        if (production := view.aliases.get(PRODUCTION)) is not None and production.digest == digest:
            found.append((-(here.used_s or 0.0), here.label, view.aliases[PREVIOUS]))
    return [version for _, _, version in sorted(found, key=lambda one: one[:2])]


def _serves(version: Version, base_digest: str) -> bool:
    return version.base_digest == base_digest and not version.forbidden


def _handle(version: Version) -> AdapterHandle:
    return AdapterHandle(version.digest, version.tenant, version.label)
