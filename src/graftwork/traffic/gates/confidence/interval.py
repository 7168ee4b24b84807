"""Interval: where the truth lies, and the alpha that was spent on it."""

from __future__ import annotations

from typing import NamedTuple


class Interval(NamedTuple):
    """Bounds that may be infinite; neither is ever NaN."""

    low: float
    high: float

    def minus(self, other: Interval) -> Interval:
        """Of the difference, where both hold together."""
        return Interval(self.low - other.high, self.high - other.low)

    def over(self, other: Interval) -> Interval:
        """Of the ratio of two quantities that are not negative, where both hold together."""
        return Interval(
            max(self.low, 0.0) / other.high if other.high > 0 else 0.0,
            self.high / other.low if other.low > 0 else float("inf"),
        )
