"""Draft: the record of one request while it is answered; doors and engine streams tell it what they see."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graftwork.access.principal import Principal
from graftwork.db.canonical import sha256
from graftwork.engine.request import ChatPrompt, Delta, GenerationRequest, Pooled, PoolingRequest, Prompt
from graftwork.engine.sampling_params import SamplingParams
from graftwork.gateway.answer_shape import Choice
from graftwork.protocol.errors import kind_of
from graftwork.traffic.decision import Decision
from graftwork.traffic.records.entry import Entry
from graftwork.traffic.records.record import Outcome, Record, outcome_of
from graftwork.traffic.records.recording import Recording

#: Longest names and ids that are kept of what callers make up, in characters.
LONGEST = 256
_DEFAULTS = SamplingParams().__dict__


@dataclass(slots=True)
class _Row:
    """One answer as it comes."""

    text: list[str] = field(default_factory=list)
    last: Delta | None = None
    logprob: float = 0.0
    rated: int = 0  # tokens of which `logprob` is the sum


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
    settled: bool = False

    def __post_init__(self) -> None:
        self._rows: list[_Row] = []
        self._open = 0
        self._pooled: Sequence[Pooled] | None = None
        self._first = self._queued = None  # type: float | None
        self.failure: BaseException | None = None

    def chose(self, decision: Decision, base_digest: str) -> None:
        self.decision, self.base_digest = decision, base_digest

    def begins(self, requests: Sequence[GenerationRequest]) -> None:
        """These are given to the engine."""
        self.prompts = [one.prompt for one in requests[:: self.choices_per_prompt]]
        self.params = requests[0].params if requests else None
        self._rows, self._open = [_Row() for _ in requests], len(requests)

    def took(self, index: int, delta: Delta) -> None:
        """A step added this to the answer with this index."""
        if self._first is None:
            self._first, self._queued = time.perf_counter(), delta.queued_s
        row = self._rows[index]
        row.text.append(delta.text)
        row.last = delta
        for one in delta.logprobs[-len(delta.token_ids) :] if delta.logprobs and delta.token_ids else ():
            if one.logprob is not None:
                row.logprob += one.logprob
                row.rated += 1
        if delta.finish_reason is not None:
            self._open -= 1

    def pools(self, requests: Sequence[PoolingRequest]) -> None:
        """These are given to the engine."""
        self.prompts = [one.prompt for one in requests]

    def pooled(self, made: Sequence[Pooled]) -> None:
        self._pooled, self._queued = made, max((one.queued_s or 0.0 for one in made), default=None)

    def failed(self, error: BaseException) -> None:
        """It will not be answered, or no further."""
        self.failure = error

    @property
    def complete(self) -> bool:
        """Whether the engine has given the whole answer."""
        return self._pooled is not None or (bool(self._rows) and not self._open)

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
        firsts = [row.last for row in self._rows[:: self.choices_per_prompt] if row.last is not None]
        pooled, rated = self._pooled or (), sum(row.rated for row in self._rows)
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
            user_id=_kept(self.user_id),
            session_id=_kept(self.session_id),
            asked=_kept(self.asked),
            task=self.task,
            **(_chosen(decision, self.base) if decision is not None else {}),
            base_digest=self.base_digest,
            template_digest=None if self.template is None else _digest(self.template),
            engine=self.engine,
            sampling=_given(self.params),
            streamed=self.streamed,
            choices=len(self._rows) or len(pooled),
            prompt_tokens=sum(one.prompt_tokens for one in firsts) + sum(one.prompt_tokens for one in pooled),
            output_tokens=sum(row.last.completion_tokens for row in self._rows if row.last is not None),
            cached_tokens=sum(one.cached_tokens for one in firsts),
            queue_s=self._queued,
            ttft_s=None if self._first is None else self._first - self.began,
            error=None if self.failure is None else kind_of(self.failure).code,
            finish_reason=finish,
            mean_logprob=sum(row.logprob for row in self._rows) / rated if rated else None,
            format_valid=self._format_valid(finish, outcome),
        )

    def _format_valid(self, finish: str | None, outcome: Outcome) -> bool | None:
        if self.format_valid is None and self.form_asked and outcome == "ok":
            return finish in ("stop", "tool_calls")
        return self.format_valid

    def _finish_reason(self) -> str | None:
        """Of the answers the one that a reader should know first: that one was cut off."""
        told: list[str | None] = [row.last.finish_reason if row.last is not None else None for row in self._rows]
        if self.choices:
            told = [choice.finish(reason) for choice, reason in zip(self.choices, told, strict=True)]
        return "length" if "length" in told else next((reason for reason in told if reason), None)

    def _answer(self) -> list[str] | None:
        if self._rows:
            return ["".join(row.text) for row in self._rows]
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
