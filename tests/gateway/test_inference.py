"""The inference doors: answers, choice of adapter, names and headers, one refusal for all that is unknown."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.engine.request import AdapterHandle, ChatPrompt
from graftwork.engine.sampling_params import MAX_STOP_STRINGS
from graftwork.errors import Damaged, GenerationFailed, InvalidRequest, Refused, Unavailable
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.not_yet import NOT_YET_CHAT
from graftwork.testing import FAKE_BASE
from support.scale import times
from support.served import CHAT, HELLO, Served, usage

TEXT = "/v1/completions"
QUICK = hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=times(60, 1000)
)


def test_the_base_answers_under_its_own_name(served: Served) -> None:
    answer = served.chat().json()
    assert answer["model"] == FAKE_BASE
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {
        "role": "assistant",
        "content": "fake-base says: hello big world",
        "refusal": None,
    }
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == usage(3, 5)
    assert served.engine.requests[0].adapter is None


def test_an_answer_names_the_version_that_gave_it(served: Served) -> None:
    digest = served.push("alpha:1.4.0")["digest"]
    response = served.chat(model="alpha")
    answer, headers = response.json(), response.headers
    assert answer["model"] == "alpha:1.4.0"
    assert answer["graftwork"] == {
        "request": headers["x-graftwork-request"],
        "version": "1.4.0",
        "digest": digest,
        "route": "alpha",
        "arm": "newest",
        "decision": "model:newest",
    }
    for field in ("version", "digest", "route", "arm", "decision"):
        assert headers[f"x-graftwork-{field}"] == answer["graftwork"][field]
    assert served.engine.requests[0].adapter == AdapterHandle(digest, "local", "alpha:1.4.0")


def test_promotion_moves_the_bare_name_at_once(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:2.0.0", seed=2)
    assert served.chat(model="alpha").json()["model"] == "alpha:2.0.0"
    served.client.promote("alpha:1.0.0")
    answer = served.chat(model="alpha").json()
    assert (answer["model"], answer["graftwork"]["arm"]) == ("alpha:1.0.0", "production")


def test_adapter_by_body_or_by_header_wins_over_the_model(served: Served) -> None:
    served.push("alpha:1.0.0")
    assert served.chat(model=FAKE_BASE, adapter_id="alpha").json()["model"] == "alpha:1.0.0"
    by_header = served.http.post(CHAT, json={"messages": HELLO}, headers={"X-Adapter-Id": "alpha"}).json()
    assert by_header["model"] == "alpha:1.0.0"


def test_body_and_header_that_differ_are_a_400(served: Served) -> None:
    response = served.http.post(CHAT, json={"messages": HELLO, "adapter_id": "a"}, headers={"X-Adapter-Id": "b"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "adapter_id")


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("name", ["nope", "../etc/passwd", "%2e%2e", "a\\b", " x", "é", "😀", "x" * 300, "nope@v"])
def test_unknown_and_malformed_names_are_one_and_the_same_404(served: Served, path: str, name: str) -> None:
    body: dict[str, Any] = {"messages": HELLO} if path == CHAT else {"prompt": "x"}
    for fields in ({"model": name}, {"adapter_id": name}):
        response = served.http.post(path, json={**body, **fields})
        assert response.status_code == 404
        error = response.json()["error"]
        assert error["code"] == "model_not_found"
        assert error["message"] == f"The model {name[:200]!r} does not exist. GET /v1/models lists what can be called."
    assert served.engine.requests == []


@pytest.mark.parametrize(("fields", "headers"), [({"adapter_id": ""}, {}), ({}, {"X-Adapter-Id": ""})])
def test_an_empty_adapter_is_unknown_and_not_the_base(
    served: Served, fields: dict[str, str], headers: dict[str, str]
) -> None:
    response = served.http.post(CHAT, json={"messages": HELLO, **fields}, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
    assert served.engine.requests == []


def test_two_sessions_in_one_request_are_refused(served: Served) -> None:
    said = {"messages": HELLO, "session_id": "s"}
    for header, status in (("s", 200), ("t", 400), ("s" * 257, 400)):
        assert served.http.post(CHAT, json=said, headers={"X-Session-Id": header}).status_code == status


def test_the_prompt_reaches_the_engine_as_it_was_given(served: Served) -> None:
    served.chat(messages=[{"role": "developer", "content": "Be brief."}, *HELLO])
    assert served.engine.requests[0].prompt == ChatPrompt(
        ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello big world"})
    )


def test_sampling_fields_reach_the_engine(served: Served) -> None:
    served.chat(
        temperature=0.5, top_p=0.9, top_k=-1, min_p=0.1, seed=7, max_tokens=3, stop=["x"], ignore_eos=True,
        logprobs=True, top_logprobs=2, presence_penalty=1, frequency_penalty=-1, repetition_penalty=1.1,
        logit_bias={"7": -100}, min_tokens=2, prompt_logprobs=1,
    )  # fmt: skip
    params = served.engine.requests[0].params
    assert (params.temperature, params.top_p, params.top_k, params.min_p, params.seed) == (
        0.5,
        0.9,
        0,
        0.1,
        7,
    )
    assert (params.max_tokens, params.stop, params.ignore_eos, params.logprobs) == (3, ("x",), True, 2)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (1, -1, 1.1)
    assert (params.logit_bias, params.min_tokens, params.prompt_logprobs, params.echo) == (((7, -100.0),), 2, 1, False)


def test_chat_logprobs(served: Served) -> None:
    choice = served.chat(logprobs=True, top_logprobs=2, max_tokens=1).json()["choices"][0]
    [entry] = choice["logprobs"]["content"]
    assert (entry["token"], entry["logprob"], entry["bytes"]) == (FAKE_BASE, -0.5, list(FAKE_BASE.encode()))
    assert [other["token"] for other in entry["top_logprobs"]] == [FAKE_BASE, "~1"]


def test_completion_logprobs(served: Served) -> None:
    body = {"prompt": "x", "logprobs": 2, "max_tokens": 2}
    logprobs = served.http.post(TEXT, json=body).json()["choices"][0]["logprobs"]
    assert logprobs["tokens"] == [FAKE_BASE, " says:"]
    assert logprobs["text_offset"] == [0, len(FAKE_BASE)]
    assert logprobs["top_logprobs"][0] == {FAKE_BASE: -0.5, "~1": -2.0}


def test_several_prompts_give_several_choices_in_order(served: Served) -> None:
    answer = served.http.post(TEXT, json={"prompt": ["one", "two words", "three"]}).json()
    texts = [(choice["index"], choice["text"]) for choice in answer["choices"]]
    assert texts == [
        (0, "fake-base says: one"),
        (1, "fake-base says: two words"),
        (2, "fake-base says: three"),
    ]
    assert answer["usage"] == usage(4, 10)


def test_token_ids_are_a_prompt(served: Served) -> None:
    served.http.post(TEXT, json={"prompt": [1, 2, 3]})
    assert served.engine.requests[0].prompt == (1, 2, 3)


def test_a_prompt_longer_than_the_context_is_a_400_with_both_numbers(served: Served) -> None:
    for stream in (False, True):
        response = served.chat(messages=[{"role": "user", "content": "a " * 300}], stream=stream)
        assert response.status_code == 400
        assert "300" in response.json()["error"]["message"]
        assert "256" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (Refused("no", problems=["why"]), 422, "refused"),
        (Damaged("bad bytes"), 500, "damaged"),
        (Unavailable("full"), 503, "unavailable"),
        (GenerationFailed("NaN"), 500, "generation_failed"),
        (RuntimeError("secret detail"), 500, "internal_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_before_the_first_token_are_real_statuses(
    served: Served, failure: Exception, status: int, code: str, stream: bool
) -> None:
    served.push("alpha:1.0.0")
    served.engine.failures["alpha:1.0.0"] = failure
    response = served.chat(model="alpha", stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "secret" not in response.text
    assert served.chat().status_code == 200


def test_a_grammar_that_fails_midway_is_its_callers_fault_whole_or_streamed(served: Served) -> None:
    served.engine.failures[FAKE_BASE] = InvalidRequest("it became too complex", field="response_format")
    served.engine.fail_after = 2
    answer, event = served.chat(), served.events()[-1]
    assert answer.status_code == 400
    assert answer.json() == event, "the same words, field and code"
    assert (event["error"]["code"], event["error"]["param"]) == ("invalid_request", "response_format")


def test_a_body_over_the_limit_is_a_413(served: Served) -> None:
    limit = served.app.state.services.settings.max_body_bytes
    response = served.http.post(CHAT, content=(b"x" for _ in range(1)), headers={"content-length": str(limit + 1)})
    assert response.status_code == 413
    assert str(limit) in response.json()["error"]["message"]


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_said_to_be_json_is_a_415(served: Served, media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}
    response = served.http.post(CHAT, content=json.dumps({"messages": HELLO}), headers=headers)
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]
    assert served.engine.requests == []


def test_a_large_body_is_parsed_beside_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    read = ChatRequest.read

    def remembering(raw: bytes | bytearray) -> ChatRequest:
        threads.append(threading.current_thread())
        return read(raw)

    monkeypatch.setattr(ChatRequest, "read", remembering)
    for padding in (0, 1 << 17):
        assert served.chat(user="x" * padding).status_code == 200
    assert threads[0] is not threads[1]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CHAT, {"messages": HELLO * 2049}, "messages"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 257}]},
            "messages.0.content",
        ),
        (CHAT, {"messages": HELLO, "stop": ["x"] * (MAX_STOP_STRINGS + 1)}, "stop"),
        (CHAT, {"messages": HELLO, "stop_token_ids": [1] * 17}, "stop_token_ids"),
        (TEXT, {"prompt": ["x"] * 129}, "prompt"),
        (TEXT, {"prompt": [1] * ((1 << 20) + 1)}, "prompt"),
        (TEXT, {"prompt": [[1] * (1 << 19), [1] * (1 << 19), [1]]}, "prompt"),
    ],
)
def test_more_than_is_sensible_of_anything_is_a_400(served: Served, path: str, body: Any, field: str) -> None:
    response = served.http.post(path, json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, field)
    assert "at most" in response.json()["error"]["message"]


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=times(60, 1000)
)
@given(path=st.sampled_from([CHAT, TEXT]), raw=st.binary(max_size=40))
def test_garbage_is_never_a_500(served: Served, path: str, raw: bytes) -> None:
    response = served.http.post(path, content=raw, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.just([1])
)
FIELDS = st.sampled_from(sorted({*ChatRequest.model_fields, *CompletionRequest.model_fields, *NOT_YET_CHAT}))


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=times(60, 1000)
)
@given(path=st.sampled_from([CHAT, TEXT]), fields=st.dictionaries(FIELDS, JSON, max_size=3))
def test_no_field_of_any_value_is_a_500(served: Served, path: str, fields: dict[str, Any]) -> None:
    response = served.http.post(path, json={"messages": HELLO, "prompt": "x", **fields})
    assert response.status_code in (200, 400, 404)
    if response.status_code == 400:
        assert response.json()["error"]["param"].partition(".")[0] in fields
