"""FairWorkers: a few threads for jobs that cannot be interrupted, of which no tenant ever has all."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from graftwork.errors import SHUTTING_DOWN, TooManyRequests, Unavailable

T = TypeVar("T")


def longest_wait_s(tenants: int, threads: int, job_s: float) -> float:
    """Longest time until a tenant that waits, and has no job under way, has a thread, beside so many that wait too.

    One of the jobs under way may have just begun, and each tenant that waited before it has one turn first.
    """
    return (1 + math.floor(tenants / threads)) * job_s


@dataclass(eq=False)
class Job(Generic[T]):
    """Something to do once, for all tenants that wait for it."""

    call: Callable[[], T]
    future: Future[T] = field(default_factory=Future)
    #: How many of each tenant wait for it.
    waiting: Counter[str] = field(default_factory=Counter)


class FairWorkers(Generic[T]):
    """Owns the threads and who waits for one.

    The next job is of the waiting tenant with the fewest under way, of equals the one whose last turn, or arrival, is
    the longest ago; inside a tenant, the first that came. A job that several tenants wait for begins at whoever's turn
    is first, and counts as that tenant's. A tenant has half of the threads at most, whoever else waits: what has begun
    cannot be taken back when somebody comes.

    Args:
        most_waiting: jobs that may wait for one tenant.
        job_s: the longest that one takes, in seconds, as who is sent away is told.
        what: their name, in the plural.
    """

    def __init__(self, threads: int, most_waiting: int, job_s: float, what: str) -> None:
        self._threads, self._most_waiting, self._job_s, self._what = threads, most_waiting, job_s, what
        self._lock = threading.Lock()
        self._queues: dict[str, OrderedDict[Job[T], None]] = {}  # of tenants for whom something waits
        self._turns: dict[str, int] = {}  # when each of them came, or last had its turn
        self._under_way: Counter[str] = Counter()
        self._now = count()
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"graftwork-{what}")

    def join(self, tenant: str, job: Job[T]) -> None:
        """One more of a tenant waits for a job, which is done in its turn if it was not begun yet.

        Raises:
            TooManyRequests: as many jobs of the tenant wait as may. Unavailable: the workers are closed.
        """
        with self._lock:
            if self._closed:
                raise Unavailable(SHUTTING_DOWN)
            if not job.waiting[tenant] and not _begun(job):
                self._line_up(tenant, job)
            job.waiting[tenant] += 1
            self._begin()

    def leave(self, tenant: str, job: Job[T]) -> bool:
        """One of them waits no longer; whether nobody does, and the job is not begun, which it never will be then."""
        with self._lock:
            job.waiting[tenant] -= 1
            if not job.waiting[tenant]:
                del job.waiting[tenant]
                self._step_out(tenant, job)
            return not job.waiting and job.future.cancel()

    def close(self) -> None:
        """Tell whoever waits for what is not begun, and wait for what is."""
        with self._lock:
            self._closed = True
            left = {job for queue in self._queues.values() for job in queue}
            self._queues.clear()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Unavailable(SHUTTING_DOWN))
        self._pool.shutdown(wait=True)

    def _line_up(self, tenant: str, job: Job[T]) -> None:
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = OrderedDict()
            self._turns[tenant] = next(self._now)
        elif len(queue) >= self._most_waiting:
            raise TooManyRequests(
                f"{len(queue)} {self._what} of your requests wait already, and no more may; try again later.",
                retry_after_s=math.ceil(self._job_s),
            )
        queue[job] = None

    def _step_out(self, tenant: str, job: Job[T]) -> None:
        if (queue := self._queues.get(tenant)) is not None:
            queue.pop(job, None)
            if not queue:
                del self._queues[tenant], self._turns[tenant]

    def _begin(self) -> None:
        """Give free threads to whoever's turn it is."""
        while not self._closed and self._under_way.total() < self._threads:
            most = max(1, self._threads // 2)
            ready = [tenant for tenant in self._queues if self._under_way[tenant] < most]
            if not ready:
                return
            tenant = min(ready, key=lambda one: (self._under_way[one], self._turns[one]))
            job = next(iter(self._queues[tenant]))
            self._turns[tenant] = next(self._now)
            for one in job.waiting:
                self._step_out(one, job)
            job.future.set_running_or_notify_cancel()
            self._under_way[tenant] += 1
            self._pool.submit(self._do, tenant, job)

    def _do(self, tenant: str, job: Job[T]) -> None:
        try:
            job.future.set_result(job.call())
        except BaseException as error:  # whatever it is, it is told to whoever waits
            job.future.set_exception(error)
        with self._lock:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]
            self._begin()


def _begun(job: Job[T]) -> bool:
    return job.future.running() or job.future.done()
