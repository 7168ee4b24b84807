"""Evaluations: what was measured of a version, in four families; the body of POST …/evaluations and of files.

    task        a benchmark: a data set, a split, and metrics on it
    inference   latency, memory and throughput at a stated load
    drift       distributions of what a version was asked and answered, for later ones to be compared with
    business    numbers of a product over a window of time

Times are in seconds, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, RootModel

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.evaluation_parts import (
    Count,
    Dataset,
    Digest,
    Distributions,
    Examples,
    Load,
    Metric,
    Moment,
    Name,
    NotNegative,
    Percentiles,
    Positive,
    Report,
    Text,
    Tool,
    Window,
)
from graftwork.protocol.registry import OurBody

MAX_METRICS = 256
MAX_REPORTS = 64
MAX_NOTES = 16_384


class EvaluationBody(OurBody):
    """What every evaluation says; each family adds what it measured."""

    family: str
    name: Name
    split: Literal["train", "validation", "test"] | None = None
    source: Literal["offline", "shadow", "live"] = "offline"
    measured_at: Moment | None = None
    tool: Tool | None = None
    base_digest: Digest | None = None
    #: What the numbers depend on beside the version: shots, seeds, templates.
    conditions: dict[str, Any] = Field(default_factory=dict)
    notes: str | None = Field(None, max_length=MAX_NOTES)
    reports: list[Report] = Field(default_factory=list, max_length=MAX_REPORTS)
    #: Number of the evaluation, of the same version, that this one corrects.
    supersedes: Positive | None = None
    #: What an imported file said beyond these fields.
    extra: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def read(cls, raw: bytes | bytearray) -> EvaluationBody:
        """An evaluation of the family that it names."""
        # `Body.read` of that family's class.
        return super(EvaluationBody, FAMILIES[_Family.read(raw).family]).read(raw)

    def measures(self) -> list[Metric]:
        """The numbers in it, each under its name."""
        return []

    def measured_on(self) -> Mapping[str, Any]:
        """What two evaluations of a family and a name must share for their numbers to be compared."""
        return {}

    def blobs(self) -> list[tuple[str, str]]:
        """(field, digest) of the stored files that it names."""
        return [(f"reports.{place}.digest", report.digest) for place, report in enumerate(self.reports)]


class _Metrics(EvaluationBody):
    """What lists its metrics."""

    metrics: list[Metric] = Field(min_length=1, max_length=MAX_METRICS)

    def measures(self) -> list[Metric]:
        return self.metrics

    def check(self) -> None:
        seen = set[str]()
        for place, metric in enumerate(self.metrics):
            if metric.name in seen:
                raise InvalidRequest(
                    f"metrics.{place}.name: {metric.name} is given twice; an evaluation has one value of each metric.",
                    field=f"metrics.{place}.name",
                )
            seen.add(metric.name)


class TaskEvaluation(_Metrics):
    """A benchmark."""

    family: Literal["task"]
    dataset: Dataset
    examples: Examples | None = None

    def measured_on(self) -> Mapping[str, Any]:
        return self.dataset.model_dump(exclude_none=True)

    def blobs(self) -> list[tuple[str, str]]:
        own = [("examples.digest", self.examples.digest)] if self.examples is not None else []
        return [*super().blobs(), *own]


class InferenceEvaluation(EvaluationBody):
    """What answers cost at a stated load."""

    family: Literal["inference"]
    load: Load
    hardware: Text
    engine: Text  #: with its build, such as `graftwork 0.1.0+3a7be20`
    latency_s: Percentiles | None = None
    first_token_s: Percentiles | None = None
    inter_token_s: Percentiles | None = None
    memory_bytes: Count | None = None
    requests_per_s: NotNegative | None = None
    output_tokens_per_s: NotNegative | None = None

    TIMES: ClassVar = ("latency_s", "first_token_s", "inter_token_s")
    #: With whether more is better.
    AMOUNTS: ClassVar = {"memory_bytes": False, "requests_per_s": True, "output_tokens_per_s": True}

    def measures(self) -> list[Metric]:
        found = []
        for field in self.TIMES:
            for percentile, seconds in dict(getattr(self, field) or {}).items():
                if seconds is not None:
                    name = f"{field.removesuffix('_s')}_{percentile}_s"
                    found.append(Metric(name=name, value=seconds, higher_is_better=False, unit="s"))
        for field, more_is_better in self.AMOUNTS.items():
            if (amount := getattr(self, field)) is not None:
                found.append(Metric(name=field, value=float(amount), higher_is_better=more_is_better))
        return found

    def measured_on(self) -> Mapping[str, Any]:
        return {**self.load.model_dump(), "hardware": self.hardware}

    def check(self) -> None:
        if not self.measures():
            fields = ", ".join((*self.TIMES, *self.AMOUNTS))
            raise InvalidRequest(f"An inference evaluation must have at least one of {fields}.", field="latency_s")


class DriftEvaluation(EvaluationBody):
    """A baseline: counts from which later PSI, Jensen-Shannon and Kolmogorov-Smirnov distances can be computed."""

    family: Literal["drift"]
    distributions: Distributions
    window: Window | None = None


class BusinessEvaluation(_Metrics):
    """Numbers of a product, and where they are from."""

    family: Literal["business"]
    source: Literal["offline", "shadow", "live"]
    window: Window


FAMILIES: dict[str, type[EvaluationBody]] = {
    "task": TaskEvaluation,
    "inference": InferenceEvaluation,
    "drift": DriftEvaluation,
    "business": BusinessEvaluation,
}
Family = Literal["task", "inference", "drift", "business"]


class AnyEvaluation(
    RootModel[
        Annotated[
            TaskEvaluation | InferenceEvaluation | DriftEvaluation | BusinessEvaluation, Field(discriminator="family")
        ]
    ]
):
    """An evaluation of any family."""


class _Family(Body):
    model_config = ConfigDict(extra="ignore")

    family: Family
