"""at_once: the same work in many threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from graftwork.errors import GraftworkError

THREADS = 32


def at_once(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """What `work(0)`, `work(1)` … return, or raise, when threads start them together."""
    start, results = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except GraftworkError as error:
            results[number] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
