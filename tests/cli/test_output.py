"""Tables: a digest is never broken; a narrow terminal goes without the least column."""

from __future__ import annotations

import sys

import pytest

from graftwork.cli.output import Columns, print_table

ROW = {"name": "alpha", "base": "a-base-with-a-long-name", "digest": "0123456789ab"}
COLUMNS: Columns = {
    "name": lambda row: row["name"],
    "base": lambda row: row["base"],
    "digest": lambda row: row["digest"],
}


@pytest.mark.parametrize(
    ("width", "shown"), [(80, ["alpha", "a-base-with-a-long-name", "0123456789ab"]), (30, ["alpha", "0123456789ab"])]
)
def test_a_narrow_terminal_drops_the_least_column(
    width: int, shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table([ROW], COLUMNS, empty="", least="base")
    assert capsys.readouterr().out.splitlines()[1].split() == shown
