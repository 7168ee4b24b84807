"""ExplicitLoads: loads and unloads that somebody asked for by name, and who waits for them.

Rows have their own way to memory, the waiting room; both share the loader's flights.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field

from graftwork.engine.adapter_cache import AdapterCache, CalledOff, NoRoom
from graftwork.engine.adapter_loader import AdapterLoader
from graftwork.engine.event_loops import call_in
from graftwork.engine.load_failures import LoadFailures
from graftwork.engine.request import AdapterHandle
from graftwork.engine.shared_future import retrieve
from graftwork.errors import Conflict, GraftworkError

#: How often one who waits for an adapter to leave looks, in seconds.
_LOOK_S = 0.02


@dataclass(eq=False)
class _Waiter:
    """Somebody who wants a version in memory; `left` when he waits no longer, though it is still to come."""

    handle: AdapterHandle
    pin: bool
    future: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    left: bool = False

    def settle(self, error: GraftworkError | None) -> None:
        if self.left or self.future.done():  # nobody would take the error
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class ExplicitLoads:
    """Owns who waits, by digest; safe to use from several event loops."""

    def __init__(
        self, cache: AdapterCache, loader: AdapterLoader, failures: LoadFailures, load_timeout_s: float
    ) -> None:
        self._cache, self._loader, self._failures, self._timeout_s = cache, loader, failures, load_timeout_s
        self._waiters: dict[str, list[_Waiter]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Versions that somebody waits for, or wants though he waits no longer."""
        return len(self._waiters)

    async def load(self, handle: AdapterHandle, *, pin: bool, wait_s: float | None) -> bool:
        """As `AsyncEngine.load`."""
        self._failures.forget(handle.digest)
        if self._cache.keep(handle.digest) if pin else self._cache.stay(handle.digest):
            return True
        waiter = _Waiter(handle, pin)
        waiter.future.add_done_callback(retrieve)  # it may end just as its caller leaves
        with self._lock:
            self._waiters.setdefault(handle.digest, []).append(waiter)
        self._loader.start(handle, "explicit")
        try:
            await asyncio.wait_for(asyncio.shield(waiter.future), self._timeout_s if wait_s is None else wait_s)
        except TimeoutError:
            waiter.left = True
            return False
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise
        except NoRoom as error:
            if pin:
                raise Conflict(error.message) from error
            raise
        return True

    def unpin(self, digest: str) -> None:
        """As `AsyncEngine.unpin`."""
        with self._lock:
            for waiter in self._waiters.get(digest, ()):
                waiter.pin = False
            self._cache.let_go(digest)

    def unload(self, digest: str) -> None:
        """Let a version leave memory as soon as no row needs it, and call off a load that nobody waits for.

        Raises:
            Conflict: it is pinned.
        """
        with self._lock:
            if all(waiter.left for waiter in self._waiters.get(digest, ())):
                self._waiters.pop(digest, None)
                self._loader.cancel(digest, "explicit")
        self._cache.unload(digest)

    async def gone(self, digest: str, wait_s: float) -> int:
        """Wait up to `wait_s` seconds until a version has left: how many rows need it then; 0: none."""
        until = time.monotonic() + wait_s
        while (held := self._cache.leaving(digest)) and time.monotonic() < until:
            await asyncio.sleep(_LOOK_S)
        return held or 0

    def ended(self, digest: str, error: GraftworkError | None) -> None:
        """A load has ended; called in a loader thread, while the load's own pin keeps the version."""
        with self._lock:
            waiters = self._waiters.get(digest, [])
            called_off = isinstance(error, CalledOff)  # by others, before these came
            again = waiters[0].handle if waiters and called_off else None
            waiters = [] if again else self._waiters.pop(digest, [])
            if error is None and any(waiter.pin for waiter in waiters):  # locked, or an unpin could come between
                kept = self._cache.keep(digest)
                assert kept, "the load's own pin keeps it resident"
        if again is not None:
            self._loader.start(again, "explicit")
        for waiter in waiters:
            call_in(waiter.future.get_loop(), waiter.settle, error)

    def _give_up(self, waiter: _Waiter) -> None:
        waiter.left = True
        digest = waiter.handle.digest
        with self._lock:
            others = self._waiters.get(digest, [])
            if waiter in others:
                others.remove(waiter)
            if not others:
                self._waiters.pop(digest, None)
                self._loader.cancel(digest, "explicit")
