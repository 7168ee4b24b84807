"""Trend: a metric's values over an adapter's versions, each with its change from the version before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graftwork.registry.evaluations.measured import Measured, change, direction, measured
from graftwork.registry.evaluations.rows import Evaluation


def trend(newest_first: Iterable[Evaluation], metric: str) -> list[dict[str, Any]]:
    """A series for each thing that the metric was measured on, with the last value of each version, oldest first.

    Args:
        newest_first: the evaluations that have the metric, by version and number.
    """
    series: dict[str, list[Measured]] = {}
    seen = set[tuple[str, int]]()
    for evaluation in newest_first:
        one = next(one for one in measured(evaluation) if one.subject.metric == metric)
        if (place := (evaluation.comparable, evaluation.sequence)) not in seen:
            seen.add(place)
            series.setdefault(evaluation.comparable, []).append(one)
    return [_series(list(reversed(found))) for found in series.values()]


def _series(found: list[Measured]) -> dict[str, Any]:
    newest = found[-1]
    points = [_point(one, before) for before, one in zip([None, *found[:-1]], found, strict=True)]
    return {
        **newest.subject.to_json(),
        "unit": newest.unit,
        "higher_is_better": newest.higher_is_better,
        "points": points,
    }


def _point(one: Measured, before: Measured | None) -> dict[str, Any]:
    return {
        "version": one.evaluation.version,
        "digest": one.evaluation.digest,
        "sequence": one.evaluation.sequence,
        **one.to_json(),
        "delta": change(before.value, one.value) if before else None,
        "direction": direction(before.value, one.value, one.higher_is_better) if before else None,
    }
