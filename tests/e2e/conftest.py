"""One real server process on a tiny base for all end-to-end tests, with three adapters pushed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from graftwork.adapters.outline import Outline
from graftwork.client import Client
from graftwork.models.base import find_base
from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.tiny import make_base

START_TIMEOUT_S = 120
ADAPTERS = {"alpha:1.0.0": 1, "beta:1.0.0": 2, "gamma:2.0.0": 3}


@dataclass(frozen=True)
class Running:
    """A server process, and what it serves."""

    url: str
    home: Path
    base: Path
    outline: Outline
    client: Client

    def environment(self) -> dict[str, str]:
        """For other `graftwork` processes on the same home."""
        return environment(self.home, self.base)

    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0)


def environment(home: Path, base: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GRAFTWORK_")}
    return {**kept, "GRAFTWORK_HOME": str(home), "GRAFTWORK_BASE": str(base), "GRAFTWORK_BASE_NAME": "tiny"}


@contextmanager
def server(home: Path, base: Path, log: Path, **settings: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a process that serves and is ready, and the process, which is gone when the block ends."""
    command = [sys.executable, "-m", "graftwork.cli", "serve", "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=out, env=environment(home, base) | settings, text=True
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), log.read_text()
        with Client(url) as client:
            _wait_until_ready(client, process, log)
        yield url, process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that is ready; it must end by itself, with 0, when told to."""
    root = tmp_path_factory.mktemp("e2e")
    base = make_base(root / "tiny")
    log = root / "server.log"
    with server(root / "home", base, log) as (url, process), Client(url) as client:
        prepared = find_base(Settings(home=root / "home", base=str(base), base_name="tiny"))
        assert prepared is not None, "the server is ready, so its base is prepared"
        for reference, seed in ADAPTERS.items():
            folder = write_lora(root / f"adapter-{seed}", prepared.outline, seed=seed, rank=4 * seed)
            client.push(folder, reference)
        yield Running(url, root / "home", base, prepared.outline, client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()


def _wait_until_ready(client: Client, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while reasons := client.ready():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, reasons
        time.sleep(0.05)


@pytest.fixture
def api(running: Running) -> Iterator[openai.OpenAI]:
    """The official client."""
    with running.openai() as client:
        yield client
