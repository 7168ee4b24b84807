"""next_to_leave: from whom a full tier takes room; the same rule for memory and for every folder of a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: What nobody used for so long leaves first, whoever's it is, in seconds.
STALE_S = 3600.0


@dataclass(frozen=True)
class Holding:
    """What a tenant holds of a tier in all, and when its least recently used thing that may leave was used."""

    bytes: int
    used_s: float


def next_to_leave(holdings: Mapping[str, Holding], now_s: float) -> str:
    """The tenant whose least recently used thing leaves.

    What is stale goes first, the oldest of all. Then whoever holds most gives, so that a tenant that floods a tier
    pushes out its own as soon as it holds more than the others do. With one tenant this is plain LRU.
    """
    oldest = min(holdings, key=lambda tenant: holdings[tenant].used_s)
    if now_s - holdings[oldest].used_s > STALE_S:
        return oldest
    return max(holdings, key=lambda tenant: (holdings[tenant].bytes, -holdings[tenant].used_s))
