"""Load: requests from several threads to all servers of one database, until a test has seen enough."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any

import httpx
from fastapi import FastAPI

from support.on_socket import on_socket
from support.served import CHAT, HELLO
from support.waiting import eventually

#: Done with each answer, by the thread that got it.
Then = Callable[[httpx.Client, httpx.Response], None]


@contextmanager
def listening(*apps: FastAPI) -> Iterator[list[str]]:
    """The URLs of apps behind sockets, each in a thread."""
    with ExitStack() as stack:
        yield [stack.enter_context(on_socket(app)) for app in apps]


class Load:
    """Requests to all servers, one after the other in each of several threads, until it is told to stop.

    They are the `bodies` in turn, of whoever has the `key`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        threads: int = 4,
        then: Then | None = None,
        model: str = "support",
        *,
        bodies: Sequence[Mapping[str, Any]] = (),
        key: str | None = None,
    ) -> None:
        self.answers: list[httpx.Response] = []
        self._then, self._bodies = then, cycle(bodies or [{"model": model, "messages": HELLO}])
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(urls[one % len(urls)],)) for one in range(threads)]

    def _ask(self, url: str) -> None:
        with httpx.Client(base_url=url, headers=self._headers, timeout=60) as http:
            while not self._stop.is_set():
                answer = http.post(CHAT, json=next(self._bodies))
                self.answers.append(answer)
                if self._then is not None:
                    self._then(http, answer)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int, timeout_s: float = 30.0) -> int:
        """Return when so many more are answered; how many there were before."""
        before = len(self.answers)
        eventually(lambda: len(self.answers) >= before + count, timeout_s)
        return before

    def since(self, count: int) -> Counter[str]:
        return Counter(answer.json()["model"] for answer in self.answers[count:])
