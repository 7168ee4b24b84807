"""Listener: hears PostgreSQL's NOTIFY in a thread of its own, and says that something may have changed."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

log = logging.getLogger(__name__)

#: What the trigger on `events` notifies.
CHANNEL: Final = "graftwork_events"
#: At the latest after so long one looks anyway: what was lost on the way, by whatever proxy, is not lost for long.
HEARTBEAT_S = 5.0
RETRY_S = (0.1, 5.0)  # first and longest pause before another connection is tried
FAREWELL_S = 2.0  # a thread that waits for a dead network is not waited for


class Listener:
    """Calls `changed` once it listens, after each notification, after each new connection and every few seconds.

    `changed` reads the database by itself; when it raises, or the connection breaks, another one is made.

    NOTE: nothing is missed. A notification that was read from the socket before `changed` began tells of a commit
    that `changed` sees; one that comes later makes the socket readable again.
    """

    def __init__(self, connect: Callable[[], Any], changed: Callable[[], None], place: str) -> None:
        self._connect = connect
        self.changed = changed
        self._place = place
        self._wake, self._woken = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="graftwork-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until nothing is called any more. Once."""
        self._closing = True
        self._wake.send(b"x")
        self._thread.join(FAREWELL_S)
        if not self._thread.is_alive():
            self._wake.close()
            self._woken.close()

    def _run(self) -> None:
        first, longest = RETRY_S
        pause = first
        while not self._closing:
            started = time.monotonic()
            try:
                self._listen()
            except Exception as error:
                log.warning("The connection that listens to %s broke: %s", self._place, str(error).strip())
            pause = first if time.monotonic() - started > longest else min(2 * pause, longest)
            select.select([self._woken], [], [], pause)

    def _listen(self) -> None:
        connection = self._connect()
        try:
            connection.add_notify_handler(_heard)
            connection.execute(f"LISTEN {CHANNEL}")
            while not self._closing:
                self.changed()
                select.select([connection.fileno(), self._woken], [], [], HEARTBEAT_S)
                connection.execute("SELECT 1")  # reads what came, and fails when the server is gone
        finally:
            with suppress(Exception):
                connection.close()


def _heard(_notification: object) -> None:
    """That one came is all; without a handler psycopg would keep each of them."""
