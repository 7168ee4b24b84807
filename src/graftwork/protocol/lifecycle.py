"""The bodies and answers of stages, approvals, deprecations and policies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody, Reason, Stage
from graftwork.protocol.resource import API_VERSION, ApiVersion, Resource, Whose

Verdict = Literal["approved", "rejected"]
MAX_MESSAGE = 2048
MAX_APPROVERS = 100
MAX_KEYS = 100


class StageBody(OurBody):
    """PUT …/stage: where the version shall go; `expected` is the stage it must be in now."""

    stage: Stage
    expected: Stage | None = None
    reason: Reason = None


class OpinionBody(OurBody):
    """POST …/approvals: what one thinks of a version, and why."""

    verdict: Verdict
    reason: Reason = None


class DeprecationBody(OurBody):
    """PUT …/deprecation: what to use instead and why, and when the version is meant to go."""

    message: str = Field(min_length=1, max_length=MAX_MESSAGE)
    until: Annotated[str | None, Field(max_length=64)] = None


class ApprovalPart(Resource):
    """When a version counts as approved: how many, by whom, and whether one rejection is enough."""

    needed: int = Field(default=1, ge=1, le=MAX_APPROVERS)
    by: list[Annotated[str, Field(min_length=1, max_length=256)]] | None = Field(
        default=None, min_length=1, max_length=MAX_APPROVERS
    )
    author_may_approve: bool = True
    rejection_vetoes: bool = True


class SignaturePart(Resource):
    """Whose signatures a version must have, all of them: fingerprints of public keys."""

    keys: list[Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]] = Field(
        default_factory=list, max_length=MAX_KEYS
    )


class RequirePart(Resource):
    """What a version must have to enter a stage, or to answer requests."""

    staging: list[Literal["approval", "signature"]] = Field(default_factory=list, max_length=2)
    production: list[Literal["approval", "signature", "staging"]] = Field(default_factory=list, max_length=3)
    serving: list[Literal["approval", "signature"]] = Field(default_factory=list, max_length=2)


class PolicySpec(Resource):
    """What is demanded; what is left out demands nothing."""

    approval: ApprovalPart = Field(default_factory=ApprovalPart)
    signature: SignaturePart = Field(default_factory=SignaturePart)
    require: RequirePart = Field(default_factory=RequirePart)


class PolicyBody(Resource):
    """A policy document."""

    api_version: ApiVersion
    kind: Literal["Policy"]
    metadata: Whose = Field(default_factory=Whose)
    spec: PolicySpec = Field(default_factory=PolicySpec)

    def check(self) -> None:
        rule = self.spec.approval
        if rule.by is not None and len(set(rule.by)) < rule.needed:
            raise InvalidRequest(
                f"spec.approval.needed is {rule.needed}, but only {len(set(rule.by))} may approve.",
                field="spec.approval.needed",
            )
        demand = self.spec.require
        if not self.spec.signature.keys and "signature" in (*demand.staging, *demand.production, *demand.serving):
            raise InvalidRequest(
                "spec.require asks for a signature, and spec.signature.keys does not say by which keys.",
                field="spec.signature.keys",
            )


def policy_document(spec: dict[str, Any], adapter: str | None) -> dict[str, Any]:
    """The document that says this; it reads back as it was written."""
    metadata = {} if adapter is None else {"name": adapter}
    return {"apiVersion": API_VERSION, "kind": "Policy", "metadata": metadata, "spec": spec}


class OpinionAnswer(Shape):
    """One verdict on a version."""

    verdict: Verdict
    reason: str | None
    actor: str
    at: str


class OpinionList(Shape):
    """All of them, the oldest first, and what they come to."""

    approval: Literal["pending", "approved", "rejected"]
    opinions: list[OpinionAnswer]
