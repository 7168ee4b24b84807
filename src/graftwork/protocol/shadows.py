"""What the doors of shadows answer with."""

from __future__ import annotations

from typing import Literal

from graftwork.protocol.answers import Shape

CopyOutcome = Literal["ok", "error", "timeout"]


class DiffAnswer(Shape):
    """How a copy differs from the answer; times in seconds, null for what could not be compared or was not measured."""

    request_id: str
    arm: str
    at: str
    door: str
    route: str
    rollout: str
    user_id: str | None
    model: str
    digest: str
    shadow_model: str
    shadow_digest: str
    outcome: CopyOutcome
    error: str | None
    sampled: bool
    exact: bool | None
    normalised: bool | None
    similarity: float | None
    length_ratio: float | None
    latency_s: float | None
    shadow_latency_s: float | None
    shadow_ttft_s: float | None
    output_tokens: int
    shadow_prompt_tokens: int | None
    shadow_output_tokens: int
    mean_logprob: float | None
    shadow_mean_logprob: float | None
    finish_reason: str | None
    shadow_finish_reason: str | None
    empty: bool
    repetitive: bool
    refusal: bool
    answer_hash: str | None
    shadow_hash: str | None


class SaidDiffAnswer(DiffAnswer):
    """The same with what the copy said, where the tenant has texts kept."""

    text: list[str] | None


class DiffList(Shape):
    """GET /api/v1/shadows: the newest first, a page, and what leads to the next one."""

    shadows: list[DiffAnswer]
    next_page_token: str | None


class RateAnswer(Shape):
    """How many of how many, and between what bounds that lies in the long run (95 %, however often one looks)."""

    count: int
    of: int
    rate: float | None
    low: float
    high: float


class SimilarityAnswer(Shape):
    """Quantiles of how alike the texts are, 0 to 1."""

    mean: float | None
    p5: float | None
    p25: float | None
    p50: float | None


class LengthAnswer(Shape):
    """Quantiles of the copy's characters over the answer's."""

    mean: float | None
    p5: float | None
    p50: float | None
    p95: float | None


class TimeAnswer(Shape):
    """Quantiles of seconds, from when the engine was asked to the last token."""

    mean: float | None
    p50: float | None
    p95: float | None


class TimesAnswer(Shape):
    """Those of both sides."""

    answer: TimeAnswer
    shadow: TimeAnswer


class LogprobsAnswer(Shape):
    """The mean of the means, where they are known."""

    answer: float | None
    shadow: float | None


class ReasonsAnswer(Shape):
    """How often answers ended for which reason."""

    answer: dict[str, int]
    shadow: dict[str, int]


class SignalsAnswer(Shape):
    """How many of the copies were so."""

    empty: int
    repetitive: int
    refusal: int


class WorstAnswer(Shape):
    """A request of which the two are least alike."""

    request_id: str
    at: str
    outcome: CopyOutcome
    similarity: float | None


class PairAnswer(Shape):
    """What the copies say of one version beside another."""

    model: str
    digest: str
    shadow_model: str
    shadow_digest: str
    rollouts: list[str]
    first: str
    last: str
    copies: int
    compared: int
    sampled: int
    errors: int
    timeouts: int
    failure: RateAnswer
    exact: RateAnswer
    normalised: RateAnswer
    similarity: SimilarityAnswer
    length_ratio: LengthAnswer
    latency_s: TimesAnswer
    mean_logprob: LogprobsAnswer
    finish_reasons: ReasonsAnswer
    signals: SignalsAnswer
    worst: list[WorstAnswer]


class ShadowReport(Shape):
    """GET /api/v1/shadows/report: each pair of versions of a route, the newest first."""

    route: str
    pairs: list[PairAnswer]
