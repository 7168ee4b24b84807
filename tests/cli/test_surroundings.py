"""Folders, bytes and numbers that cannot work end in one clear line, and never in "please report it"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Cli


@pytest.mark.parametrize("name", ["a file", "a file/below it"])
def test_a_home_that_cannot_be_a_folder_is_named(
    cli: Cli, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").write_text("in the way")
    monkeypatch.setenv("GRAFTWORK_HOME", str(tmp_path / name))
    ran = cli("list")
    assert ran.code == 1 and name in ran.err and "unexpected" not in ran.err


def test_an_empty_home_is_no_home(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTWORK_HOME", "")
    ran = cli("list")
    assert ran.code == 2 and "it is empty" in ran.err


@pytest.mark.parametrize(("name", "value"), [("DATABASE_URL", "foo://x"), ("ARTIFACTS_URL", "s4://x")])
def test_a_variable_that_names_no_place_is_named(
    cli: Cli, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"GRAFTWORK_{name}", value)
    for verb in ("list", "verify"):
        ran = cli(verb)
        assert ran.code == 2 and ran.err.startswith(f"graftwork: GRAFTWORK_{name}: The ")


def test_a_folder_that_is_missing_is_told_where_a_file_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    assert cli("list").code == 0
    ran = cli("audit", "export", str(tmp_path / "no" / "log.jsonl"))
    assert (ran.code, ran.err) == (1, f"graftwork: There is no folder {tmp_path / 'no'}.\n")


def test_settings_that_are_not_yaml_are_told_by_file_and_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graftwork.yaml").write_text("port: 80\nhome: a: b\n")
    ran = cli("list")
    assert (ran.code, ran.err) == (
        2, "graftwork: graftwork.yaml is not YAML: line 2: mapping values are not allowed here.\n"
    )  # fmt: skip


@pytest.mark.parametrize("reference", ["a\udcff", "\udcff"])
def test_bytes_that_are_not_utf8_are_told(cli: Cli, reference: str) -> None:
    ran = cli("show", reference)
    assert ran.code in (1, 2) and ran.err and "unexpected" not in ran.err


def test_a_temperature_that_is_no_number_is_told(cli: Cli) -> None:
    ran = cli("--url", "http://127.0.0.1:9", "ask", "fake-base", "hi", "--temperature", "nan")
    assert ran.code in (1, 2) and "unexpected" not in ran.err
