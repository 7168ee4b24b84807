"""Sweep: what a collection would remove, and why; values in, values out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graftwork.artifacts.stored import Stored

Kind = Literal["version", "blob", "quarantined", "upload", "copy", "form", "memory"]
DAY_S = 24 * 60 * 60.0


@dataclass(frozen=True)
class Bounds:
    """How old things must be, in seconds.

    older_than_s: bytes that nobody wants, since they were written: a push that is under way counts on younger ones.
    quarantine_s: damaged bytes, since they were written, while a version has the blob.
    """

    older_than_s: float = DAY_S
    quarantine_s: float = 30 * DAY_S


@dataclass(frozen=True)
class Item:
    """One thing that goes."""

    kind: Kind
    digest: str  #: of the blob, or of the version
    bytes: int
    name: str | None  #: the version that it was part of, where that is known
    why: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Known:
    """What is known of a tenant's versions when its bytes are looked through."""

    wanted: Container[str]  #: digests of blobs
    live: Container[str]  #: digests of versions
    deleted: Mapping[str, str]  #: digest to label of versions, but for live ones
    had: Mapping[str, str]  #: digest of a blob to the label of a deleted version that had it


def blobs(found: Iterable[Stored], known: Known, bounds: Bounds, now_s: float) -> tuple[list[Item], list[Stored]]:
    """Those that nobody wants: the ones that go, and the ones that are too young."""
    unwanted = [one for one in found if one.digest not in known.wanted]
    old = [one for one in unwanted if now_s - one.at_s >= bounds.older_than_s]
    young = [one for one in unwanted if now_s - one.at_s < bounds.older_than_s]
    return [_blob("blob", one, known) for one in old], young


def quarantined(found: Iterable[Stored], known: Known, bounds: Bounds, now_s: float) -> tuple[list[Item], list[Stored]]:
    """As `blobs`, of damaged ones; those that a version has go when they are old enough to be nobody's concern."""
    going, young = blobs(found := list(found), known, bounds, now_s)
    for one in found:
        if one.digest in known.wanted and now_s - one.at_s >= bounds.quarantine_s:
            going.append(Item("quarantined", one.digest, one.bytes, None, "damaged, and set aside long ago"))
    return [Item("quarantined", one.digest, one.bytes, one.name, one.why) for one in going], young


def uploads(found: Iterable[Stored], bounds: Bounds, now_s: float) -> list[Item]:
    """Beginnings of blobs that nobody goes on with."""
    why = "its upload broke off"
    return [
        Item("upload", one.digest, one.bytes, None, why) for one in found if now_s - one.at_s >= bounds.older_than_s
    ]


def of_versions(kind: Kind, found: Iterable[Stored], known: Known, bounds: Bounds, now_s: float) -> list[Item]:
    """Copies or forms of no version: those of deleted ones at once, others when no push can be trying them any more."""
    items = []
    for one in found:
        label = known.deleted.get(one.digest)
        if label is not None:
            items.append(Item(kind, one.digest, one.bytes, label, f"{label} was deleted"))
        elif one.digest not in known.live and now_s - one.at_s >= bounds.older_than_s:
            items.append(Item(kind, one.digest, one.bytes, None, "of no version"))
    return items


def _blob(kind: Kind, one: Stored, known: Known) -> Item:
    label = known.had.get(one.digest)
    why = f"{label} was deleted, and nobody else has it" if label else "nobody has it"
    return Item(kind, one.digest, one.bytes, label, why)
