"""Pushes whose client or server is killed: nothing half visible, and the next try, or the same one, finishes."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from graftwork.artifacts.digest import digest_of_file
from graftwork.artifacts.packages.piece import Piece
from graftwork.client import Client
from graftwork.client.uploads import WHOLE_BYTES
from graftwork.settings import Settings
from graftwork.testing import fake_outline, write_lora
from support.databases import NewDatabase
from support.object_stores import ObjectServer
from support.served import serving
from support.waiting import eventually

pytestmark = pytest.mark.e2e

#: A server that keeps versions and serves none: it starts in a second.
SERVER = """
import sys
from pathlib import Path
import uvicorn
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline
settings = Settings(home=Path(sys.argv[1]), base="fake-base", base_name="fake-base")
uvicorn.run(build_app(settings, outline_of=fake_outline), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""

#: A client that dies with the n-th call of one function; with `here` as its URL the server is in the same process.
CLIENT = """
import os, sys
from pathlib import Path
from pkgutil import resolve_name
from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline
url, home, folder, where, count = *sys.argv[1:5], int(sys.argv[5])
owner, _, name = where.rpartition(".")
owner, calls = resolve_name(owner), []
real = getattr(owner, name)
def dying(*args, **kwargs):
    calls.append(1)
    if len(calls) == count:
        os._exit(9)
    return real(*args, **kwargs)
setattr(owner, name, dying)
settings = Settings(home=Path(home), base="fake-base", base_name="fake-base")
client = Client(url) if url != "here" else Client(app=build_app(settings, outline_of=fake_outline))
exec(sys.argv[6])
"""
PUSH = "client.push(folder, 'alpha:1.0.0')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An adapter of four files, one of them large enough to be sent in pieces."""
    made = write_lora(tmp_path / "adapter", fake_outline())
    (made / "evaluation.bin").write_bytes(random.Random(0).randbytes(WHOLE_BYTES + 3_000_000))
    (made / "README.md").write_text("# An adapter\n")
    return made


def run_client(
    url: str, home: Path, folder: Path, where: str, count: int, environment: dict[str, str], do: str = PUSH
) -> int:
    arguments = [sys.executable, "-W", "error", "-c", CLIENT, url, str(home), str(folder), where, str(count), do]
    return subprocess.run(arguments, env={**os.environ, **environment}, timeout=120).returncode


#: Before the n-th file is stored, before the large one has come and when it is stored, and before the row.
STEPS = [
    *(("graftwork.artifacts.stores.{store}.put", count) for count in (1, 2, 3, 4)),
    *(("graftwork.gateway.uploads.append", 1), ("graftwork.artifacts.uploads.Uploads.drop", 1)),
    ("graftwork.registry.versions.insert", 1),
]


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize(("where", "count"), STEPS)
def test_killed_together_at_any_step(
    tmp_path: Path, folder: Path, where: str, count: int, database_url: str, settings: Settings
) -> None:
    killed(tmp_path, folder, where.format(store="local.LocalStore"), count, database_url, settings, {})


@pytest.mark.parametrize("database_kind", ["postgresql"])
@pytest.mark.parametrize(("where", "count"), [STEPS[1], STEPS[6]])
def test_killed_together_on_postgresql_and_s3(
    tmp_path: Path,
    folder: Path,
    where: str,
    count: int,
    new_database: NewDatabase,
    settings: Settings,
    seaweedfs_server: ObjectServer,
) -> None:
    environment = {"GRAFTWORK_ARTIFACTS_URL": seaweedfs_server.url()}
    with new_database() as url:
        killed(tmp_path, folder, where.format(store="object.ObjectStore"), count, url, settings, environment)


def killed(
    tmp_path: Path,
    folder: Path,
    where: str,
    count: int,
    database_url: str,
    settings: Settings,
    environment: dict[str, str],
) -> None:
    environment = {**environment, "GRAFTWORK_DATABASE_URL": database_url}
    assert run_client("here", settings.home, folder, where, count, environment) == 9
    given = {name.removeprefix("GRAFTWORK_").lower(): value for name, value in environment.items()}
    with serving(settings.model_copy(update=given), tmp_path) as served:
        assert served.client.adapters() == []
        assert served.client.push(folder, "alpha:1.0.0")["created"]
        assert served.client.verify()["problems"] == []


class Server:
    """A server process that can be killed and started again at the same address."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url, self._home = f"http://127.0.0.1:{self.port}", home
        self.start()

    def start(self) -> None:
        arguments = [sys.executable, "-W", "error", "-c", SERVER, str(self._home), str(self.port)]
        self.process = subprocess.Popen(arguments)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def answers(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running(home: Path) -> Iterator[Server]:
    server = Server(home)
    try:
        eventually(server.answers)
        yield server
    finally:
        server.kill()


def test_a_server_that_is_killed_twice_during_an_upload_only_delays_it(
    tmp_path: Path, folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real = Piece.chunks
    with ExitStack() as stack:
        server = stack.enter_context(running(settings.home))

        def killing(piece: Piece) -> Iterator[bytes]:
            for number, chunk in enumerate(real(piece)):
                if piece.path.name == "evaluation.bin":
                    if number == 4 and len(sent) < 12:
                        server.kill()
                        threading.Thread(target=server.start).start()
                    sent.append(len(chunk))
                yield chunk

        monkeypatch.setattr(Piece, "chunks", killing)
        client = stack.enter_context(Client(server.url))
        assert client.push(folder, "alpha:1.0.0")["created"]
        assert client.verify()["problems"] == []


def test_a_client_that_is_killed_leaves_a_beginning_that_the_next_one_continues(
    tmp_path: Path, folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digest_of_file(folder / "evaluation.bin")
    door = f"/api/v1/blobs/{digest}/upload"
    with running(settings.home) as server, Client(server.url) as client:
        # The generator of the large file's bytes is asked for its sixth mebibyte.
        assert run_client(server.url, settings.home, folder, "graftwork.artifacts.packages.piece._read", 8, {}) == 9
        assert client.adapters() == []
        eventually(lambda: int(client._wire.send("HEAD", door).headers["upload-offset"]) > 0)
        offsets: list[int] = []
        real = Piece.chunks

        def noted(piece: Piece) -> Iterator[bytes]:
            offsets.append(piece.start)
            return real(piece)

        monkeypatch.setattr(Piece, "chunks", noted)
        assert client.push(folder, "alpha:1.0.0")["created"]
        assert max(offsets) > 0
        assert client.verify()["problems"] == []


def test_an_export_that_is_killed_leaves_a_beginning_that_the_next_one_continues(
    tmp_path: Path, settings: Settings
) -> None:
    package, folder = tmp_path / "alpha.tar", write_lora(tmp_path / "adapter", fake_outline())
    with serving(settings, tmp_path) as served:
        served.client.push(folder, "alpha:1.0.0")
    export = f"client.packages.export('alpha', {str(package)!r})"
    assert run_client("here", settings.home, folder, "graftwork.client.packages.download", 2, {}, export) == 9
    assert not package.exists() and len(list((tmp_path / ".alpha.tar.partial" / "blobs").iterdir())) == 1
    with serving(settings, tmp_path) as served:
        served.client.packages.export("alpha", package)
    assert not list(tmp_path.glob(".alpha*"))
