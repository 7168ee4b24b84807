"""`graftwork backup` and `restore`: a home goes into a folder or a tar file, and into another home."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path

import pytest

from cli.conftest import Cli
from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora


@pytest.fixture
def pushed(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    assert cli("push", str(write_lora(tmp_path / "a", outline)), "tone").code == 0
    return cli


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_a_home_moves_by_backup(name: str, pushed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version, head = pushed("show", "tone", "-o", "json").json(), pushed("audit", "head", "-o", "json").json()
    place = tmp_path / "backups" / name
    place.parent.mkdir()
    made = pushed("backup", str(place), "-o", "json").json()
    assert (made["events"], made["head"]) == (head["events"], head["head"])
    assert [path.name for path in place.parent.iterdir()] == [name]
    assert pushed("restore", "--check", str(place), "-o", "json").json() == made
    again = pushed("backup", str(place))
    assert again.code == 1 and "already" in again.err
    assert pushed("restore", str(place)).code == 1  # this home is not empty
    monkeypatch.setenv("GRAFTWORK_HOME", str(tmp_path / "home2"))
    assert pushed("restore", str(place), "-o", "json").json() == made
    assert pushed("show", "tone", "-o", "json").json() == version
    assert pushed("verify").code == 0 and pushed("audit", "verify", "--expected-head", head["head"]).code == 0
    assert [path.name for path in place.parent.iterdir()] == [name]


def test_a_tar_file_that_would_write_elsewhere_is_refused(cli: Cli, tmp_path: Path) -> None:
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as tar:
        tar.add(__file__, arcname="../../evil.py")
    assert cli("restore", str(evil)).code == 1
    evil.write_bytes(b"no tar")
    ran = cli("restore", str(evil))
    assert ran.code == 1 and "not a whole backup" in ran.err
    assert "not a whole backup" in cli("restore", str(tmp_path / "none")).err
    assert list(tmp_path.rglob("evil.py")) == []


def test_a_backup_is_of_a_home_and_never_of_the_server_that_is_named(
    pushed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = str(tmp_path / "backup.tar")
    ran = pushed("--url", "http://127.0.0.1:9", "backup", backup)
    assert ran.code == 2 and "leave --url out" in ran.err
    monkeypatch.setenv("GRAFTWORK_URL", "http://127.0.0.1:9")
    for verb in ("backup", "restore"):
        ran = pushed(verb, backup)
        assert ran.code == 2 and "unset GRAFTWORK_URL" in ran.err
    assert not Path(backup).exists()


@pytest.mark.parametrize(
    "verb",
    [("backup", "b.tar"), ("verify",), ("gc",), ("audit", "verify"), ("audit", "head"), ("audit", "export", "e")],
)
def test_a_home_without_a_registry_proves_nothing_and_is_not_made(
    cli: Cli, verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "elsewhere"
    monkeypatch.setenv("GRAFTWORK_HOME", str(home))
    ran = cli(*verb)
    assert ran.code == 1 and f"There is no registry in {home}" in ran.err
    assert not home.exists() and not any((tmp_path / name).exists() for name in ("b.tar", "e"))


def test_what_is_wrong_with_a_tar_file_is_told_of_that(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as tar:
        tar.add(__file__, arcname="something.py")
    ran = cli("restore", "--check", str(other))
    assert ran.code == 1 and f"{other} is not a whole backup" in ran.err


def test_what_is_sealed_stays_sealed_in_a_backup(
    cli: Cli, outline: Outline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = tmp_path / "keys"
    keyring.write_text(json.dumps({"current": "a", "keys": {"a": base64.b64encode(bytes(32)).decode()}}))
    monkeypatch.setenv("GRAFTWORK_ARTIFACTS_KEYRING", str(keyring))
    folder = write_lora(tmp_path / "a", outline)
    assert cli("push", str(folder), "tone").code == 0
    assert cli("backup", str(tmp_path / "backup")).code == 0
    plain = (folder / "adapter_config.json").read_bytes()
    blobs = [path.read_bytes() for path in (tmp_path / "backup" / "blobs").rglob("*") if path.is_file()]
    assert blobs and all(plain not in blob for blob in blobs)
    monkeypatch.setenv("GRAFTWORK_HOME", str(tmp_path / "home2"))
    assert cli("restore", str(tmp_path / "backup")).code == 0
    assert cli("verify").code == 0
