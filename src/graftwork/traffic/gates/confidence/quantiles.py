"""A confidence sequence of a quantile, without any assumption on the distribution; pure numpy and scipy.

How many of n values are at most the p-quantile is binomial, and the beta-binomial mixture bounds that count at every
n at once (Howard and Ramdas 2022, arXiv:1906.09712, theorem 1a); the values of these ranks bound the quantile. Ties
only make it wider. Only the values matter, not their order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaln

from graftwork.traffic.gates.confidence.interval import Interval

Array = np.ndarray[Any, np.dtype[np.float64]]
#: Weight of the prior, in values: shortest around nine times as many of them.
PRIOR = 55.0


def quantile(values: Any, p: float, alpha: float) -> Interval:
    """Bounds of the p-quantile of finite `values`; infinite where there are too few on that side."""
    found = np.sort(np.asarray(values, np.float64))
    low, high = ranks(len(found), p, alpha)
    return Interval(
        float(found[low - 1]) if low > 0 else -math.inf,
        float(found[high]) if high < len(found) else math.inf,
    )


def ranks(n: int, p: float, alpha: float) -> tuple[int, int]:
    """The least and the greatest number of n values below the p-quantile that chance explains."""
    k = np.arange(n + 1, dtype=np.float64)
    a, b = PRIOR * p, PRIOR * (1 - p)
    log_martingale: Array = betaln(a + k, b + n - k) - betaln(a, b) - k * math.log(p) - (n - k) * math.log1p(-p)
    explained = np.flatnonzero(log_martingale < -math.log(alpha))
    return int(explained[0]), int(explained[-1])
