"""Fields of tasks: what is declared is what a template gets, of the type that it declares."""

from __future__ import annotations

import math
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.tasks import FieldPart
from graftwork.traffic.tasks.fields import problem_of, read_fields

WORDS = FieldPart(type="integer", minimum=1, maximum=50, default=20)
TONE = FieldPart(type="string", enum=["dry", "warm"])


def test_what_is_left_out_is_its_default() -> None:
    assert read_fields({"words": WORDS, "tone": TONE}, {"tone": "dry"}) == {"words": 20, "tone": "dry"}


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({}, "fields.tone", "The task asks for the field tone."),
        ({"tone": None}, "fields.tone", "The task asks for the field tone."),
        ({"tone": "rude"}, "fields.tone", "The field tone must be one of dry, warm."),
        ({"tone": "dry", "words": 51}, "fields.words", "The field words must be at least 1 and at most 50."),
        ({"tone": "dry", "words": "5"}, "fields.words", "The field words must be of the type integer."),
        ({"tone": "dry", "lang": "x"}, "fields", "The task has no field 'lang'; it has tone, words."),
    ],
)
def test_what_may_not_be_is_told_by_its_name(given: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        read_fields({"words": WORDS, "tone": TONE}, given)
    assert (wrong.value.field, wrong.value.message) == (field, said)


@pytest.mark.parametrize(
    ("kind", "value", "allowed"),
    [
        ("integer", True, False),
        ("integer", 1.0, False),
        ("number", 1, True),
        ("number", True, False),
        ("number", math.nan, False),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("string", "x" * 4096, True),
        ("string", "x" * 4097, False),
        ("string", ["x"], False),
    ],
)
def test_types_are_those_of_json(kind: Any, value: Any, allowed: bool) -> None:
    assert (problem_of(FieldPart(type=kind), value) is None) == allowed
