"""Draft: the record of one request while it is answered; doors and engine streams tell it what they see."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graftwork.access.principal import Principal
from graftwork.engine.request import (
    AdapterHandle,
    ChatPrompt,
    Delta,
    GenerationRequest,
    Pooled,
    PoolingRequest,
    Prompt,
)
from graftwork.engine.sampling_params import SamplingParams
from graftwork.gateway.answer_rows import AnswerRows, known_first
from graftwork.gateway.answer_shape import Choice
from graftwork.protocol.canonical import sha256
from graftwork.protocol.errors import kind_of
from graftwork.traffic.decision import Decision
from graftwork.traffic.records.entry import Entry
from graftwork.traffic.records.record import Outcome, Record, outcome_of
from graftwork.traffic.records.recording import Recording

#: Longest names and ids that are kept of what callers make up, in characters.
LONGEST = 256
_DEFAULTS = SamplingParams().__dict__
#: The same prompts again, for another version.
Again = Callable[[AdapterHandle], Awaitable[Sequence[GenerationRequest]]]


@dataclass
class Draft:
    """What is not told stays unknown in the record. Used from the event loop only."""

    request_id: str
    principal: Principal
    door: str
    at: str
    position: int
    recording: Recording
    engine: str
    base: str
    user_id: str | None = None
    session_id: str | None = None
    asked: str | None = None
    size: int = 0
    began: float = field(default_factory=time.perf_counter)
    decision: Decision | None = None
    base_digest: str | None = None
    template: str | None = None  #: source of the adapter's own chat template
    streamed: bool = False
    choices_per_prompt: int = 1
    form_asked: bool = False
    format_valid: bool | None = None  #: where a door has read the answer itself
    task: str | None = None
    #: The answers as they are written, which know of calls of tools.
    choices: Sequence[Choice] = ()
    prompts: list[Prompt] = field(default_factory=list)
    params: SamplingParams | None = None
    #: How a copy of the request is made; None: it is of a kind that is not copied.
    again: Again | None = None
    settled: bool = False

    def __post_init__(self) -> None:
        self.rows = AnswerRows(0)
        self._pooled: Sequence[Pooled] | None = None
        self._queued: float | None = None
        self.failure: BaseException | None = None

    def chose(self, decision: Decision, base_digest: str) -> None:
        self.decision, self.base_digest = decision, base_digest

    def begins(self, requests: Sequence[GenerationRequest]) -> None:
        """These are given to the engine."""
        self.prompts = [one.prompt for one in requests[:: self.choices_per_prompt]]
        self.params = requests[0].params if requests else None
        self.rows = AnswerRows(len(requests))

    def took(self, index: int, delta: Delta) -> None:
        """A step added this to the answer with this index."""
        self.rows.took(index, delta)

    def pools(self, requests: Sequence[PoolingRequest]) -> None:
        """These are given to the engine."""
        self.prompts = [one.prompt for one in requests]

    def pooled(self, made: Sequence[Pooled]) -> None:
        self._pooled, self._queued = made, max((one.queued_s or 0.0 for one in made), default=None)

    def failed(self, error: BaseException) -> None:
        """It will not be answered, or no further."""
        self.failure = error

    @property
    def kept_user(self) -> str | None:
        """As much of the user's name as is kept."""
        return _kept(self.user_id)

    @property
    def complete(self) -> bool:
        """Whether the engine has given the whole answer."""
        return self._pooled is not None or self.rows.complete

    def entry(self, status: int, *, gone: bool = False) -> Entry:
        """What is to be written, now that the request has ended with this status, or its caller is gone."""
        record = self._record(status, self._outcome(status, gone=gone))
        answer = self._answer()
        return Entry(
            record,
            prompt=[_plain(one) for one in self.prompts] or None,
            answer=answer,
            keep=self.recording.mode != "off",
            keep_text=self.recording.keep_text and bool(self.prompts),
            size=self.size + sum(map(len, answer or ())),
        )

    def _outcome(self, status: int, *, gone: bool) -> Outcome:
        if self.failure is not None and (self.streamed or status >= 400):  # else others of several were answered
            return outcome_of(kind_of(self.failure).status)
        return "aborted" if gone else outcome_of(status)

    def _record(self, status: int, outcome: Outcome) -> Record:
        now, decision, finish = time.perf_counter(), self.decision, self._finish_reason()
        firsts = [last for last in self.rows.lasts[:: self.choices_per_prompt] if last is not None]
        pooled, queued = self._pooled or (), self.rows.queued_s if self._pooled is None else self._queued
        return Record(
            tenant=self.principal.tenant,
            request_id=self.request_id,
            at=self.at,
            position=self.position,
            door=self.door,
            principal=self.principal.name,
            latency_s=now - self.began,
            outcome=outcome,
            status=status,
            key_id=self.principal.key,
            user_id=self.kept_user,
            session_id=_kept(self.session_id),
            asked=_kept(self.asked),
            task=self.task,
            **(_chosen(decision, self.base) if decision is not None else {}),
            base_digest=self.base_digest,
            template_digest=None if self.template is None else _digest(self.template),
            engine=self.engine,
            sampling=_given(self.params),
            streamed=self.streamed,
            choices=len(self.rows) or len(pooled),
            prompt_tokens=sum(one.prompt_tokens for one in firsts) + sum(one.prompt_tokens for one in pooled),
            output_tokens=self.rows.output_tokens,
            cached_tokens=sum(one.cached_tokens for one in firsts),
            queue_s=queued,
            ttft_s=None if self.rows.first is None else self.rows.first - self.began,
            error=None if self.failure is None else kind_of(self.failure).code,
            finish_reason=finish,
            mean_logprob=self.rows.mean_logprob,
            format_valid=self._format_valid(finish, outcome),
        )

    def _format_valid(self, finish: str | None, outcome: Outcome) -> bool | None:
        if self.format_valid is None and self.form_asked and outcome == "ok":
            return finish in ("stop", "tool_calls")
        return self.format_valid

    def _finish_reason(self) -> str | None:
        told = self.rows.finish_reasons
        if self.choices:
            told = [choice.finish(reason) for choice, reason in zip(self.choices, told, strict=True)]
        return known_first(told)

    def _answer(self) -> list[str] | None:
        if len(self.rows):
            return self.rows.texts
        classes = [one for one in self._pooled or () if one.labels]
        return [one.labels[one.values.index(max(one.values))] for one in classes] or None


