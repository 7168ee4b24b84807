"""The Rollout document, and the bodies and answers of its doors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.answers import Shape
from graftwork.protocol.arguments import ArgumentAnswer, GivenArguments
from graftwork.protocol.duration import Duration
from graftwork.protocol.registry import OurBody, Reason
from graftwork.protocol.resource import ApiVersion, Resource, Whose

MAX_STEPS = 100
MAX_CANDIDATES = 10
MAX_WEIGHT = 1_000_000.0
Status = Literal["warming", "progressing", "paused", "promoted", "completed", "aborted", "superseded"]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Percent = Annotated[float, Field(ge=0, le=100)]


class AnalysisPart(Resource):
    """By which template an arm is judged, and how long a step waits for a verdict before it waits for a person.

    Without a revision it is the template's live one, and stays that one from the start of the rollout to its end; so do
    the values of its arguments, those that are the template's own included.
    """

    name: Name
    revision: Annotated[int, Field(ge=1, le=(1 << 53) - 1)] | None = None
    args: GivenArguments = Field(default_factory=list)
    deadline: Duration | None = None


class PausePart(Resource):
    """How long; without a duration, until somebody resumes."""

    duration: Duration | None = None


class StepPart(Resource):
    """One of these."""

    set_weight: Percent | None = None
    set_mirror: Percent | None = None
    pause: PausePart | None = None
    analysis: AnalysisPart | None = None


class CanaryPart(Resource):
    """Step by step; `analysis` is judged all the time and passes before the end, a step's own in that step."""

    steps: list[StepPart] = Field(min_length=1, max_length=MAX_STEPS)
    analysis: AnalysisPart | None = None


class SplitPart(Resource):
    """Several arms at once (A/B/n), with weights relative to each other, of all arms and `stable`, or equal ones."""

    weights: dict[Name, Annotated[float, Field(ge=0, le=MAX_WEIGHT)]] | None = Field(
        None, max_length=MAX_CANDIDATES + 1
    )
    duration: Duration | None = None
    analysis: AnalysisPart | None = None


class BlueGreenPart(Resource):
    """Warm, judge, switch everything, judge again, and keep the old version warm for a while before it is final."""

    auto_promotion: bool = True
    pre_promotion_analysis: AnalysisPart | None = None
    post_promotion_analysis: AnalysisPart | None = None
    scale_down_delay: Duration = 600.0


class ShadowPart(Resource):
    """Copies of some requests go to the candidate; nobody is answered by it."""

    mirror: Percent
    duration: Duration | None = None
    analysis: AnalysisPart | None = None


class StrategyPart(Resource):
    """One of these."""

    canary: CanaryPart | None = None
    split: SplitPart | None = None
    blue_green: BlueGreenPart | None = None
    shadow: ShadowPart | None = None


class CandidatePart(Resource):
    """What may take over, and what its arm is called."""

    reference: Annotated[str, Field(min_length=1, max_length=512)]
    arm: Name = "candidate"


class RolloutSpec(Resource):
    """From what the route means now, to what, and how."""

    route: Name
    stable: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    candidates: list[CandidatePart] = Field(min_length=1, max_length=MAX_CANDIDATES)
    strategy: StrategyPart


class RolloutBody(Resource):
    """POST /api/v1/rollouts: a rollout document; `metadata.name`, where it is given, is the route too."""

    api_version: ApiVersion
    kind: Literal["Rollout"]
    metadata: Whose = Field(default_factory=Whose)
    spec: RolloutSpec

    def check(self) -> None:
        if self.metadata.name not in (None, self.spec.route):
            raise InvalidRequest(
                f"metadata.name is {self.metadata.name!a}, and spec.route {self.spec.route!a}; give one of them.",
                field="metadata.name",
            )


class ActionBody(OurBody):
    """POST …/pause, …/resume, …/abort and …/retry: why; `revision` is the one that must be the newest."""

    reason: Reason = None
    revision: Annotated[int, Field(ge=1, le=(1 << 53) - 1)] | None = None


class PromoteArmBody(ActionBody):
    """POST …/promote: also which arm, where there are several."""

    arm: Name | None = None


class ArmAnswer(Shape):
    """An arm, the version it stands for, and what share of the keys it answers, in percent."""

    arm: str
    version: str
    digest: str
    weight: float


class MetricStanding(Shape):
    """How a metric stands, why, the figures of its last look, and how many looks said so each."""

    name: str
    result: Literal["pass", "fail", "inconclusive"]
    reason: str
    figures: dict[str, float]
    looks: dict[Literal["pass", "fail", "inconclusive"], int]


class AnalysisStanding(Shape):
    """How an arm stands before a template, by what was observed since a time, when it was looked at last."""

    arm: str
    name: str
    revision: int | None
    args: list[ArgumentAnswer]
    since: str
    looked_at: str
    result: Literal["pass", "fail", "inconclusive"]
    reason: str
    metrics: list[MetricStanding]


class RolloutAnswer(Shape):
    """Where a rollout stands; `held` is why it is paused: asked, step, undecided or forbidden.

    `waits_for` is what keeps its candidates from being in memory, while that is known.
    """

    route: str
    revision: int
    status: Status
    strategy: Literal["canary", "split", "blueGreen", "shadow"]
    step: int
    steps: int
    reason: str
    held: Literal["asked", "step", "undecided", "forbidden"] | None
    waits_for: str | None
    arms: list[ArmAnswer]
    analyses: list[AnalysisStanding]
    mirror: float
    entered_at: str
    created_at: str
    created_by: str
    updated_at: str
    ended_at: str | None
    spec: dict[str, Any]


class RolloutList(Shape):
    """The newest rollout of each route."""

    rollouts: list[RolloutAnswer]
    next_page_token: str | None


class RolloutStep(Shape):
    """One change of a rollout; `evidence` is what gates said, where they decided it."""

    revision: int
    number: int
    at: str
    actor: str
    kind: str
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any]
    evidence: dict[str, Any] | None


class RolloutStepList(Shape):
    """GET …/steps: the changes of all rollouts of a route, the newest first."""

    steps: list[RolloutStep]
    next_page_token: str | None
