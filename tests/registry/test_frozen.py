"""Frozen JSON: reads like JSON, refuses every change."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from graftwork.registry.frozen import FrozenDict, freeze

VALUE: dict[str, Any] = {"a": [1, {"b": None}], "c": {"d": "e"}}


def test_a_frozen_value_is_written_as_the_same_json() -> None:
    assert json.loads(json.dumps(freeze(VALUE))) == VALUE


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.__setitem__("x", 1),
        lambda value: value.__delitem__("a"),
        lambda value: value["c"].__setitem__("d", "x"),
        lambda value: value["a"][1].update(b=1),
        lambda value: value.clear(),
        lambda value: value.pop("a"),
        lambda value: value.popitem(),
        lambda value: value.setdefault("x", 1),
        lambda value: value.update({"x": 1}),
        lambda value: value.__ior__({"x": 1}),
    ],
)
def test_a_frozen_value_refuses_to_change(change: Any) -> None:
    value = freeze(VALUE)
    with pytest.raises(TypeError, match="immutable"):
        change(value)
    assert isinstance(value["a"], tuple)
    assert json.loads(json.dumps(value)) == VALUE


def test_copies_are_equal_and_frozen() -> None:
    value = freeze(VALUE)
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert other == value
        assert isinstance(other, FrozenDict)
