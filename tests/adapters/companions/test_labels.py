"""Classes have the names that the adapter's config gives them, and exclude one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graftwork.adapters.companions.labels import class_labels, label_problems, label_warnings


def write(folder: Path, config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_names_come_from_the_adapters_config(tmp_path: Path) -> None:
    assert class_labels(write(tmp_path, {"id2label": {"0": "bad", "1": "good"}}), 2) == ("bad", "good")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"id2label": {"0": "a"}},
        {"id2label": {"0": "a", "1": 2}},
        {"id2label": {"0": "\ud800", "1": "b"}},
        {"id2label": ["a", "b"]},
        [1],
        "text",
        None,
    ],
)
def test_whatever_does_not_name_all_classes_gives_numbers(tmp_path: Path, config: object) -> None:
    assert class_labels(write(tmp_path, config), 2) == ("LABEL_0", "LABEL_1")


def test_without_a_config_classes_are_numbered(tmp_path: Path) -> None:
    assert class_labels(tmp_path, 3) == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert not label_problems(tmp_path)


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification", 1])
def test_a_head_whose_logits_are_no_exclusive_classes_is_refused(tmp_path: Path, kind: object) -> None:
    [problem] = label_problems(write(tmp_path, {"problem_type": kind}))
    assert "problem_type" in problem and str(kind) in problem


@pytest.mark.parametrize("kind", [None, "single_label_classification"])
def test_exclusive_classes_are_served(tmp_path: Path, kind: object) -> None:
    assert not label_problems(write(tmp_path, {"problem_type": kind}))


def test_names_that_do_not_cover_the_classes_are_told_of(tmp_path: Path) -> None:
    assert not label_warnings(tmp_path, 2)
    assert not label_warnings(write(tmp_path, {"id2label": {"0": "a", "1": "b"}}), 2)
    [warning] = label_warnings(write(tmp_path, {"id2label": {"0": "a", "7": "b"}}), 2)
    assert "id2label" in warning and "2 classes" in warning


@pytest.mark.parametrize("text", ["{", "[]", "7"])
def test_a_config_that_cannot_be_read_is_refused_as_it_might_say_more(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    [problem] = label_problems(tmp_path)
    assert "config.json" in problem
