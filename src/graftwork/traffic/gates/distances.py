"""Distances between two distributions over the same bins, with bounds from the bounds of every bin; pure numpy.

    psi   population stability index: sum (p - q) ln(p / q); shares below `FLOOR` count as it
    js    Jensen-Shannon divergence to base 2, from 0 to 1 (Lin 1991)
    ks    Kolmogorov-Smirnov: the largest difference of the distribution functions at the edges of bins, from 0 to 1

The terms of psi and js are convex in (p, q) and 0 where both are equal: over a box a term is least at the nearest
corner, or 0 where p can be q, and greatest at a corner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from graftwork.traffic.gates.confidence.interval import Interval

Array = np.ndarray[Any, np.dtype[np.float64]]
#: As is customary, so that an empty bin has a finite term.
FLOOR = 1e-4
Term = Callable[[Array, Array], Array]
#: A share's bounds: [bins] twice.
Box = tuple[Array, Array]


def _psi(p: Array, q: Array) -> Array:
    p, q = np.maximum(p, FLOOR), np.maximum(q, FLOOR)
    found: Array = (p - q) * np.log(p / q)
    return found


def _js(p: Array, q: Array) -> Array:
    found: Array = (_part(p, q) + _part(q, p)) / 2
    return found


def _part(p: Array, q: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log2(2 * p / (p + q)), 0.0)


def _apart(p: Array, q: Array) -> Array:
    return np.abs(p - q)


#: To the term of a bin; ks has the largest term over edges, the others their sum over bins.
TERMS: Final[Mapping[str, Term]] = {"psi": _psi, "js": _js, "ks": _apart}


def distance(kind: str, p: Array, q: Array) -> float:
    """Between shares [bins]; of ks between distribution functions [edges]."""
    return _joined(kind, TERMS[kind](p, q))


def bounded(kind: str, p: Box, q: Box) -> Interval:
    """The least and the greatest distance of shares within their bounds."""
    corners = np.stack([TERMS[kind](one, other) for one in p for other in q])
    apart = (p[0] > q[1]) | (q[0] > p[1])
    return Interval(_joined(kind, np.where(apart, corners.min(axis=0), 0.0)), _joined(kind, corners.max(axis=0)))


def _joined(kind: str, terms: Array) -> float:
    if not len(terms):
        return 0.0
    return float(terms.max() if kind == "ks" else terms.sum())
