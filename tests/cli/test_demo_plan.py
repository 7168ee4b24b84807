"""The demo's plan: folders to references, older versions first, questions to those that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graftwork.cli.demo import CACHES, next_commands
from graftwork.cli.demo_plan import Question, plan_demo
from graftwork.errors import InvalidRequest, NotFound


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / "adapters" / name).mkdir(parents=True)
        (root / "adapters" / name / "adapter_config.json").write_text("{}")
    return root / "adapters"


def test_an_older_version_is_pushed_before_the_newer_which_is_promoted(tmp_path: Path) -> None:
    root = folders(tmp_path, "tone", "tone-v1", "code")
    plan = plan_demo(root)
    assert [(folder.name, reference) for folder, reference in plan.pushes] == [
        ("code", "code:1.0.0"),
        ("tone-v1", "tone:1.0.0"),
        ("tone", "tone:1.1.0"),
    ]
    assert plan.promotions == ("code:1.0.0", "tone:1.1.0")


def test_a_v1_without_a_newer_sibling_is_a_name_like_any_other(tmp_path: Path) -> None:
    assert plan_demo(folders(tmp_path, "tone-v1")).promotions == ("tone-v1:1.0.0",)


def test_questions_go_to_the_adapters_that_are_there(tmp_path: Path) -> None:
    root = folders(tmp_path, "tone", "tone-v1")
    entries = [("tone", "a"), ("tone-v1", "b"), ("absent", "c"), (None, "d")]
    asked = [{"adapter": adapter, "prompt": prompt} for adapter, prompt in entries]
    (tmp_path / "prompts.json").write_text(json.dumps(asked))
    assert plan_demo(root).questions == (
        Question("tone", "a"),
        Question("tone:1.0.0", "b"),
        Question(None, "d"),
    )


def test_without_prompts_everyone_is_asked_once(tmp_path: Path) -> None:
    questions = plan_demo(folders(tmp_path, "tone", "tone-v1")).questions
    assert [question.adapter for question in questions] == [None, "tone:1.0.0", "tone:1.1.0"]


def test_next_commands_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_demo(folders(tmp_path, "tone", "entities"))
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "graftwork").touch()
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setattr("shutil.which", lambda _name: None)
    for name in CACHES:
        monkeypatch.delenv(name, raising=False)
    push, ask, serve = next_commands(plan, tmp_path)
    assert push == "venv/graftwork push adapters/entities entities"
    assert ask.startswith("venv/graftwork ask entities ")
    assert serve == "venv/graftwork serve"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert next_commands(plan, tmp_path)[:2] == [f"export NUMBA_CACHE_DIR={tmp_path}/numba", push]
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert next_commands(plan, tmp_path / "venv")[0] == f"graftwork push {tmp_path}/adapters/entities entities"


def test_no_adapters_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="--adapters"):
        plan_demo(tmp_path)


def test_prompts_that_are_no_prompts_are_named(tmp_path: Path) -> None:
    root = folders(tmp_path, "tone")
    (tmp_path / "prompts.json").write_text("[1]")
    with pytest.raises(InvalidRequest, match=r"prompts\.json"):
        plan_demo(root)
