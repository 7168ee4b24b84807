"""The body and the answer of POST /api/v1/analysis/check: a template, and evidence to judge by it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from graftwork.protocol.analysis_template import AnalysisTemplate
from graftwork.protocol.answers import Shape
from graftwork.protocol.arguments import ArgumentAnswer, GivenArguments
from graftwork.protocol.evaluation_parts import Count, Distributions, Moment
from graftwork.protocol.evaluations import AnyEvaluation
from graftwork.protocol.registry import OurBody

MAX_EVALUATIONS = 1000
MAX_FEEDBACK = 64
MAX_SECONDS = 1e9
Word = Annotated[str, Field(max_length=128)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]


class ObservationBody(OurBody):
    """What is known of one answer; what is left out was not measured. Times are in seconds."""

    at: Moment | None = None
    arm: Word | None = None
    digest: Word | None = None
    outcome: Literal["ok", "error", "aborted"]
    latency_s: Seconds
    ttft_s: Seconds | None = None
    prompt_tokens: Count = 0
    output_tokens: Count = 0
    mean_logprob: float | None = None
    finish_reason: Word | None = None
    empty: bool = False
    repetitive: bool = False
    refusal: bool = False
    format_valid: bool | None = None
    feedback: dict[Word, float] = Field(default_factory=dict, max_length=MAX_FEEDBACK)


class ArmBody(OurBody):
    """What is known of one version: its answers, its evaluations (the newest last), counts over its answers."""

    observations: list[ObservationBody] = Field(default_factory=list)
    evaluations: list[AnyEvaluation] = Field(default_factory=list, max_length=MAX_EVALUATIONS)
    distributions: Distributions | None = None


class EvidenceBody(OurBody):
    """What is judged."""

    candidate: ArmBody
    stable: ArmBody = Field(default_factory=ArmBody)
    baseline: Distributions | None = None


class AnalysisCheckBody(OurBody):
    """POST /api/v1/analysis/check; without evidence only the template is read."""

    template: AnalysisTemplate
    args: GivenArguments = Field(default_factory=list)
    evidence: EvidenceBody | None = None

    def check(self) -> None:
        if self.evidence is not None:
            for arm in (self.evidence.candidate, self.evidence.stable):
                for evaluation in arm.evaluations:
                    evaluation.root.check()


class MetricVerdict(Shape):
    """What one look at a metric says, why, and the figures that it rests on; those that are infinite are left out."""

    name: str
    result: Literal["pass", "fail", "inconclusive"]
    reason: str
    figures: dict[str, float]


class AnalysisVerdict(Shape):
    """What one look at all metrics says; null where there was nothing to judge. `args` are what arguments stood for."""

    name: str
    args: list[ArgumentAnswer]
    result: Literal["pass", "fail", "inconclusive"] | None
    reason: str
    metrics: list[MetricVerdict]
