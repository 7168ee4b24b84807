"""Overload at the doors: who is sent away is told why and until when, and a hostile body holds up nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import GraftworkError, TimedOut, TooManyRequests, Unavailable
from graftwork.protocol.chat import ChatRequest
from graftwork.testing import FAKE_BASE
from support.served import HELLO, Served


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (TooManyRequests("your share", retry_after_s=7), 429, "rate_limit_exceeded", "7"),
        (Unavailable("full", retry_after_s=3), 503, "unavailable", "3"),
        (Unavailable("starting"), 503, "unavailable", "1"),
        (TimedOut("too slow"), 504, "timed_out", None),
    ],
)
def test_who_is_sent_away_is_told_when_to_come_back(
    served: Served, error: GraftworkError, status: int, code: str, retry_after: str | None
) -> None:
    served.engine.failures[FAKE_BASE] = error
    for stream in (False, True):
        answer = served.chat(stream=stream)
        assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
        assert answer.json()["error"]["code"] == code


def test_a_time_that_runs_out_in_a_stream_is_its_last_event(served: Served) -> None:
    served.engine.failures[FAKE_BASE] = TimedOut("too slow")
    served.engine.fail_after = 2
    assert served.events()[-1]["error"]["code"] == "timed_out"


@pytest.mark.parametrize(("priority", "seen"), [(None, 0), (0, 0), (-3, -3), (7, 7)])
def test_a_priority_goes_with_every_row(served: Served, priority: int | None, seen: int) -> None:
    served.chat(priority=priority)
    served.http.post("/v1/completions", json={"prompt": ["a", "b"], "priority": priority, "n": 2})
    served.http.post("/v1/embeddings", json={"input": ["a", "b"], "priority": priority})
    callers = [row.caller for row in served.engine.requests] + [row.caller for row in served.engine.poolings]
    assert len(callers) == 7 and {(caller.tenant, caller.priority) for caller in callers} == {("local", seen)}


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 1.5, "1", True])
def test_a_priority_that_is_none_is_a_400(served: Served, priority: Any) -> None:
    answer = served.chat(priority=priority)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "priority"


@pytest.mark.parametrize("hostile", ["[]", "{}", '{"":0}', '"a":[[]]'])
def test_a_body_of_countless_small_things_is_refused_before_it_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch, hostile: str
) -> None:
    read: list[int] = []
    monkeypatch.setattr(ChatRequest, "model_validate_json", lambda raw: read.append(len(raw)))
    most = served.app.state.services.settings.max_body_bytes
    many = ",".join([hostile] * ((most - 200) // (len(hostile) + 1)))
    inner = f"{{{many}}}" if ":[" in hostile else f"[{many}]"
    raw = f'{{"messages": {json.dumps(HELLO)}, "x": {inner}}}'
    answer = served.http.post("/v1/chat/completions", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "more than 100000" in answer.json()["error"]["message"]
    assert not read, "what takes long was not begun"
