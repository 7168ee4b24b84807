"""Templates: runs adapters' chat templates, each in a thread and a process of its own, so that none delays another."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.template_process import TemplateProcess
from graftwork.errors import SHUTTING_DOWN, InvalidRequest, Unavailable

#: Different templates with a living process, some 20 MB each; adapters with the same template share one. As many more
#: may live until they have done what they were asked for.
_MOST = 16

Result = TypeVar("Result")


@dataclass
class _Worker:
    process: TemplateProcess
    thread: ThreadPoolExecutor
    #: Whether it may have a living process; its own thread's.
    lives: bool = False


class Templates:
    """Owns the processes; of too many the one that was used the longest ago ends."""

    def __init__(self, limits: ProcessLimits, most: int = _MOST) -> None:
        self._limits, self._most = limits, most
        self._lock = threading.Lock()
        self._workers: OrderedDict[str, _Worker] = OrderedDict()
        self._living = threading.Semaphore(2 * most)
        self._closed = False

    def submit(self, source: str, call: Callable[[TemplateProcess], Result]) -> Future[Result]:
        """Have `call` done with the process of a template, after those asked for before.

        Raises:
            Unavailable: all are closed.
        """
        with self._lock:
            if self._closed:
                raise Unavailable(SHUTTING_DOWN)
            worker = self._workers.get(source)
            if worker is None:
                thread = ThreadPoolExecutor(1, thread_name_prefix="graftwork-template")
                worker = self._workers[source] = _Worker(TemplateProcess(source, self._limits), thread)
            self._workers.move_to_end(source)
            future = worker.thread.submit(self._do, call, worker)
            if len(self._workers) > self._most:
                _, oldest = self._workers.popitem(last=False)
                oldest.thread.submit(self._end, oldest)  # after what it still has to do
                oldest.thread.shutdown(wait=False)
        return future

    def close(self) -> None:
        """End all processes at once and wait for their threads."""
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.process.end()
            worker.thread.shutdown(wait=True)

    def _do(self, call: Callable[[TemplateProcess], Result], worker: _Worker) -> Result:
        if not worker.lives and not self._closed:
            worker.lives = self._living.acquire()  # those that were let go of end, so this does not wait for ever
        if not self._closed:
            try:
                return call(worker.process)
            except InvalidRequest:
                if not self._closed:  # else it was ended from here
                    raise
        raise Unavailable(SHUTTING_DOWN)

    def _end(self, worker: _Worker) -> None:
        worker.process.kill()
        if worker.lives:
            self._living.release()
