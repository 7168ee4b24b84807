"""HttpTarget: a server process of a peer that speaks the OpenAI completions protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from load import Answered, Ask, Load, Measured, OverHttp, drive
from peers.environment import tail

#: A compiling server takes a minute and a half on a quiet machine.
_START_TIMEOUT_S = 600.0
_STOP_TIMEOUT_S = 20.0
#: One answer, waiting for its turn included; then it counts as an error.
_ANSWER_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class HttpTarget:
    """A server at `url`; `fields` are what a request needs to reach a model by name, beside the usual ones."""

    pid: int
    url: str
    fields: Callable[[str], Mapping[str, Any]]

    def measure(self, load: Load, names: Sequence[str], seed: int) -> Measured:
        door = OverHttp(self.url, body=self._body)

        async def within_time(ask: Ask) -> Answered:
            return await asyncio.wait_for(door(ask), _ANSWER_TIMEOUT_S)

        return asyncio.run(drive(within_time, load, names, seed))

    def greedy(self, name: str, prompt: Sequence[int], count: int) -> str:
        body = self._body(Ask(name, tuple(prompt), count)) | {"stream": False}
        del body["stream_options"]
        answer = httpx.post(f"{self.url}/v1/completions", json=body, timeout=_ANSWER_TIMEOUT_S)
        if answer.is_error:
            raise RuntimeError(f"{name}: HTTP {answer.status_code}: {answer.text[:300]}")
        return str(answer.json()["choices"][0]["text"])

    def _body(self, ask: Ask) -> dict[str, Any]:
        return ask.body() | dict(self.fields(ask.model))


@contextmanager
def server_process(command: Sequence[str | Path], url: str, log: Path, variables: Mapping[str, str]) -> Iterator[int]:
    """The id of a process that answers `url`/health with 200 once it is ready; stopped at the end.

    Raises:
        RuntimeError: it ended or was not ready in time, with the end of its log.
    """
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=dict(variables), start_new_session=True)
    try:
        _wait_until_healthy(process, url, log)
        yield process.pid
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):  # nothing of its session is left
        os.killpg(process.pid, signal.SIGKILL)  # vLLM's engine is a process of its own and can outlive its server
    process.wait()


def free_port() -> int:
    """A loopback port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx.HTTPError):  # not listening yet
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.5)
    state = "was not ready in time" if process.poll() is None else f"ended with exit code {process.returncode}"
    raise RuntimeError(f"The server at {url} {state}. The end of {log}:\n{tail(log)}")
