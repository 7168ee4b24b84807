"""Evidence and templates for tests of gates: short ways to say them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graftwork.protocol.analysis import AnalysisSpec, MetricPart
from graftwork.protocol.resource import API_VERSION
from graftwork.traffic.gates.evidence import Arm, Evidence
from graftwork.traffic.observation import Observation


def metric(provider: dict[str, Any], **fields: Any) -> MetricPart:
    """One metric, its fields by their names in files."""
    return MetricPart.model_validate({"name": "m", "provider": provider, **fields})


def rate_metric(measure: str = "success_rate", **fields: Any) -> MetricPart:
    return metric({"rate": {"measure": measure}}, **fields)


def amount_metric(measure: str, statistic: str, **fields: Any) -> MetricPart:
    return metric({"amount": {"measure": measure, "statistic": statistic}}, **fields)


def spec(*metrics: MetricPart, alpha: float = 0.05) -> AnalysisSpec:
    return AnalysisSpec(
        metrics=[one.model_copy(update={"name": f"m{n}"}) for n, one in enumerate(metrics)], alpha=alpha
    )


def template(*metrics: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A document of kind AnalysisTemplate."""
    found = {"metrics": list(metrics), **fields}
    return {"apiVersion": API_VERSION, "kind": "AnalysisTemplate", "metadata": {"name": "careful"}, "spec": found}


def answer(at: int = 0, *, arm: str = "candidate", **fields: Any) -> Observation:
    """One good answer, `at` seconds after nine."""
    told = {"outcome": "ok", "latency_s": 1.0, "digest": "sha256:a", **fields}
    return Observation(at=f"2026-01-31T09:{at // 60:02}:{at % 60:02}.000000Z", arm=arm, **told)


def answers(good: int, bad: int = 0, **of_bad: Any) -> Arm:
    """So many good answers, and bad ones, which are errors unless something else is said of them."""
    told = of_bad or {"outcome": "error"}
    return Arm([*(answer() for _ in range(good)), *(answer(**told) for _ in range(bad))])


def each(field: str, values: Iterable[Any]) -> Arm:
    """One answer for each value of a field."""
    return Arm([answer(**{field: value}) for value in values])


def evidence(candidate: Arm, stable: Arm | None = None, **fields: Any) -> Evidence:
    return Evidence(candidate, stable if stable is not None else Arm(), **fields)
