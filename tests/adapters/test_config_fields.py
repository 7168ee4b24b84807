"""ConfigFields: every field is read rightly, or is a problem by its name."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.adapters.config_fields import ConfigFields, is_number, is_rank

BAD: dict[str, list[Any]] = {
    "whole": [None, 0, -1, 8.0, "8", True, 1 << 17, 10**400],
    "number": [None, "1", True, float("nan"), float("inf"), 1e31, 10**400],
    "flag": [1, "true", []],
    "names": [7, {}, ["a", 1], ["x" * 1000], "x" * 1000, ["a"] * 3000],
    "layers": ["0", [True], 1.5],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values])
def test_a_bad_value_is_a_problem_by_its_field(kind: str, value: Any) -> None:
    fields = ConfigFields({"it": value})
    getattr(fields, kind)("it")
    assert [problem.split(":")[0] for problem in fields.problems()] == ["it"]
    assert len(fields.problems()[0]) < 250


@pytest.mark.parametrize("value", [[1], {"a": "8"}, {"a": 0}, {"x" * 1000: 1}, "a"])
def test_a_bad_pattern_is_a_problem_by_its_field(value: Any) -> None:
    fields = ConfigFields({"it": value})
    fields.pattern("it", is_rank, "ranks")
    assert [problem.split(":")[0] for problem in fields.problems()] == ["it"]


def test_good_values_are_read() -> None:
    fields = ConfigFields({"r": 8, "alpha": 16, "on": True, "names": ["q"], "layers": 3, "ranks": {"q": 2}})
    assert (fields.whole("r"), fields.number("alpha"), fields.flag("on"), fields.flag("off", True)) == (
        8,
        16.0,
        True,
        True,
    )
    assert (fields.names("names"), fields.names("none"), fields.layers("layers")) == (("q",), None, (3,))
    assert fields.pattern("ranks", is_number, "ranks") == {"q": 2}
    assert not fields.problems() and not fields.warnings()


def test_an_unread_field_is_refused_unless_it_is_empty_or_a_text() -> None:
    fields = ConfigFields({"a": 1, "b": [], "c": "text", "d": {"x": 1}, "e": False, "peft_version": "1", "f": 2}, ["f"])
    assert [problem.split(":")[0] for problem in fields.problems()] == ["a", "d"]
    assert [warning.split(":")[0] for warning in fields.warnings()] == ["c"]


def test_a_field_that_is_not_served_is_refused_unless_it_holds_what_is_allowed() -> None:
    fields = ConfigFields({"bias": "all", "other": "none", "third": None})
    for field in ("bias", "other", "third"):
        fields.refused(field, "biases", "none")
    assert fields.problems() == ["bias: 'all' is not supported yet: biases."]
