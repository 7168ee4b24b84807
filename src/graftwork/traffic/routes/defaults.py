"""Defaults: what the rules that a request went through say of it, laid one over the other."""

from __future__ import annotations

from typing import Final

from graftwork.protocol.routes import Defaults, Limits, Range

NO_DEFAULTS: Final = Defaults()


def over(below: Defaults, above: Defaults) -> Defaults:
    """Both together: the later one's words, and of the limits the narrower ones."""
    said = {name: value for name, value in above if value is not None and name != "limits"}
    return below.model_copy(update={**said, "limits": _narrower(below.limits, above.limits)})


def within(value: float, limits: Range | None) -> float:
    """The number that is nearest to `value` and within."""
    low, high = (limits.min, limits.max) if limits else (None, None)
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


def _narrower(one: Limits, other: Limits) -> Limits:
    return Limits.model_construct(
        max_tokens=_least(one.max_tokens, other.max_tokens),
        temperature=_both(one.temperature, other.temperature),
        top_p=_both(one.top_p, other.top_p),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _both(one: Range | None, other: Range | None) -> Range | None:
    if one is None or other is None:
        return one or other
    low = max((value for value in (one.min, other.min) if value is not None), default=None)
    high = min((value for value in (one.max, other.max) if value is not None), default=None)
    # Ranges that exclude each other leave the end of the later one: some number has to be allowed.
    low = high if low is not None and high is not None and low > high else low
    return Range.model_construct(min=low, max=high)
