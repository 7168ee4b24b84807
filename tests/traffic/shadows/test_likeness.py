"""How far two answers are the same."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.traffic.shadows.likeness import Likeness, likeness


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("Yes.", "Yes.", Likeness(True, True, 1.0, 1.0)),
        ("Yes,  he did.\n", " yes, HE did.", Likeness(False, True, 1 - 9 / 27, 13 / 14)),
        ("abcd", "abce", Likeness(False, False, 0.75, 1.0)),
        ("abc", "", Likeness(False, False, 0.0, 0.0)),
        ("", "abc", Likeness(False, False, 0.0, None)),
        ("", "", Likeness(True, True, 1.0, None)),
    ],
)
def test_what_is_the_same_in_two_texts(one: str, two: str, expected: Likeness) -> None:
    found = likeness([one], [two])
    assert asdict(found) == pytest.approx(asdict(expected))


def test_choices_are_compared_one_by_one() -> None:
    found = likeness(["a", "b"], ["a", "c"])
    assert (found.exact, found.normalised, found.similarity) == (False, False, 0.5)
    with pytest.raises(ValueError):
        likeness(["a"], ["a", "b"])


@given(st.text(max_size=50), st.text(max_size=50))
def test_likeness_has_bounds_and_no_side(one: str, two: str) -> None:
    found, back = likeness([one], [two]), likeness([two], [one])
    assert 0 <= found.similarity <= 1 and found.similarity == back.similarity
    assert found.exact == (one == two) and found.normalised >= found.exact
    assert (found.similarity == 1) == found.exact
