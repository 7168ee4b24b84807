"""The log probabilities of /v1/completions: offsets are of the text, and no token hides another."""

from __future__ import annotations

import json

from graftwork.engine.request import TokenLogprob, TopLogprob
from graftwork.gateway.answer_shape import TextOffset
from graftwork.gateway.shapes import TEXT


def entry(piece: bytes, logprob: float, *top: tuple[bytes, float]) -> TokenLogprob:
    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    others = tuple(TopLogprob(i, text(data), tuple(data), value) for i, (data, value) in enumerate(top))
    return TokenLogprob(0, text(piece), tuple(piece), logprob, others)


def test_offsets_count_characters_and_not_the_pieces_of_one() -> None:
    smile = "😀".encode()
    entries = [
        entry(b"a", -1.0),
        entry(smile[:2], -1.0),
        entry(smile[2:], -1.0),
        entry("é".encode(), -1.0),
        entry(b"!", 0),
    ]
    made = TEXT.logprobs(entries, TextOffset())
    assert made["text_offset"] == [0, 1, 1, 2, 3]
    assert len("a😀é!") == 4


def test_offsets_are_of_the_text_even_where_a_character_stays_unfinished() -> None:
    pieces = [b"a", b"\xf0", b"b", b"\xe6\x97", b"\xe6\x97", b"\xa5", b"\xff", b"\xef\xbf", b"\xbd", b"c"]
    text = b"".join(pieces).decode("utf-8", "replace")
    made = TEXT.logprobs([entry(piece, 0.0) for piece in pieces], TextOffset())
    assert text == "a\ufffdb\ufffd日\ufffd\ufffdc"
    assert made["text_offset"] == [0, 1, 2, 3, 4, 4, 5, 6, 6, 7]


def test_offsets_go_on_from_chunk_to_chunk() -> None:
    offset, smile = TextOffset(), "😀".encode()
    pieces = [smile[:1], smile[1:3], smile[3:], b"x"]
    assert [TEXT.logprobs([entry(piece, 0.0)], offset)["text_offset"] for piece in pieces] == [[0], [0], [0], [1]]


def test_parts_of_characters_are_told_apart_by_their_bytes() -> None:
    made = TEXT.logprobs([entry(b"\xf0", -0.5, (b"\xf0", -0.5), (b"\xf1", -1.0), (b"\xf2", -2.0))], TextOffset())
    assert made["top_logprobs"] == [{"bytes:\\xf0": -0.5, "bytes:\\xf1": -1.0, "bytes:\\xf2": -2.0}]
    assert made["tokens"] == ["bytes:\\xf0"]
    json.dumps(made)


def test_the_chosen_token_is_always_among_the_alternatives() -> None:
    made = TEXT.logprobs([entry(b"x", -9.0, (b"a", -0.1), (b"b", -0.2))], TextOffset())
    assert made["top_logprobs"] == [{"a": -0.1, "b": -0.2, "x": -9.0}]


def test_of_two_tokens_that_read_the_same_the_likelier_is_shown() -> None:
    made = TEXT.logprobs([entry(b"a", -3.0, (b"a", -0.1))], TextOffset())
    assert made["top_logprobs"] == [{"a": -0.1}]
