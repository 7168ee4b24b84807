"""What an adapter carries beside its weights decides where a request does not say, and a request may leave it aside."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.companions.generation_defaults import GenerationDefaults
from graftwork.engine.sampling_params import SamplingParams
from graftwork.testing import write_lora
from support.served import Served

TEXT = "/v1/completions"
DEFAULTS = GenerationDefaults(
    temperature=0.0, top_p=0.9, top_k=40, min_p=0.05, repetition_penalty=1.2, max_new_tokens=7
)  # fmt: skip


@pytest.fixture
def asked(served: Served) -> Any:
    """Asks an adapter that has defaults, and gives the parameters that reached the engine."""
    served.push("alpha:1.0.0")
    served.engine.companions_of["alpha:1.0.0"] = Companions(defaults=DEFAULTS)

    def ask(path: str = "chat", **fields: Any) -> SamplingParams:
        body = {"model": "alpha", **fields}
        response = served.chat(**body) if path == "chat" else served.http.post(TEXT, json={"prompt": "hi", **body})
        assert response.status_code == 200, response.text
        return served.engine.requests[-1].params

    return ask


def test_defaults_are_used_where_the_request_does_not_say(asked: Any) -> None:
    params = asked()
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.0, 0.9, 40, 0.05)
    assert params.repetition_penalty == 1.2
    assert params.max_tokens is None, "the engine knows the adapter's limit, and how far the context reaches"


def test_the_request_wins_over_the_adapter(asked: Any) -> None:
    params = asked(temperature=0.7, top_p=1.0, top_k=-1, min_p=0.0, repetition_penalty=1.0, max_tokens=3)
    assert params == SamplingParams(temperature=0.7, max_tokens=3)


def test_the_usual_length_is_left_to_the_engine_which_knows_the_adapters(asked: Any, served: Served) -> None:
    assert asked("text", max_tokens=3).max_tokens == 3
    for path, usual in (("text", 16), ("chat", None)):
        assert asked(path).max_tokens is None
        assert served.engine.requests[-1].usual_tokens == usual


@pytest.mark.parametrize("path", ["chat", "text"])
def test_a_request_may_leave_them_aside(asked: Any, served: Served, path: str) -> None:
    assert asked(path, companions="base").temperature == 1.0
    assert not served.engine.requests[-1].companions
    assert asked(path, companions="adapter").temperature == 0.0
    assert asked(path, companions=None).temperature == 0.0
    assert served.engine.requests[-1].companions


@pytest.mark.parametrize("value", ["", "none", "Base", True, 1, ["base"], {}])
@pytest.mark.parametrize("path", ["/v1/chat/completions", TEXT])
def test_anything_else_is_a_400_by_its_field(served: Served, path: str, value: object) -> None:
    body = {"prompt": "hi", "messages": [{"role": "user", "content": "hi"}], "companions": value}
    response = served.http.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "companions"


def test_the_base_and_other_adapters_have_none_of_them(asked: Any, served: Served) -> None:
    served.push("beta:1.0.0", seed=1)
    assert asked(model="beta").temperature == asked(model="").temperature == 1.0


def test_a_push_says_what_it_found(served: Served) -> None:
    folder = write_lora(served.folder / "with", served.engine.outline, seed=5)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    version = served.client.push(folder, "gamma")
    assert version["account"]["companions"]["files"] == ["chat_template.jinja"]
    (folder / "chat_template.jinja").write_text("{% if")
    with pytest.raises(Exception, match=r"chat_template\.jinja: the chat template cannot be read: line 1"):
        served.client.push(folder, "gamma")
