"""Quotas: how much a tenant may ask for and keep; pure functions of what it has used and what time it is.

Requests and tokens are token buckets that hold a minute's worth (https://en.wikipedia.org/wiki/Token_bucket). What an
answer takes is known when it ends, so tokens are paid for afterwards: a bucket may be overdrawn, and nothing is let
in until it has filled up again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from graftwork.errors import QuotaExhausted, TooManyRequests

_MINUTE_S = 60.0
#: When to look again whether somebody has deleted something, in seconds.
_STOCK_RETRY_S = 3600
What = Literal["requests", "tokens"]


@dataclass(frozen=True)
class Quotas:
    """The most of each; None for as much as there is."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    #: Requests that are being answered at once.
    concurrent: int | None = None
    adapters: int | None = None
    #: Of the files of all versions, each version's bytes once.
    bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


NO_QUOTAS = Quotas()


@dataclass(frozen=True)
class Bucket:
    """What is left of a quota, and when that was so, in seconds of a clock that never goes back."""

    level: float
    at: float

    def filled(self, per_minute: int, now: float) -> Bucket:
        """The bucket now, never fuller than a minute's worth."""
        gained = max(0.0, now - self.at) * per_minute / _MINUTE_S
        return Bucket(min(float(per_minute), self.level + gained), max(now, self.at))

    def wait_s(self, per_minute: int, amount: float) -> float:
        """Seconds until `amount` is there."""
        return max(0.0, amount - self.level) * _MINUTE_S / per_minute

    def less(self, amount: float) -> Bucket:
        return replace(self, level=self.level - amount)


@dataclass(frozen=True)
class Use:
    """What a tenant has used lately; buckets are full until somebody asks."""

    requests: Bucket | None = None
    tokens: Bucket | None = None
    running: int = 0


@dataclass(frozen=True)
class Room:
    """What is left of a quota, as the rate-limit headers tell it."""

    what: What
    limit: int
    remaining: int
    reset_s: float


def admit(use: Use, quotas: Quotas, now: float) -> Use:
    """The use with one more request under way.

    Raises:
        TooManyRequests: a quota is used up; nothing of any was taken.
    """
    use = _filled(use, quotas, now)
    if quotas.concurrent is not None and use.running >= quotas.concurrent:
        raise _full(f"{use.running} of your requests are being answered, and no more may be at once", 1.0)
    if (limit := quotas.tokens_per_minute) is not None and use.tokens is not None and use.tokens.level < 1:
        raise _full(f"Your {limit} tokens per minute are used up", use.tokens.wait_s(limit, 1))
    requests = use.requests
    if (limit := quotas.requests_per_minute) is not None and requests is not None:
        if requests.level < 1:
            raise _full(f"Your {limit} requests per minute are used up", requests.wait_s(limit, 1))
        requests = requests.less(1)
    return replace(use, requests=requests, running=use.running + 1)


def spend(use: Use, quotas: Quotas, tokens: int, now: float) -> Use:
    """The use after an answer took so many tokens."""
    use = _filled(use, quotas, now)
    return use if use.tokens is None else replace(use, tokens=use.tokens.less(tokens))


def leave(use: Use) -> Use:
    """The use with one request less under way."""
    assert use.running > 0, "whoever leaves was admitted"
    return replace(use, running=use.running - 1)


def rooms(use: Use, quotas: Quotas, now: float) -> list[Room]:
    """What is left of requests and tokens, where they are limited."""
    use = _filled(use, quotas, now)
    found: tuple[tuple[What, int | None, Bucket | None], ...] = (
        ("requests", quotas.requests_per_minute, use.requests),
        ("tokens", quotas.tokens_per_minute, use.tokens),
    )
    return [
        Room(what, limit, max(0, math.floor(bucket.level)), bucket.wait_s(limit, limit))
        for what, limit, bucket in found
        if limit is not None and bucket is not None
    ]


def check_stock(quotas: Quotas, *, adapters: int = 0, stored: int = 0) -> None:
    """Raises QuotaExhausted where a tenant would have so many adapters or bytes stored, and may not."""
    for what, limit, wanted in (("adapters", quotas.adapters, adapters), ("bytes", quotas.bytes, stored)):
        if limit is not None and wanted > limit:
            raise QuotaExhausted(
                f"You may have {limit} {what}, and this would make {wanted}; delete what you no longer need.",
                retry_after_s=_STOCK_RETRY_S,
            )


def _filled(use: Use, quotas: Quotas, now: float) -> Use:
    return replace(
        use,
        requests=_bucket(use.requests, quotas.requests_per_minute, now),
        tokens=_bucket(use.tokens, quotas.tokens_per_minute, now),
    )


def _bucket(bucket: Bucket | None, per_minute: int | None, now: float) -> Bucket | None:
    if per_minute is None:
        return None
    return Bucket(float(per_minute), now) if bucket is None else bucket.filled(per_minute, now)


def _full(said: str, wait_s: float) -> TooManyRequests:
    return TooManyRequests(f"{said}; try again later.", retry_after_s=max(1, math.ceil(wait_s)))
