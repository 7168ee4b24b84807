"""cached_tokens and cache_salt at the doors: usage says what was cached; a salt reaches the engine or is a 400."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.engine.request import Caller
from graftwork.protocol.adapters import MAX_SALT
from support.served import CHAT, HELLO, Served, usage

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    "/v1/completions": {"prompt": "one two"},
    "/v1/embeddings": {"input": "one two"},
    "/v1/classify": {"input": "one two", "model": "fake-base"},
}


def test_usage_says_what_was_cached_whole_and_streamed(served: Served) -> None:
    served.engine.cached_tokens = 2
    assert served.chat().json()["usage"] == usage(3, 5, cached=2)
    assert served.events(stream_options={"include_usage": True})[-1]["usage"] == usage(3, 5, cached=2)
    made = served.http.post("/v1/completions", json={"prompt": ["one", "two words", "and three more"], "n": 2}).json()
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 1 + 2 + 2}, "each prompt counts once"
    assert served.client.chat(HELLO).cached_tokens == 2
    with served.client.chat(HELLO, stream=True) as stream:
        list(stream)
    assert stream.answer.cached_tokens == 2


@pytest.mark.parametrize("path", BODIES)
def test_a_salt_reaches_the_engine_at_every_door(served: Served, path: str) -> None:
    served.engine.labels["fake-base"] = ("good", "bad")
    for given, salt in (({}, ""), ({"cache_salt": None}, ""), ({"cache_salt": "für mich"}, "für mich")):
        response = served.http.post(path, json=BODIES[path] | given)
        assert response.status_code == 200, response.text
        callers = [one.caller for one in served.engine.requests] + [one.caller for one in served.engine.poolings]
        assert callers[-1] == Caller("local", salt=salt)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("salt", ["", "x" * (MAX_SALT + 1), 7, ["x"], {"salt": "x"}, True])
def test_a_salt_that_is_none_is_a_400(served: Served, path: str, salt: object) -> None:
    response = served.http.post(path, json=BODIES[path] | {"cache_salt": salt})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "cache_salt"
    assert "1 to 256 characters" in response.json()["error"]["message"]
