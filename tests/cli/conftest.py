"""A command line on a home of its own, whose base is prepared but has no weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graftwork.adapters.outline import Outline
from graftwork.cli import main
from graftwork.models.base import FINGERPRINT_NAME, fingerprint, place_of
from graftwork.settings import Settings
from graftwork.testing import fake_outline
from support.databases import NewHome


@dataclass(frozen=True)
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Cli = Callable[..., Ran]


@pytest.fixture
def outline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_home: NewHome) -> Outline:
    """The base that this test's command line finds prepared."""
    base = tmp_path / "fake-base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    (base / "model.safetensors").write_bytes(b"")
    for name, value in (("HOME", new_home(tmp_path / "home")), ("BASE", base), ("BASE_NAME", "fake-base")):
        monkeypatch.setenv(f"GRAFTWORK_{name}", str(value))
    monkeypatch.delenv("GRAFTWORK_URL", raising=False)
    place = place_of(Settings())
    place.entry.mkdir(parents=True)
    made = fake_outline()
    made.save(place.entry)
    (place.entry / FINGERPRINT_NAME).write_text(json.dumps(fingerprint(base)))
    return made


@pytest.fixture
def cli(outline: Outline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `graftwork …` in this process."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["graftwork", *arguments])
        code: int | str | None = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ran(int(code or 0), out, err)

    return run
