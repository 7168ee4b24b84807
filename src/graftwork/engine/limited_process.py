"""LimitedProcess: one child process that does what strangers' input asks for, stopped when it takes too much."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graftwork.engine.limited_worker import READY
from graftwork.errors import Unavailable

_START_S = 60.0


@dataclass(frozen=True)
class ProcessLimits:
    """For one thing asked."""

    time_s: float = 2.0
    memory_bytes: int = 256 << 20

    def __str__(self) -> str:
        return f"{self.time_s:g} s or {self.memory_bytes >> 20} MiB"


class LimitedProcess:
    """Runs `python -m MODULE`, which serves by `limited_worker.serve`; one thread owns it, and any may end it.

    Args:
        purpose: what it does, in words, for the error when it does not start.
    """

    def __init__(self, module: str, purpose: str, limits: ProcessLimits) -> None:
        self._module, self._purpose, self.limits = module, purpose, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def ask(self, question: Mapping[str, Any], max_bytes: int) -> dict[str, Any] | None:
        """Its answer of at most `max_bytes`; None where it broke a limit and is no more. Starts it if need be.

        Raises:
            Unavailable: it does not start.
        """
        if self._ended:
            return None
        process = self._process
        if process is not None and process.poll() is not None:
            self.kill()  # it died since its last answer, which is not this caller's doing
            process = None
        process = self._process = process or self._start()
        if self._ended:  # meanwhile
            self.kill()
            return None
        line = self._exchange(process, json.dumps(question).encode() + b"\n", max_bytes)
        if line is None:
            self.kill()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """As `kill`, and whatever is asked from now on is not answered."""
        self._ended = True
        self.kill()

    def kill(self) -> None:
        """End the process and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None and process.stdout is not None, "both are pipes"
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what it did not read is lost with it
                    pipe.close()

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes, limit: int) -> bytes | None:
        """The process's answer, or None when it did not come in time."""
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        watch = threading.Timer(self.limits.time_s, process.kill)
        watch.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline(limit)
        except (OSError, ValueError):  # it is dead, or was ended from another thread, which closes its pipes
            return None
        finally:
            watch.cancel()
        return answer if answer.endswith(b"\n") else None

    def _start(self) -> subprocess.Popen[bytes]:
        """A process with this one's modules to import, and nothing else of it: no environment, no working folder."""
        paths = [str(Path(path).absolute()) for path in sys.path if path]
        kept = {name: os.environ[name] for name in ("TZ", "LD_LIBRARY_PATH") if name in os.environ}
        limits = str(self.limits.memory_bytes), str(self.limits.time_s)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-B", "-m", self._module, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(paths), **kept},
            )
        except OSError as error:
            raise Unavailable(f"The process that {self._purpose} does not start: {error.strerror}.") from error
        assert process.stdout is not None, "it is a pipe"
        watch = threading.Timer(_START_S, process.kill)
        watch.start()
        ready = process.stdout.readline(len(READY)) == READY
        watch.cancel()
        if not ready:
            self._process = process
            self.kill()
            raise Unavailable(f"The process that {self._purpose} does not start.")
        return process
