"""The wheel: what is in it, and that it serves from an empty folder in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from graftwork import __version__
from support.tiny import make_base

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the build tools that are installed; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)], cwd=ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `graftwork` of an environment that has the wheel, and sees this one's packages but not this checkout."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q", str(wheel)])
    # A path that a .pth file adds comes after the environment's own packages, and its .pth files are not read:
    # so the wheel wins, and an editable install of this checkout is not seen.
    (site / "packages-of-the-tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = run([str(python), "-c", "import graftwork; print(graftwork.__file__)"], cwd=folder).stdout
    assert Path(where.strip()).is_relative_to(folder), where
    return folder / "bin" / "graftwork"


def run(
    command: list[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    package = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    sources = [
        file for file in (ROOT / "src" / "graftwork").rglob("*") if file.is_file() and "__pycache__" not in file.parts
    ]
    assert package == {file.relative_to(ROOT / "src").as_posix() for file in sources}
    assert {"graftwork/py.typed", "graftwork/db/migrations/script.py.mako"} <= package
    assert any(name.startswith("graftwork/db/migrations/versions/r0001") for name in package)
    assert [name for name in names if "test" in name and name != "graftwork/testing.py"] == []
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_it_says_its_version_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    assert run([str(installed), "--version"], cwd=tmp_path).stdout == f"graftwork {__version__}\n"


def test_it_serves_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    base = make_base(tmp_path / "tiny")
    empty = tmp_path / "empty"
    empty.mkdir()
    with serving(installed, empty, tmp_path / "home", base) as url:
        client = httpx.Client(base_url=url, timeout=START_TIMEOUT_S)
        with client:
            body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
            answer = client.post("/v1/chat/completions", json=body | {"ignore_eos": True})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["model"], answer.json()["usage"]["completion_tokens"]) == ("tiny", 4)
    assert list(empty.iterdir()) == []


@contextmanager
def serving(command: Path, folder: Path, home: Path, base: Path) -> Iterator[str]:
    """The URL of a server that is ready."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GRAFTWORK_", "PYTHON"))}
    environment |= {"GRAFTWORK_HOME": str(home)}
    with (home.parent / "server.log").open("w") as log:
        process = subprocess.Popen(
            [str(command), "serve", "--port", "0", "--base", str(base)],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None, "opened as a pipe"
        url = process.stdout.readline().strip()
        assert url, (home.parent / "server.log").read_text()
        transport = httpx.HTTPTransport(retries=3)
        with httpx.Client(base_url=url, transport=transport) as client:
            wait_until_ready(client, process)
        yield url
        process.terminate()
        assert process.wait(30) == 0, (home.parent / "server.log").read_text()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[str]) -> None:
    import time

    deadline = time.monotonic() + START_TIMEOUT_S
    while (answer := client.get("/ready")).status_code != 200:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)
