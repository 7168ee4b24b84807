"""The answers about evaluations, as /openapi.json describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.evaluations import AnyEvaluation, Family

Direction = Literal["better", "worse", "same", "unknown"]


class EvaluationAnswer(Shape):
    """One evaluation: of which version, under which number, and what was said."""

    tenant: str
    adapter: str
    sequence: int
    version: str
    digest: str
    number: int
    superseded_by: int | None
    created_at: str
    created_by: str
    evaluation: AnyEvaluation


class EvaluationList(Shape):
    """A version's evaluations, the newest first, and what leads to older ones."""

    evaluations: list[EvaluationAnswer]
    next_page_token: str | None


class Subject(Shape):
    """What numbers that are compared have in common."""

    family: Family
    name: str
    split: str | None
    source: str
    on: dict[str, Any]
    metric: str
    unit: str | None
    higher_is_better: bool | None


class Value(Shape):
    """A metric in one evaluation."""

    evaluation: int
    value: float
    stderr: float | None
    n: int | None


class PairedAnswer(Shape):
    """A test on the examples that both have; `p_corrected` is for all tests of this answer together."""

    test: str
    matched: int
    unmatched: int
    mean_difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    significant: bool


class Delta(Shape):
    """From the first version to another."""

    delta: float | None
    relative: float | None
    direction: Direction
    paired: PairedAnswer | None


class ComparedMetric(Subject):
    """One metric over the versions, in their order; `deltas` of all but the first."""

    values: list[Value | None]
    deltas: list[Delta | None]
    notes: list[str]


class ComparedVersion(Shape):
    """One of the versions that are compared."""

    reference: str
    adapter: str
    version: str
    digest: str
    stage: str
    kind: str
    rank: int
    base: str
    bytes: int
    files_bytes: int
    created_at: str


class Difference(Shape):
    """What is not the same of all: the base, the rank, a field of the config or of the metadata."""

    field: str
    values: list[Any]


class Correction(Shape):
    """How p-values were corrected for there being several tests."""

    method: Literal["Holm"]
    tests: int
    alpha: float


class ComparisonAnswer(Shape):
    """GET /api/v1/compare."""

    baseline: str
    versions: list[ComparedVersion]
    metrics: list[ComparedMetric]
    differences: list[Difference]
    correction: Correction | None


class Point(Value):
    """A version's value, and the change from the version before that has one."""

    version: str
    digest: str
    sequence: int
    delta: float | None
    direction: Direction | None


class Series(Subject):
    """A metric over versions, oldest first, on one data set or load."""

    points: list[Point] = Field(min_length=1)


class TrendAnswer(Shape):
    """GET …/trend."""

    adapter: str
    metric: str
    series: list[Series]
