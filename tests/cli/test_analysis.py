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
