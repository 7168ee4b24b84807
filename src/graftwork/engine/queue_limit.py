"""QueueLimit: how many requests may wait, in all and of one tenant, and when who is sent away should come back."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping

from graftwork.engine.request import Caller
from graftwork.errors import TooManyRequests, Unavailable

#: Longest time that is named to come back after, in seconds.
MOST_RETRY_S = 60
_LOOKED_AT = 64  # requests whose end tells how fast the queue gets shorter


class QueueLimit:
    """Counts requests by tenant from when they come to when they end; safe to use from any thread.

    A tenant alone may fill all `max_waiting` places. Beside others its share is its weight's part of them: what waits
    beyond it may stay, but no more of it is taken in, and others get their shares all the same. So there may be more
    waiting than `max_waiting` while shares shrink, but never more than twice as many.
    """

    def __init__(self, max_waiting: int, clock: Callable[[], float]) -> None:
        self._max_waiting, self._clock = max_waiting, clock
        self._here: Counter[str] = Counter()
        self._weights: dict[str, float] = {}
        self._ends: deque[float] = deque(maxlen=_LOOKED_AT)  # while others waited
        self._lock = threading.Lock()

    def enter(self, caller: Caller, running: Callable[[], Mapping[str, int]], num_running: int) -> None:
        """Count a request of `caller`, if it may wait beside `running` rows by tenant, which are asked for if need be.

        Raises:
            TooManyRequests: its tenant has its share of the queue already; others go on.
            Unavailable: the whole queue is full.
        """
        with self._lock:
            waiting = self._here.total() - num_running
            if waiting >= self._max_waiting:
                self._check(caller, waiting, running())
            self._here[caller.tenant] += 1
            self._weights[caller.tenant] = caller.weight

    def leave(self, caller: Caller, num_running: int) -> None:
        """A request has ended, in whatever way."""
        with self._lock:
            if self._here.total() > num_running:
                self._ends.append(self._clock())
            else:
                self._ends.clear()
            self._here[caller.tenant] -= 1
            if not self._here[caller.tenant]:
                del self._here[caller.tenant], self._weights[caller.tenant]

    def _check(self, caller: Caller, waiting: int, running: Mapping[str, int]) -> None:
        theirs = {one: count - running.get(one, 0) for one, count in self._here.items()}
        weights = {one: self._weights[one] for one, count in theirs.items() if count > 0} | {
            caller.tenant: caller.weight
        }
        part = caller.weight / sum(weights.values())
        own = theirs.get(caller.tenant, 0)
        over = own + 1 - part * self._max_waiting
        if waiting >= 2 * self._max_waiting or (over > 0 and len(weights) == 1):
            raise Unavailable(
                f"{waiting} requests are waiting already; try again later.",
                retry_after_s=self._seconds_for(waiting + 1 - self._max_waiting),
            )
        if over > 0:
            raise TooManyRequests(
                f"{own} of your requests are waiting already, your share of the queue beside "
                f"{len(weights) - 1} others; try again later.",
                retry_after_s=self._seconds_for(over / part),
            )

    def _seconds_for(self, requests: float) -> int:
        """How long it takes until so many requests have ended, as fast as the last ones did."""
        if len(self._ends) < 2:
            return 1
        each_s = (self._clock() - self._ends[0]) / (len(self._ends) - 1)
        return min(MOST_RETRY_S, max(1, math.ceil(requests * each_s)))
