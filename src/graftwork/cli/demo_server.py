"""running_server: `graftwork serve` in a process of its own, on a free loopback port, stopped at the end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graftwork.errors import Unavailable

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_LOG_LINES = 15


@dataclass(frozen=True)
class DemoServer:
    """A server process that we started."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    def check(self) -> None:
        """Raises Unavailable, with the end of its log, when the process has ended."""
        if self.process.poll() is not None:
            raise _ended(self.process, self.log)


@contextmanager
def running_server(home: Path, cache: Path, base: str | None = None) -> Iterator[DemoServer]:
    """A server with its database and artifacts in `home` and its bases in `cache`.

    Raises:
        Unavailable: it ended, or did not say where it listens.
    """
    command = [sys.executable, "-m", "graftwork.cli", "serve", "--port", "0", "--home", str(home)]
    command += ["--base", base] if base is not None else []
    environment = {key: value for key, value in os.environ.items() if key != "GRAFTWORK_URL"}
    environment["GRAFTWORK_CACHE_DIR"] = str(cache)
    log = home / "server.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True)
    try:
        yield DemoServer(_url_of(process, log), process, log)
    finally:
        _stop(process)


def _url_of(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None, "opened as a pipe"
    ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
    url = process.stdout.readline().strip() if ready else ""
    if not url:
        raise _ended(process, log)
    return url


def _ended(process: subprocess.Popen[str], log: Path) -> Unavailable:
    state = "did not start in time" if process.poll() is None else f"ended with exit code {process.returncode}"
    last = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
    return Unavailable(f"The server {state}. The end of its log:\n{last}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
