"""analysis check: for pipelines, by its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from support.analysis import template

if TYPE_CHECKING:
    from cli.conftest import Cli

SUCCESS = {"name": "success", "provider": {"rate": {"measure": "success_rate"}}, "successCondition": "result >= 0.9"}
OK, ERROR = {"outcome": "ok", "latency_s": 0.5}, {"outcome": "error", "latency_s": 0.1}


def test_it_exits_with_1_unless_all_metrics_pass(tmp_path: Path, cli: Cli) -> None:
    file, evidence = tmp_path / "template.json", tmp_path / "evidence.json"
    file.write_text(json.dumps(template(SUCCESS)))
    for good, bad, result in ((200, 0, "pass"), (5, 1, "inconclusive")):
        evidence.write_text(json.dumps({"candidate": {"observations": [OK] * good + [ERROR] * bad}}))
        ran = cli("analysis", "check", "-f", str(file), "--evidence", str(evidence), "--output", "json")
        assert (ran.code, json.loads(ran.out)["result"]) == (result != "pass", result)


def test_a_mistake_in_the_template_is_told_with_its_place(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "template.json"
    file.write_text(json.dumps(template({**SUCCESS, "successCondition": "result => 0.9"})))
    ran = cli("analysis", "check", "-f", str(file))
    assert ran.code == 1 and "successCondition cannot be read at character 8" in ran.err
    assert ran.err.startswith(f"graftwork: {file}: ")


def test_templates_are_kept_listed_and_taken_back(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "template.json"
    file.write_text(json.dumps(template(SUCCESS)))
    made = cli("analysis", "set", "-f", str(file), "--expect", "absent", "--reason", "new", "-o", "json").json()
    assert made["metadata"]["name"] == "careful"
    file.write_text(json.dumps(template({**SUCCESS, "minSamples": 7})))
    assert "revision  2" in cli("analysis", "set", "-f", str(file), "--expect", made["status"]["digest"]).out
    assert cli("analysis", "set", "-f", str(file), "--expect", "absent").code == 1
    assert cli("analysis", "list").out.splitlines()[1].split()[:3] == ["careful", "2", "success"]
    assert cli("analysis", "rollback", "careful", "-o", "json").json()["status"]["revision"] == 1
    history = [line.split()[:2] for line in cli("analysis", "history", "careful").out.splitlines()[1:]]
    assert history == [["2", "-"], ["1", "live"]]
    shown = cli("analysis", "show", "careful", "--revision", "2", "-o", "json")
    file.write_text(shown.out)  # what is shown can be tried and set
    assert cli("analysis", "check", "-f", str(file)).code == 0
    assert cli("analysis", "set", "-f", str(file), "-o", "json").json()["spec"] == shown.json()["spec"]
    assert cli("analysis", "rm", "careful", "-o", "json").json()["removed"] is True
    assert cli("analysis", "show", "careful").code == 1


def test_arguments_are_given_by_name(tmp_path: Path, cli: Cli) -> None:
    file, evidence = tmp_path / "template.json", tmp_path / "evidence.json"
    metric = {**SUCCESS, "successCondition": "result >= {{args.floor}}"}
    file.write_text(json.dumps(template(metric, args=[{"name": "floor"}])))
    evidence.write_text(json.dumps({"candidate": {"observations": [OK] * 200}}))
    assert "arguments  floor" in cli("analysis", "set", "-f", str(file)).out
    judging = ("analysis", "check", "-f", str(file), "--evidence", str(evidence))
    passed = cli(*judging, "--arg", "floor=0.9")
    assert passed.code == 0 and "floor=0.9" in passed.out
    for args, said in (
        ((), "needs a value for floor"),
        (("--arg", "floor"), "--arg 'floor' is not NAME=VALUE."),
        (("--arg", "floor=1", "--arg", "floor=2"), "--arg 'floor=2' is given twice."),
        (("--arg", "flor=1"), "has no argument flor"),
    ):
        refused = cli(*judging, *args)
        assert refused.code != 0 and said in refused.err
