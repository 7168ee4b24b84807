"""The verbs of what a version may do: stage, approve, reject, deprecate, policy, and the past."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora

if TYPE_CHECKING:
    from cli.conftest import Cli, Ran

POLICY = """\
apiVersion: adapters.graftwork.dev/v1alpha1
kind: Policy
metadata: {name: alpha}
spec:
  require:
    production: [approval, staging]
"""


@pytest.fixture
def pushed(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    for number in (1, 2):
        cli("push", str(write_lora(tmp_path / f"a{number}", outline, seed=number)), f"alpha:{number}.0.0")
    return cli


def test_a_policy_is_set_from_a_file_met_and_shown_as_it_was_written(pushed: Cli, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    assert pushed("policy", "set", str(file), "--reason", "rules").code == 0
    shown = pushed("policy", "show", "alpha").out
    assert yaml.safe_load(shown)["spec"]["require"]["production"] == ["approval", "staging"]
    file.write_text(shown)
    assert pushed("policy", "set", str(file), "-o", "json").json() == yaml.safe_load(shown)
    refused = pushed("promote", "alpha:1.0.0")
    assert refused.code == 1 and "approval is pending; its stage is development" in refused.err
    assert pushed("approve", "alpha:1.0.0", "--reason", "good", "-o", "json").json()["approval"] == "approved"
    assert pushed("stage", "set", "alpha:1.0.0", "staging", "-o", "json").json()["stage"] == "staging"
    assert pushed("stage", "set", "alpha:1.0.0", "production", "--expect", "staging").code == 0
    assert pushed("reject", "alpha:1.0.0", "-o", "json").json()["approval"] == "rejected"
    assert "rejected" in pushed("list", "alpha").out and "rejected" in pushed("show", "alpha").out
    assert pushed("policy", "rm", "alpha", "-o", "json").json()["removed"] is True
    assert pushed("promote", "alpha:2.0.0").code == 0


def test_a_deprecated_version_is_shown_so_until_that_is_undone(pushed: Cli) -> None:
    deprecate = ("deprecate", "alpha:1.0.0")
    assert pushed(*deprecate, "--message", "Use 2.0.0.", "--until", "2027-04-01T00:00:00Z").code == 0
    for verb in (("list", "alpha"), ("show", "alpha:1.0.0"), ("history", "alpha")):
        assert "Use 2.0.0." in pushed(*verb).out
    assert pushed(*deprecate, "--undo", "-o", "json").json()["deprecated"] is None
    assert pushed(*deprecate).code == pushed(*deprecate, "--message", "a", "--undo").code == 2
    assert pushed(*deprecate, "--message", "a", "--until", "soon").code == 1


def test_aliases_are_listed_with_their_history_and_their_past(pushed: Cli) -> None:
    pushed("alias", "set", "alpha", "champion", "alpha:1.0.0", "--expect", "absent", "--reason", "first")
    digest = pushed("show", "alpha:1.0.0", "-o", "json").json()["digest"]
    assert pushed("alias", "set", "alpha", "champion", "alpha:2.0.0", "--expect", "absent").code == 1
    assert pushed("alias", "set", "alpha", "champion", "alpha:2.0.0", "--expect", digest).code == 0
    [one] = pushed("alias", "list", "alpha", "-o", "json").json()
    assert (one["alias"], one["version"], one["moved_by"]) == ("champion", "2.0.0", "local")
    assert "champion" in pushed("alias", "list", "alpha").out
    told = pushed("history", "alpha@champion", "-o", "json").json()
    assert [event["payload"]["reason"] for event in told] == ["first", None]
    then = pushed("show", "alpha@champion", "--at", told[0]["at"], "-o", "json").json()
    assert then["semver"] == "1.0.0"
    assert pushed("alias", "rm", "alpha", "champion", "--expect", digest).code == 1
    assert pushed("alias", "rm", "alpha", "champion", "--reason", "done").code == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "neither YAML"),
        ("[" * 3000, "neither YAML"),
        ("a: 2026-01-31", "a is not a field"),
        ("- a", "no document"),
        ("kind: Policy", "policy.yaml: apiVersion is required"),
        ("a: b: c", "policy.yaml is neither YAML nor JSON: line 1: mapping values"),
        (POLICY.replace("production", "productoin"), "there are staging, production, serving"),
        ("", "no document"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_with_what_it_lacks(cli: Cli, tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    ran: Ran = cli("policy", "set", str(tmp_path / "policy.yaml"))
    assert ran.code in (1, 2) and word in ran.err


def test_what_may_not_be_is_one_message_with_what_may(pushed: Cli) -> None:
    pushed("promote", "alpha:1.0.0")
    ran = pushed("stage", "set", "alpha:1.0.0", "archived")
    assert ran.code == 1 and "promote one, or roll back" in ran.err
    assert pushed("stage", "set", "alpha:2.0.0", "testing").code == 1
