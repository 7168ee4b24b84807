"""Confidence sequences of rates and of means of bounded numbers, of one arm and of two; pure numpy and scipy.

One arm: the beta-binomial mixture. For k of n answers,

    M(p) = B(1/2 + k, 1/2 + n - k) / B(1/2, 1/2) / (p^k (1 - p)^(n - k))

is a martingale where p is the rate, so that {p : M(p) < 1 / alpha} holds at every n at once (Ville's inequality;
Robbins 1970, Howard et al. 2021, arXiv:1810.08240). Two arms: the product of both martingales is one, too, and its set
of pairs is projected on their difference or ratio. Only counts matter, not their order.

k may also be the sum of n numbers from 0 to 1: a^x b^(1 - x) is at most the line between b and a, so that M is still
no more than a martingale where p is their mean. This is the bet on both sides of p, mixed over all stakes
(Waudby-Smith and Ramdas 2024, arXiv:2010.09686, who show others that win more where the variance is small, but depend
on the order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from graftwork.traffic.gates.confidence.interval import Interval

Array = np.ndarray[Any, np.dtype[np.float64]]
_PRIOR = 0.5
_HALVINGS = 52
_GRID, _REFINEMENTS = 65, 4


class Count(NamedTuple):
    """Of `n` answers `k` have it; counts that were scaled down need not be whole."""

    k: float
    n: float

    @property
    def rate(self) -> float:
        return self.k / self.n if self.n else math.nan


def rate(k: Any, n: Any, alpha: float) -> tuple[Array, Array]:
    """Bounds of a rate for counts of any shape."""
    return _within(np.asarray(k, np.float64), np.asarray(n, np.float64), np.float64(-math.log(alpha)))


def rate_difference(one: Count, other: Count, alpha: float) -> Interval:
    """Bounds of the first rate minus the second."""
    return _projected(one, other, alpha, np.subtract)


def rate_ratio(one: Count, other: Count, alpha: float, offset: float = 0.0) -> Interval:
    """Bounds of the first rate plus `offset` over the second plus it; the upper one is infinite where that may be 0."""
    return _projected(one, other, alpha, lambda p, q: _over(p + offset, q + offset))


def log_martingale(k: Any, n: Any, p: Any) -> Array:
    """log M(p), which is convex in p and lowest at k / n."""
    evidence = betaln(_PRIOR + k, _PRIOR + n - k) - betaln(_PRIOR, _PRIOR)
    found: Array = evidence - xlogy(k, p) - xlog1py(n - k, -p)
    return found


def _within(k: Array, n: Array, budget: Any) -> tuple[Array, Array]:
    """The least and the greatest p at which log M(p) is at most `budget`, which is at least its minimum."""
    middle = np.divide(k, n, out=np.full(np.broadcast(k, n).shape, 0.5), where=n > 0)
    middle = np.broadcast_to(middle, np.broadcast(middle, budget).shape)
    return _edge(k, n, budget, middle, 0.0), _edge(k, n, budget, middle, 1.0)


def _edge(k: Array, n: Array, budget: Any, inside: Array, end: float) -> Array:
    """Between `inside` and `end`, by halving; the end itself where even that is within."""
    inner, outer = inside, np.full_like(inside, end)
    with np.errstate(divide="ignore", invalid="ignore"):
        outer_is_in = log_martingale(k, n, outer) <= budget
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            holds = log_martingale(k, n, middle) <= budget
            inner, outer = np.where(holds, middle, inner), np.where(holds, outer, middle)
    return np.where(outer_is_in, end, outer)


def _projected(one: Count, other: Count, alpha: float, compared: Callable[[Array, Array], Array]) -> Interval:
    """The extremes of `compared` over pairs of rates with M(p) M(q) <= 1 / alpha.

    For each q the first rate has its bounds; over q both extremes have one hump, so that a grid is refined around it.
    """
    if not one.n or not other.n:
        return Interval(-math.inf, math.inf)
    k, n = np.asarray(one.k, np.float64), np.asarray(one.n, np.float64)
    budget = -math.log(alpha)
    spare = budget - float(log_martingale(k, n, k / n))
    lows, highs = rate(other.k, other.n, math.exp(-spare)) if spare < 700 else (np.float64(0), np.float64(1))
    bounds = []
    for side, best in ((0, np.argmin), (1, np.argmax)):
        left, right, found = float(lows), float(highs), 0.0
        for _ in range(_REFINEMENTS):
            q = np.linspace(left, right, _GRID)
            with np.errstate(invalid="ignore"):
                left_over = budget - log_martingale(other.k, other.n, q)
            left_over = np.maximum(np.nan_to_num(left_over, nan=-math.inf), float(log_martingale(k, n, k / n)))
            values = compared(_within(k, n, left_over)[side], q)
            at = int(best(values))
            found = float(values[at])
            left, right = float(q[max(at - 1, 0)]), float(q[min(at + 1, _GRID - 1)])
        bounds.append(found)
    return Interval(*bounds)


def _over(one: Array, other: Array) -> Array:
    return np.divide(one, other, out=np.full_like(one, math.inf), where=other > 0)
