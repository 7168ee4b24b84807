"""Declared: a document that was read, of a kind and as its kind wants it; and what is wrong with others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graftwork.declared.kinds import KINDS, kind_of
from graftwork.declared.resource_kind import MODEL, VERSION, ResourceKind, label_of
from graftwork.errors import InvalidRequest, InvalidResource
from graftwork.protocol.registry import OurBody

#: What documents say at their top; everything else of it is for their kind.
_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True)
class Declared:
    """One document; `place` is its index among those that came with it."""

    place: int
    kind: ResourceKind[Any]
    name: str
    body: OurBody

    @property
    def key(self) -> tuple[str, str]:
        return self.kind.word, self.name

    @property
    def label(self) -> str:
        return label_of(*self.key)


def read_document(raw: Mapping[str, Any], place: int = 0) -> Declared:
    """A document, checked as far as that takes nothing else.

    Raises:
        InvalidResource: `field` begins with `documents.<place>`.
    """
    try:
        word = raw.get("kind")
        if not isinstance(word, str):
            raise InvalidRequest(f"kind is required: one of {', '.join(KINDS)}.", field="kind")
        kind = kind_of(word)
        body = kind.body.read(json.dumps(raw, allow_nan=False).encode())
        kind.check(body)
        return Declared(place, kind, kind.name(body), body)
    except InvalidRequest as error:
        raise about(place, error) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise about(place, InvalidRequest(f"the document is not JSON: {error}.")) from error


def read_documents(raws: Sequence[Mapping[str, Any]]) -> list[Declared]:
    """All of them, in the order in which they are applied.

    Raises:
        InvalidResource: one cannot be read, or is about the same as one before it.
    """
    found = [read_document(raw, place) for place, raw in enumerate(raws)]
    for error in doubles(found):
        raise error
    return in_order(found)


def in_order(found: Iterable[Declared]) -> list[Declared]:
    order = list(KINDS)
    return sorted(found, key=lambda one: (order.index(one.kind.word), one.place))


def doubles(found: Iterable[Declared]) -> list[InvalidResource]:
    """What is said twice, each at its second place."""
    first: dict[tuple[str, str], int] = {}
    errors = []
    for one in sorted(found, key=lambda one: one.place):
        if one.key in first:
            said = f"{one.label} is in another document, too (the {ordinal(first[one.key])})."
            errors.append(InvalidResource(said, field=f"documents.{one.place}.metadata.name"))
        first.setdefault(one.key, one.place)
    return errors


def dangling(found: Sequence[Declared]) -> list[InvalidResource]:
    """Links to resources that are not among the documents, so that somebody else has to have made them; to versions
    only where a route among them is called so, and no adapter.
    """
    keys = {one.key for one in found}
    told = []
    for one in found:
        for link in one.kind.links(one.body):
            label, key = label_of(link.kind, link.name), (link.kind, link.name)
            if link.kind == VERSION and ("Route", link.name) in keys - {one.key} and ("Adapter", link.name) not in keys:
                said = f"{one.label} names {link.name}, which is a route among these documents; none leads to a route."
            elif link.kind not in (VERSION, MODEL) and key not in keys:
                said = f"{one.label} names {label}, which is not among these documents."
            else:
                continue
            told.append(InvalidResource(said, field=f"documents.{one.place}.{link.field}"))
    return told


def about(place: int, error: InvalidRequest) -> InvalidResource:
    """What is wrong with a document, by its place among those that came with it."""
    field = f".{error.field}" if (error.field or "").partition(".")[0] in _FIELDS else ""
    return InvalidResource(error.message, field=f"documents.{place}{field}")


def ordinal(place: int) -> str:
    """`2nd` of the place 1."""
    number = place + 1
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
