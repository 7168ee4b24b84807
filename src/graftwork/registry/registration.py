"""Registration: how a pushed version gets its numbers and its row, inside the push's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graftwork.access import events
from graftwork.db import Transaction
from graftwork.errors import Conflict
from graftwork.registry import adapters, bases, versions
from graftwork.registry.lineage.recording import record
from graftwork.registry.metadata import changed
from graftwork.registry.reading import whole
from graftwork.registry.search.indexing import NOTHING, Described, index
from graftwork.registry.semantic_version import next_semver
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Taken, Version

CREATED = "version.created"
ADAPTER_CREATED = "adapter.created"


def register(
    tx: Transaction, pushed: Version, described: Described = NOTHING, *, said: Mapping[str, Any]
) -> tuple[Version, bool]:
    """Give the version its sequence number and, where it has none, its semantic version, and write it.

    Args:
        said: what of its metadata somebody said; where these bytes are registered already, it must be as it is there.

    Returns:
        The version, and whether it is new: the same bytes under the same name are the version they were
        before.

    Raises:
        Conflict: as `Registry.push`.
        InvalidRequest, NotFound, Conflict: as `lineage.recording.record`.
    """
    taken = versions.taken(tx, pushed.tenant, pushed.adapter)
    for one in taken:  # all of them first: which version has these bytes says more
        if one.digest == pushed.digest and one.deleted_at is None:
            return _existing(tx, replace(pushed, sequence=one.sequence), one.semver, said), False
    for one in taken:
        if one.semver == pushed.semver:
            raise _number_taken(pushed, one)
    if all(one.deleted_at for one in taken) and bases.has_name(tx, pushed.tenant, pushed.adapter):
        raise Conflict(f"{pushed.adapter} is the name of a base model; push the adapter under another name.")
    version = replace(pushed, semver=pushed.semver or next_semver(one.semver for one in taken))
    return _insert(tx, version, described), True


def _number_taken(pushed: Version, by: Taken) -> Conflict:
    advice = "push under another number, or without one to get the next."
    if by.deleted_at is not None:
        return Conflict(f"{pushed.label} was deleted at {by.deleted_at}, and no number is given twice: {advice}")
    return Conflict(f"{pushed.label} is there already with other bytes ({by.digest}); versions are immutable: {advice}")


def _existing(tx: Transaction, pushed: Version, semver: str, said: Mapping[str, Any]) -> Version:
    if pushed.semver not in ("", semver):
        raise Conflict(
            f"These bytes are {pushed.adapter}:{semver} already ({pushed.digest}); the same content cannot "
            f"be {pushed.semver} as well."
        )
    found = whole(tx, pushed)
    if found.base_digest != pushed.base_digest:
        raise Conflict(
            f"{found.label} has these bytes, accounted against the base {found.base} ({found.base_digest}), "
            f"not {pushed.base} ({pushed.base_digest}); push them under another name."
        )
    if fields := changed(said, found.metadata or {}):
        raise Conflict(
            f"{found.label} has these bytes and other metadata: {', '.join(fields[:8])}{', …' if fields[8:] else ''}. "
            "What was registered is immutable: push without metadata to leave it as it is, or under another name; what "
            "you learned since is an evaluation, a tag, a document or a fact of lineage."
        )
    return found


def _insert(tx: Transaction, version: Version, described: Described) -> Version:
    last = adapters.last_sequence(tx, version.tenant, version.adapter)
    if last is None:
        adapters.insert(tx, version.tenant, version.adapter, at=version.created_at, actor=version.created_by)
        _append(tx, version, ADAPTER_CREATED, {"name": version.adapter})
    sequence = adapters.take_sequence(tx, version.tenant, version.adapter, last or 0)
    version = replace(version, sequence=sequence)
    record(tx, version)  # before it is there: a parent that is named without a number is not the version itself
    versions.insert(tx, version)
    index(tx, version, described)
    version = versions.with_twin(tx, version)
    facts = {
        "base": version.base,
        "base_digest": version.base_digest,
        "kind": version.kind,
        "stage": version.stage,
        "semantic_digest": version.semantic_digest,
    }
    _append(tx, version, CREATED, {**version.brief(), **facts})
    return version


def _append(tx: Transaction, version: Version, kind: str, payload: dict[str, object]) -> None:
    subject = subject_of(version.adapter)
    events.append(tx, version.tenant, version.created_by, kind, subject, payload, at=version.created_at)
