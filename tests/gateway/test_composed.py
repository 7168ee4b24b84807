"""`adapters` in a body: several with scales answer together, on every inference door."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.engine.request import AdapterHandle
from support.served import CHAT, HELLO, Served

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    "/v1/completions": {"prompt": "x"},
    "/v1/embeddings": {"input": "x"},
}
MIX = [{"ref": "b:1.0.0", "scale": 0.3}, {"ref": "a", "scale": 0.7}]


@pytest.fixture
def digests(served: Served) -> tuple[str, str]:
    return served.push("a:1.0.0", seed=1)["digest"], served.push("b:1.0.0", seed=2)["digest"]


@pytest.mark.parametrize("path", BODIES)
def test_answers_name_the_parts_and_a_digest_of_their_own(served: Served, digests: tuple[str, str], path: str) -> None:
    response = served.http.post(path, json={**BODIES[path], "model": "a", "adapters": MIX})
    answer, headers = response.json(), response.headers
    assert answer["model"] == "a:1.0.0*0.7+b:1.0.0*0.3"
    digest = headers["x-graftwork-digest"]
    assert digest.startswith("sha256:") and digest not in digests
    assert answer["graftwork"] == {
        "request": headers["x-graftwork-request"],
        "version": "composed",
        "digest": digest,
        "route": "a+b",
        "arm": "composed",
        "decision": "adapters:composed",
        "adapters": [
            {"model": "a:1.0.0", "digest": digests[0], "scale": 0.7},
            {"model": "b:1.0.0", "digest": digests[1], "scale": 0.3},
        ],
    }
    [asked] = served.engine.requests or served.engine.poolings
    parts = tuple(
        (AdapterHandle(one, "local", f"{name}:1.0.0"), scale)
        for name, one, scale in zip("ab", digests, (0.7, 0.3), strict=True)
    )
    assert asked.adapter == AdapterHandle(digest, "local", answer["model"], parts)


def test_streams_name_them_in_every_chunk(served: Served, digests: tuple[str, str]) -> None:
    events = served.events(adapters=MIX)
    assert {event["model"] for event in events} == {"a:1.0.0*0.7+b:1.0.0*0.3"}
    assert [part["digest"] for part in events[-1]["graftwork"]["adapters"]] == list(digests)


@pytest.mark.parametrize("adapters", [[], None])
def test_none_of_them_is_as_if_absent(served: Served, digests: tuple[str, str], adapters: Any) -> None:
    assert served.chat(model="a", adapters=adapters).json()["model"] == "a:1.0.0"
    assert served.chat(adapter_id="a", adapters=adapters).json()["model"] == "a:1.0.0"


def test_scale_zero_is_the_base(served: Served, digests: tuple[str, str]) -> None:
    answer = served.chat(model="a", adapters=[{"ref": "a", "scale": 0}, {"ref": "b", "scale": 0.0}]).json()
    assert (answer["model"], answer["graftwork"]["version"]) == ("fake-base", None)
    assert served.engine.requests[0].adapter is None


def test_a_scale_is_one_when_not_given(served: Served, digests: tuple[str, str]) -> None:
    assert served.chat(adapters=[{"ref": "a"}]).json()["model"] == "a:1.0.0"
    assert served.chat(adapters=[{"ref": "a"}, {"ref": "b"}]).json()["model"] == "a:1.0.0*1+b:1.0.0*1"


def test_one_beside_them_is_a_400(served: Served, digests: tuple[str, str]) -> None:
    by_header = served.http.post(CHAT, json={"messages": HELLO, "adapters": MIX}, headers={"X-Adapter-Id": "a"})
    for response in (by_header, served.chat(adapter_id="a", adapters=MIX)):
        assert (response.status_code, response.json()["error"]["param"]) == (400, "adapters")


@pytest.mark.parametrize("scale", ["NaN", "Infinity", "-Infinity", "1e999", '"1"', "true", "null", "[1]"])
def test_a_scale_that_is_no_finite_number_is_a_400_that_names_it(served: Served, scale: str) -> None:
    raw = f'{{"messages": [{{"role": "user", "content": "x"}}], "adapters": [{{"ref": "a", "scale": {scale}}}]}}'
    response = served.http.post(CHAT, content=raw, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "adapters.0.scale")


def test_scales_that_add_up_to_infinity_are_a_422(served: Served, digests: tuple[str, str]) -> None:
    response = served.chat(adapters=[{"ref": "a", "scale": 1.5e308}] * 2)
    assert response.status_code == 422 and "a:1.0.0" in response.json()["error"]["message"]


def test_an_unknown_one_among_them_is_the_same_404(served: Served, digests: tuple[str, str]) -> None:
    response = served.chat(adapters=[{"ref": "a", "scale": 0.5}, {"ref": "nope", "scale": 0}])
    assert response.status_code == 404
    assert response.json() == served.chat(model="nope").json()
