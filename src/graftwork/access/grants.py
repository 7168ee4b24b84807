"""Grants: what one tenant lets another do with its adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Row

from graftwork.access.names import MAX_LENGTH
from graftwork.errors import InvalidRequest

#: Have it answer, as `owner/name`; see its versions and history; move its pointers and stages.
Verb = Literal["call", "see", "manage"]
VERBS: Final[tuple[Verb, ...]] = ("call", "see", "manage")
_PATTERN = re.compile(r"[a-z0-9._-]*\*?[a-z0-9._-]*", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """`grantee` may do `verbs` with the adapters of `tenant` that the pattern fits."""

    tenant: str
    id: str
    grantee: str
    pattern: str
    verbs: tuple[Verb, ...]
    created_at: str
    created_by: str

    @classmethod
    def from_row(cls, row: Row[Any]) -> Grant:
        return cls(**{**row._mapping, "verbs": tuple(row.verbs.split())})

    def covers(self, verb: Verb, adapter: str) -> bool:
        return verb in self.verbs and fits(self.pattern, adapter)

    def to_json(self) -> dict[str, Any]:
        told = {key: value for key, value in vars(self).items() if key != "tenant"}
        return told | {"owner": self.tenant, "verbs": list(self.verbs)}


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern, in which one `*` stands for any text, means this name; in time linear in both."""
    before, star, after = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after)


def check_pattern(pattern: str) -> str:
    """`pattern` as given.

    Raises:
        InvalidRequest: it can fit no adapter's name, or has more than one `*`.
    """
    if 0 < len(pattern) <= MAX_LENGTH and _PATTERN.fullmatch(pattern):
        return pattern
    raise InvalidRequest(
        f"The pattern {pattern[:80]!a} is not a name of an adapter in which one * may stand for any text, "
        "such as 'tone-*'.",
        field="pattern",
    )
