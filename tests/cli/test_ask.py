"""ask: what it says of names that are not there, and how it waits for a server that still loads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graftwork.cli.ask import unknown_model
from graftwork.cli.base import progress_bar
from graftwork.cli.waiting import wait_until_ready
from graftwork.errors import Unavailable

NAMES = ("fake-base", "support", "sentiment")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("suport", "There is no model suport. Did you mean support? `graftwork list` shows what there is."),
        ("suport:1.0.0", "There is no model suport:1.0.0. Did you mean support? `graftwork list` shows what there is."),
        ("zzz", "There is no model zzz. `graftwork list` shows what there is."),
        ("support@nope", "There is no version support@nope. `graftwork list support` shows what there is."),
    ],
)
def test_an_unknown_name_suggests_what_is_close(reference: str, said: str) -> None:
    assert unknown_model(reference, NAMES) == said


def test_waits_until_no_reason_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    answers: Iterator[list[str]] = iter([["base: loading"], ["base: loading"], []])
    wait_until_ready(lambda: next(answers), 120.0, lambda: None)
    assert next(answers, None) is None


def test_waiting_is_bounded_and_says_for_what() -> None:
    with pytest.raises(Unavailable, match=r"not ready after 0 s: base: loading"):
        wait_until_ready(lambda: ["base: loading"], 0.0, lambda: None)


def test_what_takes_long_is_said_where_nobody_sees_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("preparing the base") as advance:
        advance(1, 2)
    assert capsys.readouterr().err == "preparing the base …\n"
