"""TemplateProcess: one child process that renders one chat template, stopped when it takes too long."""

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

from graftwork.engine.template_worker import READY
from graftwork.errors import InvalidRequest, Unavailable

_START_S = 60.0
#: One character takes at most twelve bytes of ASCII JSON.
_BYTES_PER_CHAR = 12


@dataclass(frozen=True)
class TemplateLimits:
    """For one rendering of one template."""

    time_s: float = 2.0
    memory_bytes: int = 256 << 20


class TemplateProcess:
    """Owned by one thread; `kill` may be called from any."""

    def __init__(self, source: str, limits: TemplateLimits) -> None:
        self._source, self._limits = source, limits
        self._process: subprocess.Popen[bytes] | None = None

    def render(self, fields: Mapping[str, Any], max_chars: int) -> str:
        """The text that the template makes of `fields`; starts the process if there is none.

        Raises:
            InvalidRequest: the template refused the messages, or broke a limit; `field` is `messages`.
            Unavailable: the process does not start.
        """
        if self._process is not None and self._process.poll() is not None:
            self.kill()  # it died since its last answer, which is not this caller's doing
        process = self._process = self._process or self._start()
        asked = {"template": self._source, "fields": fields, "max_chars": max_chars}
        line = self._exchange(process, json.dumps(asked).encode() + b"\n", max_chars * _BYTES_PER_CHAR + 10_000)
        if line is None:
            self.kill()
            raise InvalidRequest(
                f"The adapter's chat template took more than {self._limits.time_s:g} s or "
                f"{self._limits.memory_bytes >> 20} MiB and was stopped.",
                field="messages",
            )
        answer = json.loads(line)
        if "text" not in answer:
            raise InvalidRequest(
                f"The adapter's chat template refused the messages: {answer['error']}", field="messages"
            )
        return str(answer["text"])

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
        watch = threading.Timer(self._limits.time_s, process.kill)
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
        command = [sys.executable, "-P", "-B", "-m", "graftwork.engine.template_worker"]
        process = subprocess.Popen(
            [*command, str(self._limits.memory_bytes), str(self._limits.time_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(paths), **kept},
        )
        assert process.stdout is not None, "it is a pipe"
        watch = threading.Timer(_START_S, process.kill)
        watch.start()
        ready = process.stdout.readline(len(READY)) == READY
        watch.cancel()
        if not ready:
            self._process = process
            self.kill()
            raise Unavailable("The process that renders chat templates of adapters does not start.")
        return process
