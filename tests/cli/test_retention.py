"""delete, hold, retention and gc on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora

if TYPE_CHECKING:
    from cli.conftest import Cli

RULES = """
apiVersion: adapters.graftwork.dev/v1alpha1
kind: Retention
metadata: {name: alpha}
spec: {keepLast: 1}
"""


@pytest.fixture
def two_versions(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    for number in (1, 2):
        folder = write_lora(tmp_path / f"a{number}", outline, seed=number)
        assert cli("push", str(folder), f"alpha:{number}.0.0").code == 0


@pytest.mark.usefixtures("two_versions")
def test_what_is_held_is_not_deleted_and_who_holds_it_is_said(cli: Cli) -> None:
    assert cli("hold", "set", "alpha:1.0.0", "--reason", "case 7", "-o", "json").json()["number"] == 1
    assert "case 7" in cli("hold", "list").out
    refused = cli("delete", "alpha:1.0.0")
    assert refused.code == 1
    assert "the legal hold 1 keeps alpha:1.0.0: case 7 (`graftwork hold rm alpha:1.0.0` ends it)" in refused.err
    assert "alpha:1.0.0" in cli("hold", "rm", "alpha:1.0.0", "--reason", "settled").out
    assert [row["semver"] for row in cli("delete", "alpha:1.0.0", "-o", "json").json()] == ["1.0.0"]
    assert cli("delete", "alpha").code == 1
    assert "alpha:2.0.0" in cli("delete", "alpha", "--all-versions").out
    assert cli("list", "-o", "json").json() == []


@pytest.mark.usefixtures("two_versions")
def test_gc_goes_by_the_rules_and_says_what_went(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    assert cli("retention", "set", str(tmp_path / "rules.yaml")).code == 0
    assert "alpha" in cli("retention", "list").out
    looked = cli("gc", "--dry-run", "--older-than", "0s")
    assert "would be erased  alpha:1.0.0" in looked.out
    done = cli("gc", "--older-than", "0s", "-o", "json").json()
    assert done["erased"] == ["alpha:1.0.0"]
    assert cli("verify").code == 0
    assert cli("retention", "rm", "alpha").code == 0
    assert "everything stays" in cli("retention", "list").err
    assert "nothing to collect" in cli("gc").err


@pytest.mark.parametrize("age", ["24", "1w", "1.5h", "h"])
def test_an_age_that_is_none_is_wrong_usage(cli: Cli, age: str) -> None:
    wrong = cli("gc", "--older-than", age)
    assert (wrong.code, "write 90m, 24h or 7d" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a", "no document"),
        ("a: [", "neither YAML nor JSON: line 2"),
        ("a: 1\na: 2", "line 2: the key 'a' comes twice"),
        ("a: {{b}}", "line 1: a key must be a text; one that begins with a brace needs quotes"),
        (RULES + "---\n" + RULES, "holds 2 documents; one is read here"),
        (RULES.replace("Retention", "Retain").replace("keepLast", "rules"), "rules.yaml: kind must be 'Retention'"),
        (RULES.replace("Retention", "Retain"), "rules.yaml: kind must be 'Retention'"),
        (RULES.replace("keepLast", "keepLst"), "there are keepLast, keepDays, keepProduction, archivedDays, keepRoll"),
    ],
)
def test_a_file_that_is_no_resource_is_refused(cli: Cli, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    assert why in cli("retention", "set", str(tmp_path / "rules.yaml")).err