def _chosen(decision: Decision, base: str) -> dict[str, Any]:
    composition = decision.composition
    scaled = composition.parts if composition is not None else [(one, 1.0) for one in decision.versions]
    names = composition.names if composition is not None else base
    return {
        "adapter": decision.version.adapter if decision.version is not None else names,
        "model": decision.model,
        "digest": decision.digest,
        "adapters": tuple(
            {
                "adapter": version.adapter,
                "version": version.semver,
                "sequence": version.sequence,
                "digest": version.digest,
                "scale": scale,
            }
            for version, scale in scaled
        ),
        "route": decision.route,
        "route_revision": decision.revision,
        "rollout": decision.rollout,
        "arm": decision.arm,
        "decision": decision.reason,
    }


def _given(params: SamplingParams | None) -> dict[str, Any]:
    """What differs from the defaults."""
    if params is None:
        return {}
    return {name: value for name, value in params.__dict__.items() if value != _DEFAULTS[name]}


def _plain(prompt: Prompt) -> Any:
    if isinstance(prompt, ChatPrompt):
        return {"messages": prompt.messages, **({"tools": prompt.tools} if prompt.tools else {})}
    return prompt


def _kept(text: str | None) -> str | None:
    """As much of it as is kept, and nothing that a database does not take."""
    return None if text is None else text[:LONGEST].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


_digest = lru_cache(maxsize=256)(sha256)
