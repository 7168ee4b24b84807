"""register, and what it finds out: code, environment, data."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.client import Client
from graftwork.training import register
from graftwork.training.fingerprint import fingerprint
from graftwork.training.provenance import code_version, environment
from support.fixtures import Tiny


def git(folder: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **names}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_register_tells_code_environment_and_what_it_is_given(
    tiny: Tiny, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    version = register(
        tiny.adapter("a1"),
        "notes:2.0.0",
        hyperparameters={"lr": 1e-3},
        metrics={"loss": 0.5},
        datasets=[{"uri": "file:///notes"}],
        metadata={"training": {"hyperparameters": {"lr": 2e-3}}, "environment": {"python": "3.99"}},
        client=client,
    )
    metadata = version["metadata"]
    assert metadata["training"] == {"hyperparameters": {"lr": 2e-3}, "metrics": {"loss": 0.5}}
    assert metadata["datasets"] == [{"uri": "file:///notes"}]
    assert metadata["environment"] == {**environment(), "python": "3.99"}
    assert "code" not in metadata  # no repository


def test_the_code_version_is_that_of_git_without_anybodys_token(tmp_path: Path) -> None:
    assert code_version(tmp_path) == {}
    git(tmp_path, "init", "-q")
    assert code_version(tmp_path) == {}  # nothing was committed
    (tmp_path / "train.py").write_text("1")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert code_version(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "outputs").write_text("untracked")
    git(tmp_path, "remote", "add", "origin", "https://me:secret@example.org/r.git")
    assert code_version(tmp_path) == {"commit": commit, "dirty": False, "repo": "https://example.org/r.git"}
    (tmp_path / "train.py").write_text("2")
    assert code_version(tmp_path)["dirty"] is True


def test_without_git_there_is_no_code_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert code_version() == {}


ROWS: list[Any] = [{"text": "a", "ids": [1, 2]}, {"text": "b", "ids": [3]}]


@pytest.mark.parametrize(
    "other",
    [
        ROWS[::-1],
        ROWS[:1],
        [{"text": "a", "ids": [1]}, {"text": "b", "ids": [2, 3]}],
        [{"text": "a", "ids": ["1", 2]}, ROWS[1]],
        [{"text": "a", "ids": [1, 2], "more": None}, ROWS[1]],
    ],
)
def test_other_data_has_another_fingerprint(other: list[Any]) -> None:
    assert fingerprint(other) != fingerprint(ROWS)


@pytest.mark.parametrize("made", [np.array, torch.tensor])
def test_arrays_and_tensors_count_by_their_values(made: Any) -> None:
    rows = [{"ids": made(row["ids"]), "text": row["text"]} for row in ROWS]
    assert fingerprint(rows) == fingerprint(ROWS)


def test_a_dataset_with_a_fingerprint_keeps_it_and_what_cannot_be_read_twice_has_none() -> None:
    class Fingerprinted:
        _fingerprint = "ab12"

    assert fingerprint(Fingerprinted()) == "datasets:ab12"
    assert fingerprint(iter(ROWS)) is None
    assert fingerprint([object()]) is None
    assert fingerprint(None) is None
