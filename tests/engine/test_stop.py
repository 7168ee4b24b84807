"""A stop string ends the answer wherever it falls, and nothing of it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.stop import StopMatcher

WORDS = st.text("ab", max_size=30)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4).map(tuple)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def feed(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    """All that is shown, and what stopped it."""
    matcher = StopMatcher(stops)
    shown = ""
    for piece in pieces:
        emitted, stopped = matcher.push(piece)
        shown += emitted
        if stopped is not None:
            return shown, stopped
    return shown + matcher.flush(), matcher.stopped


def expected(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    found = [(text.index(stop), len(stop), stop) for stop in stops if stop in text]
    return (text[: min(found)[0]], min(found)[2]) if found else (text, None)


@given(STOPS, WORDS, st.lists(st.integers(0, 30), max_size=12))
def test_any_cutting_shows_the_text_before_the_earliest_stop(
    stops: tuple[str, ...], text: str, places: list[int]
) -> None:
    assert feed(stops, cut(text, places)) == expected(stops, text)


@given(STOPS, WORDS)
def test_no_more_is_held_than_may_become_a_stop(stops: tuple[str, ...], text: str) -> None:
    matcher = StopMatcher(stops)
    shown = ""
    for end, char in enumerate(text, 1):
        emitted, stopped = matcher.push(char)
        if stopped is not None:
            return
        shown += emitted
        held = text[len(shown) : end]
        assert not held or any(stop.startswith(held) and stop != held for stop in stops)


def test_without_stops_text_passes_at_once() -> None:
    assert StopMatcher(()).push("anything") == ("anything", None)


def test_text_that_cannot_become_the_stop_is_shown_at_once() -> None:
    matcher = StopMatcher(("\n\n",))
    assert matcher.push("a line\n") == ("a line", None)
    assert matcher.push("another") == ("\nanother", None)
    assert matcher.push("\n") == ("", None)
    assert matcher.push("\nhidden") == ("", "\n\n")


def test_stop_that_overlaps_itself_is_found_over_a_false_start() -> None:
    assert feed(("aab",), ["a", "a", "a", "b", "x"]) == ("a", "aab")


@pytest.mark.parametrize("pieces", [["abcd"], ["a", "b", "c", "d"], ["abc", "d"]])
def test_stop_that_begins_first_wins_however_the_text_comes(pieces: list[str]) -> None:
    assert feed(("bc", "abcd"), pieces) == ("", "abcd")


def test_stop_that_waited_for_an_earlier_candidate_ends_the_answer_when_that_fails() -> None:
    assert feed(("bc", "abcd"), ["abc", "x"]) == ("a", "bc")
    assert feed(("bc", "abcd"), ["abc"]) == ("a", "bc")


def test_flush_gives_what_was_held() -> None:
    matcher = StopMatcher(("END",))
    assert matcher.push("the EN") == ("the ", None)
    assert matcher.flush() == "EN"
    assert matcher.stopped is None
