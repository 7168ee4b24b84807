"""Canonical JSON: one text per value, and a clear word for what has none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import canonical, parse

SAFE = st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | SAFE | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_reads_back_as_it_was(value: Any) -> None:
    assert parse(canonical(value, what="value")) == value


@given(st.dictionaries(WORDS, SAFE))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items())), what="value") == canonical(value, what="value")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53 + 1, {1: 2}, {"a": {3}}, b"x", "\ud800"])
def test_what_json_cannot_say_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidRequest, match="metadata") as caught:
        canonical({"key": value}, what="metadata")
    assert caught.value.field == "metadata"


def test_nesting_without_end_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidRequest):
        canonical(value, what="metadata")
