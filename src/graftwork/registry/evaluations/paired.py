"""Paired tests: whether two versions differ on the same examples by more than chance; pure numpy and scipy.

Binary scores: McNemar's exact test (1947), a binomial test of the examples where the two differ. Other scores: the
sign-flip permutation test of the mean difference (Fisher 1935), all flips up to 12 examples, random ones above. The
interval is the percentile bootstrap (Efron 1979) of the mean difference. Beyond `LARGE` examples both are their normal
limits. Random numbers are the same each time, so that the same files give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CONFIDENCE = 0.95
RESAMPLES = 4999
LARGE = 4_000
_ALL_FLIPS = 12
_BATCH = 100


@dataclass(frozen=True)
class Paired:
    """What a test of `after - before` over the same examples says."""

    test: str
    matched: int  #: examples that both have
    mean_difference: float
    low: float  #: of the 95 % interval of the mean difference
    high: float
    p: float  #: two-sided


def paired_test(before: Sequence[float], after: Sequence[float]) -> Paired:
    """Compare scores of the same examples, in the same order; at least two of them."""
    import numpy as np

    first, second = np.asarray(before, np.float64), np.asarray(after, np.float64)
    difference = second - first
    binary = bool(np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all())
    name, p = ("McNemar", _mcnemar(difference)) if binary else ("sign-flip permutation", _sign_flip(difference))
    low, high = _interval(difference)
    return Paired(name, len(difference), float(difference.mean()), low, high, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for there being several, by Holm's step-down method (1979), in the same order."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def _mcnemar(difference: Array) -> float:
    from scipy.stats import binomtest

    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def _sign_flip(difference: Array) -> float:
    import numpy as np

    differing = difference[difference != 0]
    count = len(differing)
    if not count:
        return 1.0
    observed = abs(differing.sum()) * (1 - 1e-12)  # sums of the same numbers in another order are as extreme
    if count > LARGE:
        return _two_sided(float(differing.sum() / np.sqrt((differing**2).sum())))
    if count <= _ALL_FLIPS:
        flips = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float((abs((2.0 * flips - 1) @ differing) >= observed).mean())
    random, extreme = np.random.default_rng(0), 0
    for begin in range(0, RESAMPLES, _BATCH):
        flips = random.integers(0, 2, (min(_BATCH, RESAMPLES - begin), count), np.int8)
        extreme += int((abs((2.0 * flips - 1) @ differing) >= observed).sum())
    return (extreme + 1) / (RESAMPLES + 1)


def _interval(difference: Array) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap, norm

    if len(difference) > LARGE:
        mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
        low, high = norm.interval(CONFIDENCE, mean, error) if error else (mean, mean)
        return float(low), float(high)
    found = bootstrap(
        (difference,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def _two_sided(z: float) -> float:
    from scipy.stats import norm

    return float(2 * norm.sf(abs(z)))
