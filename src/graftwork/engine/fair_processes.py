"""FairProcesses: a few processes with limits for strangers' input, of which no tenant ever has all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from graftwork.engine.fair_workers import FairWorkers, Job
from graftwork.engine.limited_process import LimitedProcess, ProcessLimits
from graftwork.engine.shared_future import result_of
from graftwork.errors import SHUTTING_DOWN, Unavailable

#: What a thread does beside: start its process, in seconds.
_BESIDE_S = 1.0

Answer = dict[str, Any] | None


class FairProcesses:
    """Owns the processes, each with a thread that keeps it, and who waits for one, as `FairWorkers` says.

    Args:
        module: what they run, as `LimitedProcess` has it.
        purpose: what they do, in words, for the error when one does not start.
        most_waiting: questions that may wait for one tenant.
        what: what is asked, in the plural.
    """

    def __init__(
        self, module: str, purpose: str, limits: ProcessLimits, *, threads: int, most_waiting: int, what: str
    ) -> None:
        self.limits = limits
        self._module, self._purpose = module, purpose
        self._workers = FairWorkers[Answer](threads, most_waiting, limits.time_s + _BESIDE_S, what)
        self._own = threading.local()
        self._lock = threading.Lock()
        self._processes: list[LimitedProcess] = []
        self._closed = False

    async def ask(self, tenant: str, question: Mapping[str, Any], max_bytes: int) -> Answer:
        """The answer of at most `max_bytes` to a tenant's question, in its turn; None where it broke a limit.

        Raises:
            TooManyRequests: as many of the tenant wait as may.
            Unavailable: a process does not start, or all are closed.
        """
        job = Job(lambda: self._ask(question, max_bytes))
        self._workers.join(tenant, job)
        try:
            return await result_of(job.future)
        finally:
            self._workers.leave(tenant, job)

    def close(self) -> None:
        """Take no more questions, end what is being done, and wait for the threads; whoever waits is told."""
        with self._lock:
            self._closed = True
        for process in self._processes:
            process.end()
        self._workers.close()

    def _ask(self, question: Mapping[str, Any], max_bytes: int) -> Answer:
        answer = self._process().ask(question, max_bytes)
        if self._closed:
            raise Unavailable(SHUTTING_DOWN)
        return answer

    def _process(self) -> LimitedProcess:
        """The one that this thread keeps."""
        process: LimitedProcess | None = getattr(self._own, "process", None)
        if process is None:
            process = LimitedProcess(self._module, self._purpose, self.limits)
            self._own.process = process
            with self._lock:
                self._processes.append(process)
                if self._closed:
                    process.end()
        return process
