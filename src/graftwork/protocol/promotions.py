"""The PromotionPolicy document, and the answers of its doors."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from graftwork.protocol.answers import Shape
from graftwork.protocol.arguments import GivenArguments
from graftwork.protocol.resource import Document, Resource, Spec
from graftwork.protocol.rollouts import Name, StrategyPart


class WhenPart(Resource):
    """What makes a version a candidate: that it is in staging, or that it has an alias."""

    stage: Literal["staging"] | None = None
    alias: Name | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.stage is None) == (self.alias is None):
            raise ValueError("must have one of stage and alias")
        return self


class GatePart(Resource):
    """An analysis template that the candidate's stored evaluations must pass; without a revision the live one."""

    name: Name
    revision: Annotated[int, Field(ge=1, le=(1 << 53) - 1)] | None = None
    args: GivenArguments = Field(default_factory=list)


class PromotionSpec(Spec):
    """Which versions start a rollout by themselves, when, and by which strategy; on success it promotes them."""

    adapters: Annotated[str, Field(min_length=1, max_length=128)]
    when: WhenPart
    gate: GatePart | None = None
    approved: bool = False
    route: Name | None = None
    strategy: StrategyPart


class PromotionDocument(Document):
    """A promotion policy in a file, and PUT /api/v1/promotions/{name}."""

    kind: Literal["PromotionPolicy"]
    spec: PromotionSpec


class CandidateAnswer(Shape):
    """A version that a policy means now, what its rollout still waits for, and the rollout that it began."""

    adapter: str
    version: str
    digest: str
    route: str
    waits_for: list[str]
    rollout: str | None


class CandidateList(Shape):
    """GET /api/v1/promotions/{name}/candidates, by adapter."""

    candidates: list[CandidateAnswer]
    next_page_token: str | None
