"""The verbs that move versions: pull, export, import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.adapters.outline import Outline
from graftwork.cli.moving import PackageFormat
from graftwork.client.formats import FORMATS
from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.keys import KEYS

if TYPE_CHECKING:
    from cli.conftest import Cli


def test_out_and_into_another_home(cli: Cli, outline: Outline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, package, key = write_lora(tmp_path / "adapter", outline), tmp_path / "alpha.tar", tmp_path / "key"
    digest = cli("push", str(folder), "alpha:1.2.0", "-o", "json").json()["digest"]
    assert cli("pull", "alpha", str(tmp_path / "pulled")).out.startswith("version  alpha:1.2.0")
    assert (tmp_path / "pulled" / "adapter_config.json").read_bytes() == (folder / "adapter_config.json").read_bytes()
    key.write_bytes(KEYS["ed25519"].private)
    assert cli("sign", "alpha", "--key", str(key)).code == 0
    assert f"written  {package}" in cli("export", "alpha", str(package)).out
    assert "there already" in cli("export", "alpha", str(package)).err
    monkeypatch.setenv("GRAFTWORK_CACHE_DIR", str(Settings().cache))  # where the base is prepared
    monkeypatch.setenv("GRAFTWORK_HOME", str(tmp_path / "other"))
    key.write_bytes(KEYS["p256"].public)
    refused = cli("import", str(package), "--key", str(key))
    assert refused.code == 1 and "no valid signature" in refused.err, refused.err
    key.write_bytes(KEYS["ed25519"].public)
    made = cli("import", str(package), "--key", str(key), "-o", "json").json()
    assert (made["digest"], made["created"], made["added"]["signatures"]) == (digest, True, 1)
    again = cli("import", str(package))
    assert "registered before" in again.err and "0 documents, 0 signatures" in again.out
    assert "imported_from" in json.dumps(cli("show", "alpha", "-o", "json").json()["metadata"])


def test_what_cannot_be_read_is_one_message(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").write_text("words")
    for source in (tmp_path / "none", tmp_path / "empty", tmp_path / "words", tmp_path):
        ran = cli("import", str(source), "alpha")
        assert ran.code == 1 and len(ran.err.splitlines()) == 1, ran.err
    assert cli("export", "none", str(tmp_path / "out")).code == 1
    assert not (tmp_path / "out").exists()
    assert cli("export", "none", str(tmp_path / "out"), "--format", "zip").code == 2


def test_every_format_can_be_asked_for() -> None:
    assert {one.value for one in PackageFormat} == set(FORMATS)
