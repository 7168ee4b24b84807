"""Grants: which adapters a pattern means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.access.access import Access
from graftwork.access.grants import Grant, check_pattern, fits
from graftwork.errors import InvalidRequest

TEXT = st.text(alphabet="ab-", max_size=6)


@given(TEXT, st.sampled_from(["", "*"]), TEXT, TEXT)
def test_a_star_stands_for_any_text_and_nothing_else_does(before: str, star: str, after: str, name: str) -> None:
    regular = f"{re.escape(before)}{'.*' if star else ''}{re.escape(after)}"
    assert fits(f"{before}{star}{after}", name) == bool(re.fullmatch(regular, name))


@pytest.mark.parametrize("pattern", ["", "a**", "*a*", "A*", "a/*", "a?", "a b", "*" + "a" * 128, "é*"])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="pattern"):
        check_pattern(pattern)


def test_a_grant_is_of_its_owner_to_its_grantee_and_for_its_verbs() -> None:
    grant = Grant("acme", "1", "zeta", "tone-*", ("call",), "", "me")
    access = Access(grants={"zeta": (grant,)})
    assert access.may("zeta", "call", "acme", "tone-a")
    assert not access.may("zeta", "see", "acme", "tone-a")
    assert not access.may("zeta", "call", "acme", "voice")
    assert not access.may("zeta", "call", "other", "tone-a")
    assert not access.may("acme", "call", "zeta", "tone-a")
    assert list(access.given_by("acme")) == [grant] and not list(access.given_by("zeta"))
