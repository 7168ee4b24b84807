"""Asking: whole answers, streams that can be left, and failures where they are read."""

from __future__ import annotations

import pytest

from graftwork.errors import GenerationFailed
from graftwork.testing import FAKE_BASE
from support.served import Served


def test_chat_streams_word_by_word(served: Served) -> None:
    served.engine.pause_after = 2
    with served.client.chat("hello big world", stream=True) as stream:
        texts = iter(stream)
        assert [next(texts), next(texts)] == [FAKE_BASE, " says:"]
        served.engine.gate.set()
        assert list(texts) == [" hello", " big", " world"]
        answer = stream.answer
    assert (answer.text, answer.model, answer.finish_reason) == (
        "fake-base says: hello big world",
        FAKE_BASE,
        "stop",
    )
    assert answer.usage["completion_tokens"] == 5
    assert answer.graftwork["arm"] == "base"


def test_leaving_a_stream_aborts_its_generation(served: Served) -> None:
    served.engine.pause_after = 1
    with served.client.chat("hello", stream=True) as stream:
        next(iter(stream))
    assert len(served.engine.aborted) == 1


def test_complete_takes_text_and_token_ids(served: Served) -> None:
    assert served.client.complete("once").text == "fake-base says: once"
    assert served.client.complete([1, 2]).text == "fake-base says: 1,2"
    assert "".join(served.client.complete("once", stream=True)) == "fake-base says: once"


def test_a_failure_midway_is_raised_where_the_stream_is_read(served: Served) -> None:
    served.engine.failures[FAKE_BASE] = GenerationFailed("NaN in row 3")
    served.engine.fail_after = 1
    with (
        served.client.chat("x", stream=True) as stream,
        pytest.raises(GenerationFailed, match="NaN in row 3"),
    ):
        list(stream)
