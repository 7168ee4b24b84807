"""Record: what is kept of one answered request; one row of `predictions`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from sqlalchemy import Row

#: `aborted` is the client's leaving, `error` is ours or the version's, `refused` the caller's words or rights.
Outcome = Literal["ok", "error", "aborted", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "error", "aborted", "refused")


@dataclass(frozen=True)
class Record:
    """Times are in seconds. What is None was not measured, or not there: who was refused has no version."""

    tenant: str
    request_id: str
    at: str  #: when the request had come: RFC 3339, UTC, microseconds
    position: int  #: of the last event of the log that its decision knew
    door: str
    principal: str
    latency_s: float
    outcome: Outcome
    status: int
    key_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    asked: str | None = None  #: the name that the caller gave
    task: str | None = None  #: by its name and revision
    adapter: str | None = None  #: the names of the adapters, `a+b`; the base's where it answered itself
    model: str | None = None
    digest: str | None = None  #: of the version or composition; None: the base
    #: The versions that took part: `{"adapter", "version", "sequence", "digest", "scale"}` each.
    adapters: tuple[Mapping[str, Any], ...] = ()
    base_digest: str | None = None
    template_digest: str | None = None  #: of the adapter's own chat template; None: the base's
    route: str | None = None
    route_revision: int | None = None
    rollout: str | None = None
    arm: str | None = None
    decision: str | None = None
    engine: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    streamed: bool = False
    choices: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    queue_s: float | None = None  #: until its first step
    ttft_s: float | None = None  #: until the first token
    error: str | None = None  #: the code that the answer had
    finish_reason: str | None = None
    mean_logprob: float | None = None  #: of the answer's tokens, where the engine was asked for them
    empty: bool = False
    repetitive: bool = False
    refusal: bool = False
    format_valid: bool | None = None  #: None where no form was asked for
    prompt_hash: str | None = None
    answer_hash: str | None = None

    @classmethod
    def from_row(cls, row: Row[Any]) -> Record:
        given = {one.name: row._mapping[one.name] for one in fields(cls)}
        return cls(**{**given, "adapters": tuple(json.loads(row.adapters)), "sampling": json.loads(row.sampling)})

    def to_row(self) -> dict[str, Any]:
        return {**self.__dict__, "adapters": json.dumps(self.adapters), "sampling": json.dumps(dict(self.sampling))}

    def to_json(self) -> dict[str, Any]:
        """Without the tenant, who asks."""
        told = {**self.__dict__, "adapters": [dict(one) for one in self.adapters], "sampling": dict(self.sampling)}
        del told["tenant"]
        return told


def outcome_of(status: int) -> Outcome:
    """What an answer of this HTTP status was; a version that cannot be served (422) is no fault of the caller."""
    if status < 400:
        return "ok"
    return "error" if status >= 500 or status == 422 else "refused"
