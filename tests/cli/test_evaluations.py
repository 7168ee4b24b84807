"""The verbs of evaluations on a home of its own: add, import, list, show, compare, trend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora
from support.evaluations import inference, task

if TYPE_CHECKING:
    from cli.conftest import Cli

DATA = Path(__file__).parents[1] / "registry" / "evaluations" / "data"


def test_versions_are_judged_from_the_command_line(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    for seed, version in ((1, "1.0.0"), (2, "1.1.0")):
        assert cli("push", str(write_lora(tmp_path / version, outline, seed=seed)), f"tone:{version}").code == 0
        (tmp_path / "own.yaml").write_text(yaml.safe_dump(task(seed / 4)))
        lines = [json.dumps({"id": str(n), "scores": {"accuracy": int(n < 4 * seed)}}) for n in range(16)]
        (tmp_path / "own.jsonl").write_text("\n".join(lines))
        added = cli(
            "evaluation", "add", f"tone:{version}", str(tmp_path / "own.yaml"),
            "--examples", str(tmp_path / "own.jsonl"), "--report", str(tmp_path / "own.yaml"), "-o", "json",
        )  # fmt: skip
        assert added.json()["number"] == 1
    (results,) = DATA.glob("results_*.json")
    imported = cli("evaluation", "import", "tone:1.0.0", str(results), str(DATA / "hle.yaml"), "-o", "json").json()
    assert [one["evaluation"]["name"] for one in imported] == [
        "capitals", "completions", "cais/hle/default", "Idavidrein/gpqa/gpqa_diamond",
    ]  # fmt: skip
    (tmp_path / "load.json").write_text(json.dumps(inference()))
    assert "latency_s p50 0.5" in cli("evaluation", "add", "tone:1.0.0", str(tmp_path / "load.json")).out
    listed = cli("evaluation", "list", "tone:1.0.0", "--family", "task")
    assert listed.code == 0 and "acc 0.75" in listed.out and "chat" not in listed.out
    shown = cli("evaluation", "show", "tone:1.0.0", "1")
    assert "accuracy 0.25" in shown.out and "own.yaml" in shown.out

    pair = ("compare", "tone:1.0.0", "tone:1.1.0")
    table = cli(*pair, "--metric", "accuracy")
    assert "0.5 (+0.25 better; McNemar p=0.12" in table.out and "Holm" in table.out
    markdown = cli(*pair, "--markdown").out
    assert "| measured | metric | tone:1.0.0 | tone:1.1.0 | notes |\n| --- |" in markdown
    assert cli(*pair, "--no-paired", "-o", "json").json()["correction"] is None
    assert cli(*pair, "--markdown", "-o", "json").code == 2
    trend = cli("trend", "tone", "accuracy")
    assert "+0.25 better" in trend.out
    points = cli("trend", "tone", "accuracy", "-o", "json").json()["series"][0]["points"]
    assert [point["value"] for point in points] == [0.25, 0.5]
    for typo in (("trend", "tone", "acuracy"), (*pair, "--metric", "acuracy")):
        refused = cli(*typo)
        assert refused.code == 1 and "No metric 'acuracy'" in refused.err and "mean accuracy?" in refused.err


def test_what_is_wrong_is_one_message_and_an_exit_code(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    cli("push", str(write_lora(tmp_path / "a", outline)), "tone")
    (tmp_path / "bad.json").write_text(json.dumps(task(metrics=[{"name": "a", "value": "x"}])))
    refused = cli("evaluation", "add", "tone", str(tmp_path / "bad.json"))
    assert refused.code == 1 and "bad.json: metrics.0.value" in refused.err
    (tmp_path / "typo.yaml").write_text(yaml.safe_dump(task() | {"famly": "task"}))
    (tmp_path / "broken.yaml").write_text("family: task\nname: a: b\n")
    for file, told in (
        ("typo.yaml", "typo.yaml: famly is not a field of this request; there are family, name, split"),
        ("broken.yaml", "broken.yaml cannot be read: line 2: mapping values are not allowed here."),
    ):
        refused = cli("evaluation", "add", "tone", str(tmp_path / file))
        assert refused.code == 1 and told in refused.err
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(task()))
    (tmp_path / "own.jsonl").write_text("{}")
    refused = cli("evaluation", "add", "tone", str(tmp_path / "own.yaml"), "--examples", str(tmp_path / "own.jsonl"))
    assert refused.code == 1 and "own.jsonl: The results by example" in refused.err and "own.yaml" not in refused.err
    assert "yaml" not in cli("evaluation", "add", "tone:x", str(tmp_path / "typo.yaml")).err
    missing = cli("evaluation", "add", "tone", str(tmp_path / "none.json"))
    assert (missing.code, missing.err) == (1, f"graftwork: There is no file {tmp_path / 'none.json'}.\n")
    refused = cli("evaluation", "import", "tone", str(tmp_path / "bad.json"))
    assert refused.code == 1 and "bad.json: this is no result file" in refused.err
    assert cli("evaluation", "show", "tone", "1").code == 1
    alone = cli("compare", "tone")
    assert alone.code == 2 and "two versions or more" in alone.err
