"""What the doors of records, feedback and usage take and answer with."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody
from graftwork.protocol.registry_answers import AliasAnswer, EventAnswer
from graftwork.protocol.resource import ApiVersion, Resource
from graftwork.protocol.retention import MAX_DAYS
from graftwork.protocol.shadows import SaidDiffAnswer

OutcomeName = Literal["ok", "error", "aborted", "refused"]
MAX_ID = 64
#: Longest name of a user or a session, in characters, as they are kept.
MAX_CALLED = 256
#: A word of feedback: what it is called, and where it comes from.
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]


class PredictionPart(Shape):
    """A version that took part in an answer."""

    adapter: str
    version: str
    sequence: int
    digest: str
    scale: float


class PredictionAnswer(Shape):
    """The record of one request; times in seconds, null for what was not measured or is not there."""

    request_id: str
    at: str
    position: int
    door: str
    principal: str
    latency_s: float
    outcome: OutcomeName
    status: int
    key_id: str | None
    user_id: str | None
    session_id: str | None
    asked: str | None
    task: str | None
    adapter: str | None
    model: str | None
    digest: str | None
    adapters: list[PredictionPart]
    base_digest: str | None
    template_digest: str | None
    route: str | None
    route_revision: int | None
    rollout: str | None
    arm: str | None
    decision: str | None
    engine: str
    sampling: dict[str, Any]
    streamed: bool
    choices: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    queue_s: float | None
    ttft_s: float | None
    error: str | None
    finish_reason: str | None
    mean_logprob: float | None
    empty: bool
    repetitive: bool
    refusal: bool
    format_valid: bool | None
    prompt_hash: str | None
    answer_hash: str | None


class PredictionList(Shape):
    """GET /api/v1/predictions: the newest first, a page, and what leads to the next one."""

    predictions: list[PredictionAnswer]
    next_page_token: str | None


class FeedbackAnswer(Shape):
    """What was said of an answer."""

    request_id: str
    name: str
    source: str
    value: float | None
    label: str | None
    at: str
    by: str


class PastAnswer(Shape):
    """How an adapter stood when it was decided who answers, and all that had been done with the version that did."""

    adapter: str
    version: str
    digest: str
    pointers: list[AliasAnswer]
    events: list[EventAnswer]


class SaidAnswer(Shape):
    """What was said, where the tenant has it kept."""

    prompt: list[Any] | None
    answer: list[str] | None


class ExplainedAnswer(Shape):
    """GET /api/v1/predictions/{id}: all that is known of one answer."""

    prediction: PredictionAnswer
    text: SaidAnswer | None
    #: Whether it is kept, and the caller may not see it.
    text_withheld: bool
    feedback: list[FeedbackAnswer]
    decided_by: list[EventAnswer]
    history: list[PastAnswer]
    shadows: list[SaidDiffAnswer]


class ForgottenAnswer(Shape):
    """DELETE /api/v1/predictions: how many records went."""

    deleted: int


class RecordingSpec(Resource):
    """`mode` null is the server's own; days are those that records, and what was said, are kept for."""

    mode: Literal["off", "relaxed", "strict"] | None = None
    keep_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 90
    keep_text: bool = False
    text_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30
    logprobs: bool = False


class Unnamed(Resource):
    """The `metadata` of a resource that a tenant has one of."""


class RecordingResource(Resource):
    """PUT /api/v1/recording takes it and answers with it; it also stands in files."""

    api_version: ApiVersion
    kind: Literal["Recording"]
    metadata: Unnamed = Field(default_factory=Unnamed)
    spec: RecordingSpec


class FeedbackBody(OurBody):
    """POST /v1/feedback: a number, a label or both, of the answer with this id (`X-Graftwork-Request`)."""

    request_id: Annotated[str, Field(min_length=1, max_length=MAX_ID)]
    name: Word
    value: float | None = None
    label: Annotated[str | None, Field(min_length=1, max_length=MAX_CALLED)] = None
    source: Word = "user"

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.value is None and self.label is None:
            raise ValueError("needs a value or a label")
        return self


class UsageAnswer(Shape):
    """One day (UTC) of one adapter, or of the base under its name."""

    day: str
    adapter: str
    requests: int
    errors: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float


class UsageList(Shape):
    """GET /api/v1/usage: by day and adapter, a page, and what leads to the next one."""

    usage: list[UsageAnswer]
    next_page_token: str | None
