"""Parts of evaluations: metrics, data sets, loads, percentiles, distributions."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from graftwork.protocol.registry import OurBody

MAX_BINS = 1024
MAX_CATEGORIES = 4096
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
