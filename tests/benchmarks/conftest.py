"""Runs a benchmark script, made short, on the tiny base."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.fixtures import Tiny

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:  # fmt: skip
    monkeypatch.setenv("GRAFTWORK_HOME", str(tmp_path))
    # A script that is not told how threads wait starts anew in place of its process, which here is pytest.
    monkeypatch.setenv("OMP_WAIT_POLICY", os.environ.get("OMP_WAIT_POLICY", "passive"))
    short = ["--base", tiny.settings.base, "--json"]

    def main(script: ModuleType, *options: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", [script.__name__, *short, *options])
        script.main()
        figures: dict[str, Any] = json.loads(capsys.readouterr().out)
        return figures

    return main
