"""Evaluations: what was measured of a version, in four families; the body of POST …/evaluations and of files.

    task        a benchmark: a data set, a split, and metrics on it
    inference   latency, memory and throughput at a stated load
    drift       distributions of what a version was asked and answered, for later ones to be compared with
    business    numbers of a product over a window of time

Times are in seconds, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, RootModel, model_validator

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.registry import OurBody

MAX_METRICS = 256
MAX_REPORTS = 64
MAX_BINS = 1024
MAX_CATEGORIES = 4096
MAX_NOTES = 16_384
#: As JSON readers hold integers.
MAX_COUNT = 2**53 - 1
#: Names of evaluations and of metrics: ASCII without blanks, so that no two look alike and each can be typed.
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._@/+:-]*[A-Za-z0-9])?$"
RFC_3339 = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
DIGEST = r"^sha256:[0-9a-f]{64}$"


def _that_there_is(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no day and time that there is") from None
    return text


Name = Annotated[str, Field(min_length=1, max_length=128, pattern=NAME)]
Text = Annotated[str, Field(min_length=1, max_length=256)]
Moment = Annotated[
    str, Field(pattern=RFC_3339, description="RFC 3339, with its offset"), AfterValidator(_that_there_is)
]
Digest = Annotated[str, Field(pattern=DIGEST)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
NotNegative = Annotated[float, Field(ge=0)]


class Metric(OurBody):
    """One number, and how sure it is: its standard error, and over how many examples."""

    name: Name
    value: float
    stderr: NotNegative | None = None
    higher_is_better: bool | None = None
    n: Positive | None = None
    unit: Text | None = None


class Dataset(OurBody):
    """Which data: its id (`cais/hle`), and which of its forms that was."""

    id: Text
    config: Text | None = None
    revision: Text | None = None
    digest: Digest | None = None


class Tool(OurBody):
    """What measured it."""

    name: Text
    version: Text | None = None


class Report(OurBody):
    """A file about the evaluation, which is stored under its digest."""

    name: Text
    digest: Digest
    media_type: Text | None = None


class Examples(OurBody):
    """Scores of each example: a stored file of lines `{"id": "17", "scores": {"accuracy": 1}}`."""

    digest: Digest


class Window(OurBody):
    """From when to when."""

    start: Moment
    end: Moment

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if datetime.fromisoformat(self.start) >= datetime.fromisoformat(self.end):
            raise ValueError("must begin before it ends")
        return self


class Percentiles(OurBody):
    """How long something took, in seconds."""

    mean: NotNegative | None = None
    p50: NotNegative
    p90: NotNegative | None = None
    p95: NotNegative | None = None
    p99: NotNegative | None = None

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        given = [one for one in (self.p50, self.p90, self.p95, self.p99) if one is not None]
        if given != sorted(given):
            raise ValueError("has percentiles that do not ascend")
        return self


class Load(OurBody):
    """How a server was asked: clients at once, and the tokens of each request."""

    clients: Positive
    prompt_tokens: Count
    output_tokens: Count


class Histogram(OurBody):
    """How often a number lay between edges: `counts[i]` of edges[i] ≤ x < edges[i + 1], and those beyond the ends."""

    edges: list[float] = Field(min_length=2, max_length=MAX_BINS + 1)
    counts: list[Count] = Field(min_length=1, max_length=MAX_BINS)
    below: Count = 0
    above: Count = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.counts) != len(self.edges) - 1:
            raise ValueError(
                f"has {len(self.edges)} edges, which is {len(self.edges) - 1} counts, not {len(self.counts)}"
            )
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("has edges that do not ascend")
        if not sum(self.counts) + self.below + self.above:
            raise ValueError("counts nothing")
        return self


class Categories(OurBody):
    """How often each token came, by its text or its id; `other` are those that are not listed."""

    counts: dict[Annotated[str, Field(max_length=256)], Count] = Field(max_length=MAX_CATEGORIES)
    other: Count = 0

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if not sum(self.counts.values()) + self.other:
            raise ValueError("counts nothing")
        return self


class Distributions(OurBody):
    """What requests and answers looked like: lengths in tokens, tokens, log-probabilities of answer tokens."""

    prompt_tokens: Histogram | None = None
    answer_tokens: Histogram | None = None
    logprob: Histogram | None = None
    tokens: Categories | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("must have at least one")
        return self


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
