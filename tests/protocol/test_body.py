"""Body: what makes a body slow to read is counted rightly before it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import _nodes
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.registry import AliasBody

TEXT = st.text(st.sampled_from('[{:"\\,}]a é\n'), max_size=12)
JSON = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def nodes(value: Any) -> int:
    if isinstance(value, list):
        return 1 + sum(map(nodes, value))
    if isinstance(value, dict):
        return 1 + sum(1 + nodes(inner) for inner in value.values())
    return 0


@given(value=JSON, ascii_only=st.booleans())
def test_lists_objects_and_members_are_counted_and_text_is_not(value: Any, ascii_only: bool) -> None:
    assert _nodes(json.dumps(value, ensure_ascii=ascii_only).encode()) == nodes(value)


def test_a_long_text_full_of_brackets_is_no_hostile_body() -> None:
    text = 'f(x)[0] = {"a": [1]}\\' * 40_000
    assert CompletionRequest.read(json.dumps({"prompt": text}).encode()).prompts == (text,)


@given(text=st.text(st.sampled_from('a\\u0"\0'), max_size=12))
def test_a_text_that_not_every_database_takes_is_refused(text: str) -> None:
    raw = json.dumps({"target": text}).encode()
    if "\0" in text:
        with pytest.raises(InvalidRequest, match="NUL"):
            AliasBody.read(raw)
    else:
        assert AliasBody.read(raw).target == text
