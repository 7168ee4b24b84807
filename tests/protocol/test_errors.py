"""The error table: every error survives the way over the wire."""

from __future__ import annotations

import pytest

from graftwork.errors import (
    Conflict,
    Damaged,
    GenerationFailed,
    GraftworkError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    Refused,
    TooManyRequests,
    Unavailable,
    UnknownModel,
)
from graftwork.protocol.errors import ERRORS, error_from, kind_of, openai_error, problem

ALL = [
    InvalidRequest("m", field="f"),
    NotFound("m"),
    UnknownModel("m"),
    Conflict("m"),
    PreconditionFailed("m"),
    Refused("m", problems=["p"]),
    Damaged("m"),
    Unavailable("m"),
    GenerationFailed("m"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_every_error_comes_back_as_itself_from_our_api(error: GraftworkError) -> None:
    kind = kind_of(error)
    field, problems = getattr(error, "field", None), list(getattr(error, "problems", ()))
    body = problem(error.message, kind, status=kind.status, field=field, problems=problems)
    back = error_from(kind.status, body)
    assert (type(back), back.message) == (type(error), error.message)
    assert getattr(back, "field", None) == field
    assert list(getattr(back, "problems", ())) == problems


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_every_error_comes_back_as_itself_from_v1(error: GraftworkError) -> None:
    kind = kind_of(error)
    back = error_from(kind.status, openai_error(error.message, kind, param=getattr(error, "field", None)))
    assert (type(back), back.message) == (type(error), error.message)


def test_every_error_type_has_a_line() -> None:
    def below(kind: type[GraftworkError]) -> set[type[GraftworkError]]:
        named = (child for child in kind.__subclasses__() if child.__module__ == GraftworkError.__module__)
        return {kind}.union(*map(below, named))

    assert below(GraftworkError) == {kind.error for kind in ERRORS}


@pytest.mark.parametrize("body", [None, "<html>", [], {"error": "no"}, {"detail": 3}])
def test_a_foreign_answer_is_still_one_of_our_errors(body: object) -> None:
    assert isinstance(error_from(503, body), Unavailable)
    assert isinstance(error_from(418, body), InvalidRequest)
    assert isinstance(error_from(502, body), GraftworkError)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), (None, 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), ("-3", 1), ("9" * 99, 1)],
)
def test_when_to_come_back_is_read_with_the_error(header: str | None, seconds: int) -> None:
    for error in (Unavailable("m"), TooManyRequests("m")):
        kind = kind_of(error)
        back = error_from(kind.status, openai_error("m", kind), retry_after=header)
        assert isinstance(back, Unavailable) and back.retry_after_s == seconds
    assert not hasattr(error_from(404, None, retry_after="7"), "retry_after_s")


def test_a_foreign_error_is_internal() -> None:
    assert kind_of(ValueError("x")).status == 500
