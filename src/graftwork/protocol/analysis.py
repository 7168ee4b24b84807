"""Analyses: metrics that a version must meet, with Argo's names for what is alike."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from graftwork.protocol.arguments import Fillable
from graftwork.protocol.condition import MAX_LENGTH, Condition, parse_condition
from graftwork.protocol.duration import Duration
from graftwork.protocol.evaluation_parts import Name, Positive
from graftwork.protocol.resource import Spec

MAX_METRICS = 32
MAX_LOOKS = 100_000
#: Looks are this many seconds apart where nothing else is said.
DEFAULT_INTERVAL_S = 10.0

Rate = Literal["success_rate", "empty_rate", "truncated_rate", "repetitive_rate", "refusal_rate", "format_valid_rate"]
Amount = Literal["latency_s", "ttft_s", "output_tokens_per_s", "prompt_tokens", "output_tokens", "mean_logprob"]
Statistic = Literal["mean", "p50", "p90", "p95", "p99"]
Drifting = Literal["prompt_tokens", "answer_tokens", "mean_logprob", "logprob", "tokens"]
Distance = Literal["psi", "js", "ks"]


def _readable(text: str) -> str:
    parse_condition(text)
    return text


ConditionText = Annotated[str, Field(min_length=1, max_length=MAX_LENGTH), AfterValidator(_readable)]
Score = Annotated[float, Field(ge=-1e9, le=1e9)]
Limit = Annotated[int, Field(ge=0, le=MAX_LOOKS)]


class RatePart(Fillable):
    """A share of the answers, from 0 to 1."""

    measure: Rate


class AmountPart(Fillable):
    """A number of each answer, and what of those numbers is judged."""

    measure: Amount
    statistic: Statistic


class FeedbackPart(Fillable):
    """The mean of a score or business event by name, where each lies between two numbers."""

    name: Name
    low: Score = 0.0
    high: Score = 1.0

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if self.low >= self.high:
            raise ValueError("has a low that is not below its high")
        return self


class EvaluationPart(Fillable):
    """A number of the version's last evaluation of that family, name and split."""

    family: Literal["task", "inference", "business"] = "task"
    name: Name
    metric: Name
    split: Literal["train", "validation", "test"] | None = None
    source: Literal["offline", "shadow", "live"] = "offline"


class DriftPart(Fillable):
    """How far a distribution is from the stored baseline, or from stable's; `result` is the distance."""

    of: Drifting
    distance: Distance = "psi"
    against: Literal["baseline", "stable"] = "baseline"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.of == "mean_logprob" and self.against == "baseline":
            raise ValueError("is of mean_logprob, which no baseline has: compare with stable, or take logprob")
        if self.of == "tokens" and (self.distance == "ks" or self.against == "stable"):
            raise ValueError("is of tokens, which have no order: take psi or js against the baseline")
        return self


class ProviderPart(Fillable):
    """Where a metric's numbers come from: one of these."""

    rate: RatePart | None = None
    amount: AmountPart | None = None
    feedback: FeedbackPart | None = None
    evaluation: EvaluationPart | None = None
    drift: DriftPart | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len([name for name in ProviderPart.model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"must have exactly one of {', '.join(ProviderPart.model_fields)}")
        return self

    @property
    def kind(self) -> str:
        return next(name for name in ProviderPart.model_fields if getattr(self, name) is not None)


class MetricPart(Fillable):
    """One metric, when it is looked at, and what it must come to."""

    name: Name
    provider: ProviderPart
    success_condition: ConditionText | None = None
    failure_condition: ConditionText | None = None
    initial_delay: Duration = 0.0
    interval: Duration | None = None
    count: Annotated[int, Field(ge=1, le=MAX_LOOKS)] | None = None
    failure_limit: Limit = 0
    inconclusive_limit: Limit | None = None
    min_samples: Positive | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.success_condition is None and self.failure_condition is None:
            raise ValueError("must have a successCondition, a failureCondition, or both")
        given = {one.subject for one in (self.success, self.failure) if one is not None}
        if len(given) > 1:
            raise ValueError(f"compares {' and '.join(sorted(given))}: both conditions must compare the same")
        if self.provider.drift is not None and given != {"result"}:
            raise ValueError("is of drift, whose result is a distance already: compare result alone")
        if (self.count or 1) > 1 and not self.interval:
            raise ValueError("has a count but no interval: say how long to wait between two looks")
        return self

    @property
    def endless(self) -> bool:
        """Whether it is looked at as long as whoever looks wants to."""
        return self.interval is not None and self.count is None

    @property
    def success(self) -> Condition | None:
        return None if self.success_condition is None else parse_condition(self.success_condition)

    @property
    def failure(self) -> Condition | None:
        return None if self.failure_condition is None else parse_condition(self.failure_condition)


class AnalysisSpec(Fillable, Spec):
    """All metrics must pass, and one that fails is enough; `alpha` bounds how often it is one of chance."""

    metrics: list[MetricPart] = Field(min_length=1, max_length=MAX_METRICS)
    alpha: float = Field(0.05, ge=1e-9, le=0.5)
    settle: Duration = 0.0

    @model_validator(mode="after")
    def _different(self) -> Self:
        names = [metric.name for metric in self.metrics]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"has two metrics of the name {twice[0]}")
        return self
