"""POST /v1/embeddings: OpenAI's shape, whose vectors they are, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.engine.request import AdapterHandle
from graftwork.errors import Refused
from graftwork.gateway.app import build_app
from graftwork.gateway.errors import CLIENT_CLOSED_REQUEST
from graftwork.gateway.poolings import AT_ONCE
from graftwork.protocol.not_yet import NOT_YET_POOLING
from graftwork.protocol.pooling import ClassifyRequest, EmbeddingRequest
from graftwork.settings import Settings
from graftwork.testing import FAKE_BASE, FakeEngine
from support.scale import times
from support.served import Served

PATH = "/v1/embeddings"


def embed(served: Served, **fields: Any) -> httpx.Response:
    return served.http.post(PATH, json={"input": "hello big world", **fields})


def test_the_base_answers_in_openais_shape(served: Served) -> None:
    answer = embed(served, normalize=False).json()
    assert answer["data"] == [
        {"object": "embedding", "index": 0, "embedding": [3.0 * place for place in range(1, 9)]},
    ]
    assert (answer["object"], answer["model"]) == ("list", FAKE_BASE)
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert (served.engine.poolings[0].pooling, served.engine.poolings[0].adapter) == ("mean", None)


def test_an_answer_names_the_version_that_gave_it(served: Served) -> None:
    digest = served.push("alpha:1.4.0")["digest"]
    response = embed(served, model="alpha", pooling="last")
    assert response.json()["model"] == "alpha:1.4.0"
    assert response.json()["graftwork"]["digest"] == response.headers["x-graftwork-digest"] == digest
    assert response.headers["x-graftwork-version"] == "1.4.0"
    assert served.engine.poolings[0].pooling == "last"
    assert served.engine.poolings[0].adapter == AdapterHandle(digest, "local", "alpha:1.4.0")


def test_another_version_of_the_name_answers_as_soon_as_there_is_one(served: Served) -> None:
    digests = []
    for seed in (1, 2):
        digests.append(served.push(f"alpha:{seed}.0.0", seed=seed)["digest"])
        assert embed(served, model="alpha").json()["graftwork"]["digest"] == digests[-1]
    assert [one.adapter.digest for one in served.engine.poolings if one.adapter] == digests


def test_vectors_have_length_one_unless_told_otherwise(served: Served) -> None:
    for fields in ({}, {"normalize": True}, {"normalize": None}):
        [one] = embed(served, **fields).json()["data"]
        assert math.hypot(*one["embedding"]) == pytest.approx(1)


def test_base64_is_the_same_vector(served: Served) -> None:
    plain = embed(served, encoding_format="float").json()["data"][0]["embedding"]
    packed = embed(served, encoding_format="base64").json()["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(packed))) == plain


@pytest.mark.parametrize(
    ("given", "inputs"),
    [("a b", ["a b"]), (["a", "b c"], ["a", "b c"]), ([1, 2], [(1, 2)]), ([[1], [2, 3]], [(1,), (2, 3)])],
)
def test_all_four_shapes_of_an_input(served: Served, given: Any, inputs: list[Any]) -> None:
    data = embed(served, input=given).json()["data"]
    assert [one["index"] for one in data] == list(range(len(inputs)))
    assert [one.prompt for one in served.engine.poolings] == inputs


def test_many_inputs_answer_in_order_and_take_their_turns(served: Served) -> None:
    most = running = 0
    step = served.engine._step

    async def counting(index: int, label: str) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await step(index, label)
        running -= 1

    served.engine._step = counting  # type: ignore[method-assign]
    texts = ["x " * (1 + n % 7) for n in range(300)]
    data = embed(served, input=texts, normalize=False).json()["data"]
    assert [one["embedding"][0] for one in data] == [1 + n % 7 for n in range(300)]
    assert most == AT_ONCE


@pytest.mark.parametrize("path", [PATH, "/v1/classify"])
@pytest.mark.parametrize("name", ["nope", "../etc/passwd", " x", "x" * 300, "nope@v"])
def test_unknown_names_are_the_same_404(served: Served, path: str, name: str) -> None:
    for fields in ({"model": name}, {"adapter_id": name}, {"adapters": [{"ref": name}]}):
        response = served.http.post(path, json={"input": "x", **fields})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "model_not_found")
        assert error["message"] == f"The model {name[:200]!r} does not exist. GET /v1/models lists what can be called."
    assert served.engine.poolings == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input.1"),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": {"text": "x"}}, "input"),
        ({"dimensions": 4}, "dimensions"),
        ({"dimensions": 16}, "dimensions"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"pooling": "max"}, "pooling"),
        ({"normalize": 1}, "normalize"),
        ({"truncate_prompt_tokens": 3}, "truncate_prompt_tokens"),
        ({"adapter_id": "a", "adapters": [{"ref": "b"}]}, "adapters"),
    ],
)
def test_refuses_by_field(served: Served, fields: dict[str, Any], field: str) -> None:
    error = embed(served, **fields).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_request", field)
    assert error["message"].startswith(field)


def test_the_bases_own_words_can_be_asked_for(served: Served) -> None:
    served.push("alpha:1.0.0")
    for companions in (None, "adapter", "base"):
        assert embed(served, model="alpha", companions=companions).status_code == 200
    assert [one.companions for one in served.engine.poolings] == [True, True, False]


def test_dimensions_may_be_what_they_are(served: Served) -> None:
    assert embed(served, dimensions=8).status_code == 200


def test_the_first_failure_ends_all_inputs(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.engine.failures["alpha:1.0.0"] = Refused("no", problems=["why"])
    response = embed(served, model="alpha", input=["a"] * 100)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "refused")
    assert embed(served).status_code == 200


async def test_a_client_that_goes_away_ends_its_poolings(settings: Settings) -> None:
    engine = FakeEngine(pause_after=0)
    app = build_app(settings, engine=engine, outline_of=lambda: engine.outline)
    coming = [{"type": "http.request", "body": b'{"input": ["a", "b", "c"]}'}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop()
        while len(engine.poolings) < 3:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
    async with app.router.lifespan_context(app):
        await app(scope, receive, send)
    assert sorted(engine.aborted) == sorted(one.id for one in engine.poolings)
    assert sent[0]["status"] == CLIENT_CLOSED_REQUEST


def test_poolings_are_counted(served: Served) -> None:
    embed(served, input=["a b", "c"])
    page = served.http.get("/metrics").text
    assert 'graftwork_poolings_total{model="fake-base",outcome="done"} 2.0' in page
    assert 'graftwork_prompt_tokens_total{model="fake-base"} 3.0' in page
    assert "graftwork_generations_in_progress 0.0" in page


JSON = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
FIELDS = st.sampled_from(sorted({*EmbeddingRequest.model_fields, *ClassifyRequest.model_fields, *NOT_YET_POOLING}))


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=times(60, 1000),
)
@given(path=st.sampled_from([PATH, "/v1/classify"]), fields=st.dictionaries(FIELDS, JSON, max_size=3))
def test_no_field_of_any_value_is_a_500(served: Served, path: str, fields: dict[str, Any]) -> None:
    response = served.http.post(path, json={"input": "x", **fields})
    assert response.status_code in (200, 400, 404)
    if response.status_code == 400:
        assert response.json()["error"]["param"].partition(".")[0] in {*fields, "model"}
