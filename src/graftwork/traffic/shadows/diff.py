"""Diff: how a copy differs from the answer; one row of `shadow_diffs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from sqlalchemy import Row

from graftwork.traffic.gates.signals import signals_of
from graftwork.traffic.observation import Observation
from graftwork.traffic.records.vault import content_of
from graftwork.traffic.shadows.copied import Copied
from graftwork.traffic.shadows.likeness import Likeness, likeness

#: `ok` was compared; `error` and `timeout` are the copy's own end, and leave nothing to compare.
Outcome = Literal["ok", "error", "timeout"]
TIMED_OUT: Final = "timed_out"  # the code of such an error


@dataclass(frozen=True)
class Diff:
    """Times are in seconds. What is None could not be compared, or was not measured."""

    tenant: str
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
    outcome: Outcome
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
    #: Of the copy, as records have them of answers.
    empty: bool
    repetitive: bool
    refusal: bool
    answer_hash: str | None = None
    shadow_hash: str | None = None

    @classmethod
    def of(cls, one: Copied) -> Diff:
        """What both come to, compared."""
        answer, shadow = one.answer, one.shadow
        outcome: Outcome = "ok" if shadow.error is None else "timeout" if shadow.error == TIMED_OUT else "error"
        compared: dict[str, Any] = dict.fromkeys(field.name for field in fields(Likeness))
        if outcome == "ok":
            compared = asdict(likeness(answer.texts, shadow.texts))
        signals = [signals_of(text) for text in shadow.texts]
        return cls(
            tenant=one.tenant,
            request_id=one.request_id,
            arm=one.arm,
            at=one.at,
            door=one.door,
            route=one.route,
            rollout=one.rollout,
            user_id=one.user_id,
            model=answer.model,
            digest=answer.digest,
            shadow_model=shadow.model,
            shadow_digest=shadow.digest,
            outcome=outcome,
            error=shadow.error,
            sampled=one.sampled,
            **compared,
            latency_s=answer.latency_s,
            shadow_latency_s=shadow.latency_s,
            shadow_ttft_s=shadow.ttft_s,
            output_tokens=answer.output_tokens,
            shadow_prompt_tokens=shadow.prompt_tokens,
            shadow_output_tokens=shadow.output_tokens,
            mean_logprob=answer.mean_logprob,
            shadow_mean_logprob=shadow.mean_logprob,
            finish_reason=answer.finish_reason,
            shadow_finish_reason=shadow.finish_reason,
            empty=bool(signals) and all(signal.empty for signal in signals),
            repetitive=any(signal.repetitive for signal in signals),
            refusal=any(signal.refusal for signal in signals),
        )

    def hashed(self, one: Copied, hashed: Callable[[bytes], str]) -> Diff:
        """The same with hashes of both texts, by their tenant's own function."""
        shadow = hashed(content_of(list(one.shadow.texts))) if self.outcome == "ok" else None
        return replace(self, answer_hash=hashed(content_of(list(one.answer.texts))), shadow_hash=shadow)

    @classmethod
    def from_row(cls, row: Row[Any]) -> Diff:
        return cls(**{one.name: row._mapping[one.name] for one in fields(cls)})

    def to_row(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def to_json(self) -> dict[str, Any]:
        """Without the tenant, who asks."""
        told = dict(self.__dict__)
        del told["tenant"]
        return told

    @property
    def observation(self) -> Observation:
        """The copy as gates see an answer; its likeness is among the scores, as `exact`, `normalised`, `similarity`."""
        scores = {"exact": self.exact, "normalised": self.normalised, "similarity": self.similarity}
        return Observation(
            at=self.at,
            arm=self.arm,
            digest=self.shadow_digest,
            outcome="ok" if self.outcome == "ok" else "error",
            latency_s=self.shadow_latency_s or 0.0,
            ttft_s=self.shadow_ttft_s,
            prompt_tokens=self.shadow_prompt_tokens or 0,
            output_tokens=self.shadow_output_tokens,
            mean_logprob=self.shadow_mean_logprob,
            finish_reason=self.shadow_finish_reason,
            empty=self.empty,
            repetitive=self.repetitive,
            refusal=self.refusal,
            feedback={name: float(value) for name, value in scores.items() if value is not None},
        )
