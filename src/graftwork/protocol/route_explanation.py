"""What the door that explains routes takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody
from graftwork.protocol.routes import Value


class ExplainBody(OurBody):
    """POST …/explain: a request as it might come; what is left out is as in the request that asks."""

    task: Value | None = None
    user: Value | None = None
    key: Value | None = None
    session: Value | None = None
    locale: Annotated[str, Field(max_length=1024)] | None = None
    region: Value | None = None
    headers: dict[str, Annotated[str, Field(max_length=8192)]] = Field(default_factory=dict, max_length=64)
    at: Annotated[str | None, Field(max_length=64)] = None


class ExplainedMatch(Shape):
    """One of a rule's matches, and what of it the request is not; empty where it fits."""

    fits: bool
    why: list[str]


class ExplainedRule(Shape):
    """One rule that was looked at."""

    rule: str
    fits: bool
    action: Literal["targets", "refuse", "next"]
    matches: list[ExplainedMatch]


class ExplainedArm(Shape):
    """One arm of the rule that won, its share of all keys, and what it resolves to now."""

    arm: str
    reference: str
    share: float
    model: str | None
    digest: str | None


class Explanation(Shape):
    """Who would answer and why."""

    route: str
    revision: int | None
    rule: str | None
    arm: str | None
    point: float | None
    key: str | None
    reference: str | None
    model: str | None
    digest: str | None
    refusal: dict[str, Any] | None
    error: str | None
    defaults: dict[str, Any]
    rules: list[ExplainedRule]
    arms: list[ExplainedArm]
