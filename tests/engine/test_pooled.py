"""The forms of pooled results: unit vectors and probabilities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.pooled import probabilities, vector


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=8))
def test_a_vector_keeps_its_direction_and_has_length_one_or_is_zero(values: list[float]) -> None:
    made = vector(values, normalize=True)
    length = math.hypot(*values)
    assert math.hypot(*made) == pytest.approx(1.0 if length else 0.0, abs=1e-6)
    assert list(made) == pytest.approx([value / (length or 1.0) for value in values], abs=1e-6)
    assert list(vector(values, normalize=False)) == values


@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=6))
def test_probabilities_add_up_to_one_and_keep_the_order(logits: list[float]) -> None:
    probs = probabilities(logits)
    assert sum(probs) == pytest.approx(1)
    for a, p in zip(logits, probs, strict=True):
        assert all(p >= q for b, q in zip(logits, probs, strict=True) if a > b)


def test_the_probability_of_a_single_class_is_the_logistic_of_its_logit() -> None:
    assert probabilities([0.0]) == [0.5]
    assert probabilities([2.0]) == pytest.approx([1 / (1 + math.exp(-2))])
    assert probabilities([-1e4]) == [0.0] and probabilities([1e4]) == [1.0]
