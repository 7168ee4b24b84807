"""Streams: every chunk is signed, failures midway are events, and closing one ends the work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.request import Delta
from graftwork.errors import GenerationFailed
from graftwork.gateway import shapes
from graftwork.gateway.answer_shape import DONE, AnswerShape, Choice, Envelope
from graftwork.gateway.generation import Piece
from graftwork.gateway.signature import Signature
from graftwork.gateway.streaming import events
from graftwork.testing import FAKE_BASE
from graftwork.traffic.decision import Decision
from support.served import CHAT, HELLO, Served, usage

TEXT = "/v1/completions"


def test_every_chunk_names_the_version(served: Served) -> None:
    served.push("alpha:1.0.0")
    chunks = served.events(model="alpha")
    assert {chunk["model"] for chunk in chunks} == {"alpha:1.0.0"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_a_chat_opens_with_the_role_and_ends_with_the_reason(served: Served) -> None:
    chunks = served.events()
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == (
        "fake-base says: hello big world"
    )
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "stop"]
    assert "usage" not in chunks[-1]


def test_the_last_chunk_carries_the_signature(served: Served) -> None:
    digest = served.push("alpha:1.0.0")["digest"]
    chunks = served.events(model="alpha")
    assert [("graftwork" in chunk) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["graftwork"]["digest"] == digest


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(served: Served) -> None:
    chunks = served.events(stream_options={"include_usage": True})
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == usage(3, 5)
    assert chunks[-1]["graftwork"]["version"] is None


def test_streamed_logprobs_are_those_of_the_whole_answer(served: Served) -> None:
    whole = served.http.post(TEXT, json={"prompt": "a b", "logprobs": 1}).json()["choices"][0]["logprobs"]
    parts = [chunk["choices"][0]["logprobs"] for chunk in served.events(TEXT, prompt="a b", logprobs=1)]
    for field in whole:
        assert [item for part in parts if part for item in part[field]] == whole[field]


def test_streamed_choices_of_several_prompts_keep_apart(served: Served) -> None:
    texts = ["", ""]
    for chunk in served.events(TEXT, prompt=["one", "two words"]):
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == ["fake-base says: one", "fake-base says: two words"]


def test_a_failure_midway_is_the_last_event(served: Served) -> None:
    served.engine.failures[FAKE_BASE] = GenerationFailed("row 3 is NaN")
    served.engine.fail_after = 2
    chunks = served.events()
    assert chunks[-1]["error"]["code"] == "generation_failed"
    assert chunks[-1]["error"]["message"] == "row 3 is NaN"
    assert len(chunks) == 4


def test_an_unforeseen_failure_midway_tells_no_secrets(served: Served) -> None:
    served.engine.failures[FAKE_BASE] = ValueError("/secret/path")
    served.engine.fail_after = 1
    assert "secret" not in json.dumps(served.events())


@pytest.mark.parametrize("prompts", [["one"], ["one", "two", "three"]])
def test_closing_a_stream_ends_all_its_generations(served: Served, prompts: list[str]) -> None:
    served.engine.pause_after = 1
    with served.http.stream("POST", TEXT, json={"prompt": prompts, "stream": True}) as response:
        next(response.iter_lines())
        assert served.engine.stats().running == len(prompts)
    assert served.engine.stats().running == 0
    assert len(served.engine.aborted) == len(prompts)


@pytest.mark.parametrize("stream", [False, True])
def test_one_prompt_that_cannot_be_answered_refuses_them_all(served: Served, stream: bool) -> None:
    body = {"prompt": ["fine", "a " * 300], "stream": stream}
    response = served.http.post(TEXT, json=body)
    assert response.status_code == 400
    assert served.engine.stats().running == 0


def test_neighbours_of_a_closed_stream_go_on(served: Served) -> None:
    served.engine.pause_after = 1
    body = {"messages": HELLO, "stream": True}
    with served.http.stream("POST", CHAT, json=body) as stays:
        lines = stays.iter_lines()
        next(lines)
        with served.http.stream("POST", CHAT, json=body) as leaves:
            next(leaves.iter_lines())
        assert served.engine.stats().running == 1
        served.engine.gate.set()
        assert list(lines)[-2] == "data: [DONE]"


TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)  # half surrogate pairs, too


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), usage=st.booleans(), index=st.integers(0, 2))
@pytest.mark.parametrize("shape", [shapes.CHAT, shapes.TEXT], ids=["chat", "text"])
def test_chunks_are_written_as_json_would_write_them(
    shape: AnswerShape, texts: list[str], usage: bool, index: int
) -> None:
    decision = Decision(None, 'a "base"', "implicit", "stable", "base")
    envelope = Envelope(shape, Signature("r1", decision, "sha256:0"))
    ends: list[Literal["stop", "length"] | None] = [*[None] * (len(texts) - 1), "stop"]
    pieces = [(index, Delta(text, (1,), (), end, 3, 2)) for text, end in zip(texts, ends, strict=True)]

    def expected(text: str, finish: str | None) -> bytes:
        content = {"text": text} if shape is shapes.TEXT else {"delta": {"content": text} if text else {}}
        choice = {"index": index, **content, "logprobs": None, "finish_reason": finish}
        extra = {"graftwork": envelope.signature.to_json()} if finish else {}
        return envelope.chunk([choice], **extra, **({"usage": None} if usage else {}))

    async def written() -> list[bytes]:
        async def rest() -> AsyncGenerator[Piece, None]:
            for piece in pieces[1:]:
                yield piece

        made = events(pieces[0], rest(), envelope, [Choice() for _ in range(3)], logprobs=False, include_usage=usage)
        return [chunk async for chunk in made]

    chunks = asyncio.run(written())
    openings = 3 if shape is shapes.CHAT else 0
    shown = [(text, end) for text, end in zip(texts, ends, strict=True) if text or end]
    assert chunks[openings:][: len(shown)] == [expected(*one) for one in shown]
    assert chunks[-1] == DONE
