"""Webhook: where events of a tenant are sent, and which of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import Row

from graftwork.protocol.canonical import canonical, parse, sha256

SUBJECTS: Final = "webhooks/"


@dataclass(frozen=True)
class Webhook:
    """As it is now; its secrets as they are stored."""

    tenant: str
    name: str
    id: str  #: tells it from an earlier one of the same name
    url: str
    events: tuple[str, ...]  #: patterns of kinds
    subjects: tuple[str, ...]  #: patterns; none excludes nothing
    secret: str = field(repr=False)
    previous_secret: str | None = field(repr=False)
    previous_until: str | None  #: until when it is signed by the previous one too
    cursor: int  #: all events up to this position are queued
    created_at: str
    created_by: str
    updated_at: str
    updated_by: str

    @classmethod
    def from_row(cls, row: Row[Any]) -> Webhook:
        lists = {name: tuple(parse(row._mapping[name])) for name in ("events", "subjects")}
        return cls(**{**row._mapping, **lists})

    @property
    def etag(self) -> str:
        return sha256(canonical(self.to_json(), what="webhook"))

    def wants(self, kind: str, subject: str) -> bool:
        return matches(self.events, kind) and (not self.subjects or matches(self.subjects, subject))

    def to_json(self) -> dict[str, Any]:
        """What everybody of the tenant may know of it: no secret."""
        told = ("name", "url", "previous_until", "created_at", "created_by", "updated_at", "updated_by")
        lists = {"events": list(self.events), "subjects": list(self.subjects)}
        return {**{name: getattr(self, name) for name in told}, **lists}

    def brief(self) -> dict[str, Any]:
        """For events, which stay for ever: without the rest of the URL, which may be a secret itself."""
        parts = urlsplit(self.url)
        return {
            "target": f"{parts.scheme}://{parts.netloc}",
            "url_digest": sha256(self.url),
            "events": list(self.events),
            "subjects": list(self.subjects),
        }


def matches(patterns: Sequence[str], text: str) -> bool:
    """Whether it is one of them, or begins as one that ends with `*`."""
    return any(text.startswith(one[:-1]) if one.endswith("*") else text == one for one in patterns)
