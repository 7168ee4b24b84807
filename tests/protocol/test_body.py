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
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.protocol.lifecycle import PolicyBody
from graftwork.protocol.registry import AliasBody
from support.evaluations import task

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


def test_a_field_that_is_none_is_told_with_those_that_are() -> None:
    body = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy", "spec": {"require": {"servng": []}}}
    with pytest.raises(InvalidRequest) as wrong:
        PolicyBody.read(json.dumps(body).encode())
    assert wrong.value.field == "spec.require.servng"
    assert wrong.value.message.endswith("is not a field of this request; there are staging, production, serving.")


def test_fields_in_lists_and_those_that_a_typo_leaves_missing_are_told() -> None:
    with pytest.raises(InvalidRequest, match=r"^metrics\.0\.valeu is not .*; there are name, value, ") as wrong:
        EvaluationBody.read(json.dumps(task(metrics=[{"name": "a", "valeu": 1}])).encode())
    assert wrong.value.field == "metrics.0.valeu"
    with pytest.raises(InvalidRequest, match=r"^family is required; is it what 'famly' means\?$"):
        EvaluationBody.read(b'{"famly": "task"}')
