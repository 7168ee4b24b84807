"""Results by example are read strictly: what is wrong is said by its line."""

from __future__ import annotations

import json

import pytest

from graftwork.errors import InvalidRequest
from graftwork.registry.evaluations import examples
from graftwork.registry.evaluations.examples import read_examples


def line(id_: object = "1", scores: object = None) -> bytes:
    return json.dumps({"id": id_, "scores": {"accuracy": 1} if scores is None else scores}).encode() + b"\n"


def test_scores_are_read_by_metric_however_the_bytes_come() -> None:
    content = line("a", {"accuracy": True, "f1": 0.5}) + line("b", {"f1": 0.25}).rstrip()
    for size in (1, 7, 1000):
        chunks = [content[at : at + size] for at in range(0, len(content), size)]
        assert read_examples(chunks) == {"accuracy": {"a": 1.0}, "f1": {"a": 0.5, "b": 0.25}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no scores"),
        (line(scores={}), "no scores"),
        (line("a") + b"{\n", "Line 2 is not JSON"),
        (line("a") + b"\n" + line("b"), "Line 2 is not JSON"),
        (b"[" * 50_000, "Line 1 is not JSON"),
        (b"\xff\n", "Line 1 is not JSON"),
        (b"[]\n", "Line 1 is not like"),
        (b'{"id": "a", "scores": {}, "more": 1}\n', "Line 1 is not like"),
        (line("a") + line("a"), "Line 2: the id 'a' is there twice"),
        (line(7), "Line 1: the id must be text"),
        (line(""), "Line 1: the id must be text"),
        (line("x" * 257), "Line 1: the id must be text"),
        (line(scores=[1]), "Line 1: the scores must be an object"),
        (line(scores={"accuracy": "1"}), "is no number"),
        (line(scores={"accuracy": float("nan")}), "is no number"),
        (line(scores={"accuracy": 10**400}), "is no number"),
        (line(scores={"accuracy": -1.01e100}), "is no number"),
        (line("x" * (64 << 10)), "Line 1 is longer"),
    ],
)
def test_what_is_wrong_is_said_by_its_line(content: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        read_examples([content])
    assert caught.value.field == "examples.digest"


def test_no_more_is_read_than_the_limits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MAX_EXAMPLES", 3)
    three = line("1") + line("2") + line("3")
    assert len(read_examples([three])["accuracy"]) == 3
    with pytest.raises(InvalidRequest, match="more than 3 examples"):
        read_examples([three + line("4")])
    monkeypatch.setattr(examples, "MAX_BYTES", len(three))
    read_examples([three])
    with pytest.raises(InvalidRequest, match="larger than"):
        read_examples([three, b"x"])
