"""Residency: where each adapter version of an engine stands: in memory, on its way there, or not to be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from graftwork.engine.load_failures import Failure
from graftwork.errors import GraftworkError

if TYPE_CHECKING:  # a registry without an engine names states, and needs no torch for that
    from graftwork.engine.residents import InMemory

State = Literal["resident", "draining", "loading", "failed"]

#: Most versions that are named in metrics; the others are counted together.
MOST_NAMED = 256
OTHER = "other"


@dataclass(frozen=True)
class Residency:
    """One version; times are of `time.time`, in seconds.

    `rows` need it now and `uses` took it since it came; `since_s` is when its load began, or when it failed with
    `error`, which is told to everyone until `retry_s`.
    """

    tenant: str
    label: str
    state: State
    bytes: int = 0
    pinned: bool = False
    rows: int = 0
    uses: int = 0
    used_s: float | None = None
    since_s: float | None = None
    error: GraftworkError | None = None
    retry_s: float | None = None


def residency_of(
    memory: Mapping[str, InMemory], loading: Mapping[str, tuple[str, str, float]], failed: Mapping[str, Failure]
) -> dict[str, Residency]:
    """By digest; what is in memory is served, whatever a later load of it became."""
    found = {
        digest: Residency(one.tenant, one.label, "failed", since_s=one.at_s, error=one.error, retry_s=one.until_s)
        for digest, one in failed.items()
    }
    for digest, (tenant, label, since_s) in loading.items():
        found[digest] = Residency(tenant, label, "loading", since_s=since_s)
    for digest, here in memory.items():
        found[digest] = Residency(
            here.tenant, here.label, "draining" if here.leaving else "resident", here.bytes, here.kept, here.pins,
            here.uses, here.used_s,
        )  # fmt: skip
    return found


def by_label(memory: Iterable[InMemory]) -> dict[str, int]:
    """Bytes of the versions that were used last, by label; all others together as `other`."""
    found: Counter[str] = Counter()
    for number, one in enumerate(sorted(memory, key=lambda one: -one.used_s)):
        found[one.label if number < MOST_NAMED else OTHER] += one.bytes
    return dict(found)
