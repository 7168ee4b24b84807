"""Pooled results in the forms that people ask for: vectors of length 1, probabilities of classes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence


def vector(values: Sequence[float], *, normalize: bool) -> array[float]:
    """float32, of length 1 if asked for; a vector of zeros stays one."""
    length = math.hypot(*values) if normalize else 1.0
    return array("f", [value / (length or 1.0) for value in values])


def probabilities(logits: Sequence[float]) -> list[float]:
    """Softmax; of a single class, where that would always be 1, the logistic function."""
    if len(logits) == 1:
        return probabilities((logits[0], 0.0))[:1]
    most = max(logits)
    weights = [math.exp(one - most) for one in logits]
    total = math.fsum(weights)
    return [one / total for one in weights]
