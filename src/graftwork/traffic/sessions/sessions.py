"""Sessions: what conversations keep to: in memory, and written behind for other servers and for after a restart.

A request reads the database for a session that this server does not know, or whose route has changed since it was last
here; else nothing. What it did is written in batches by one thread: when the process dies, pins of the last `pause_s`
are lost, and their sessions fall to where their keys do, which is mostly the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database
from graftwork.errors import GraftworkError, Unavailable
from graftwork.traffic.sessions import rows
from graftwork.traffic.sessions.pin import Ground, Pins, Place, Turn
from graftwork.traffic.sessions.rows import Held, Key, Name, Written

log = logging.getLogger(__name__)

#: Sessions in memory, and sessions that wait to be written, at most; pins of one tenant in the database.
MOST: Final = 50_000
MOST_WAITING: Final = 20_000
MOST_OF_TENANT: Final = 100_000
BATCH: Final = 500
PAUSE_S: Final = 0.2
#: Pause after a read or a write that failed, in seconds.
RETRY_S: Final = 1.0
#: Longest that a request waits to be told what its session keeps to, in seconds; then it is decided by its key.
READ_S: Final = 1.0
#: Threads that read.
READERS: Final = 4
#: How much longer than a session is kept its rows say that it is: so they are not written anew at each turn.
_SLACK: Final = 1 / 8


@dataclass
class _Session:
    """What this server knows of one, and on what ground it knew it to be so last."""

    held: dict[Place, Held]
    grounds: dict[Place, Ground] = field(default_factory=dict)


class Sessions:
    """For use from any thread; its own starts with the first thing to write.

    Args:
        ttl_s: how long a session is kept that nobody comes back to, in seconds; 0: none is kept.
        most_of_tenant: pins of one tenant beyond these go, those first that nobody came back to for longest.
    """

    def __init__(
        self,
        database: Database,
        *,
        ttl_s: float,
        clock: Clock = utc_now,
        most: int = MOST,
        most_of_tenant: int = MOST_OF_TENANT,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._database, self._clock, self._pause_s = database, clock, pause_s
        self._ttl, self._most, self._most_of_tenant = timedelta(seconds=ttl_s), most, most_of_tenant
        self._memory: OrderedDict[Name, _Session] = OrderedDict()
        self._waiting: OrderedDict[Name, dict[Place, Written]] = OrderedDict()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._writing: dict[Name, dict[Place, Written]] = {}
        self._urgent = self._closed = False
        self._unreadable_until = 0.0
        self._readers = ThreadPoolExecutor(READERS, "graftwork-sessions-read")
        self._stuck = 0  # threads of these whose read nobody waits for any more

    @property
    def keeps(self) -> bool:
        """Whether sessions are kept at all."""
        return bool(self._ttl)

    def known(self, name: Name) -> Pins | None:
        """What a session keeps to as far as this server knows; None where it has to `read`."""
        now = timestamp(self._clock())
        with self._change:
            found = self._memory.get(name)
            if found is None:
                return None
            if any(one.expires_at <= now for one in found.held.values()):  # another server may know better
                del self._memory[name]
                return None
            self._memory.move_to_end(name)
            return {place: one.pin for place, one in found.held.items()}

    def read(self, name: Name) -> Pins | None:
        """The same from the database; None where that cannot be read now, and for a moment after it."""
        if time.monotonic() < self._unreadable_until:
            return None
        with self._change:
            ahead = self._ahead(name)  # what is written in between is in these, or in the rows, or in both
        try:
            with self._database.reading() as tx:
                found = rows.pins_of(tx, *name, now=timestamp(self._clock()))
        except GraftworkError as error:
            self._unreadable_until = time.monotonic() + RETRY_S
            log.warning("What sessions keep to cannot be read: %s", error.message)
            return None
        with self._change:
            for place, held in [*ahead, *self._ahead(name)]:
                if place not in found or held.pin.number >= found[place].pin.number:
                    found[place] = held
            self._remember(name, _Session(found))
        return {place: one.pin for place, one in found.items()}

    async def look(self, name: Name) -> Pins | None:
        """`read`, in one of a few threads that do nothing else; None too where that takes longer than `READ_S`.

        So a database that hangs holds up no other work, and only those requests that come in the first moment.
        """
        if self._closed or self._stuck >= READERS or time.monotonic() < self._unreadable_until:
            return None
        reading = self._readers.submit(self.read, name)
        try:
            async with asyncio.timeout(READ_S):
                return await asyncio.wrap_future(reading)
        except TimeoutError:
            self._unreadable_until = time.monotonic() + RETRY_S
            if not reading.cancel():  # it has begun
                with self._change:
                    self._stuck += 1
                reading.add_done_callback(self._freed)
            return None

    def agrees(self, name: Name, turn: Turn) -> bool:
        """Whether nothing has changed at a turn's place since this server last looked what others did there."""
        with self._change:
            found = self._memory.get(name)
            return found is not None and found.grounds.get(turn.place) == turn.ground

    def take(self, name: Name, turn: Turn, user_id: str | None) -> None:
        """Keep what a turn came to; never waits."""
        now = self._clock()
        with self._change:
            found = self._memory.get(name) or self._remember(name, _Session({}))
            known = found.held.get(turn.place)
            if known is not None and known.pin != turn.pin and known.pin.number >= turn.pin.number:
                return  # another request of the session came first
            found.grounds[turn.place] = turn.ground
            if known is None or known.pin != turn.pin or known.expires_at < timestamp(now + self._ttl):
                held = Held(turn.pin, timestamp(now + self._ttl * (1 + _SLACK)))
                found.held[turn.place] = held
                self._put(name, turn.place, Written(held, user_id))

    def forget(self, tenant: str, user: str) -> None:
        """Know nothing more of a tenant's sessions than the database does, and write nothing of a user's to it."""
        with self._change:
            for name in [name for name in self._memory if name[0] == tenant]:
                del self._memory[name]
            for name, places in [one for one in self._waiting.items() if one[0][0] == tenant]:
                left = {place: written for place, written in places.items() if written.user_id != user}
                if left:
                    self._waiting[name] = left
                else:
                    del self._waiting[name]
            self._change.notify_all()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Whether everything that was taken before is written."""
        with self._change:
            self._urgent = True
            self._change.notify_all()
            return self._change.wait_for(lambda: not self._waiting and not self._writing, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, as far as time allows; what is left is lost."""
        with self._change:
            self._closed, thread = True, self._thread
            self._change.notify_all()
        self._readers.shutdown(wait=False, cancel_futures=True)
        if thread is not None:
            thread.join(timeout_s)

    def sweep(self) -> int:
        """Let go what has expired, and of each tenant what is too much, a few rows at a time; how many went."""
        with self._database.reading() as tx:
            tenants = list(rows.tenants_of(tx))
        return sum(self._sweep(tenant) for tenant in tenants)

    def check(self) -> None:
        """Assert the invariants."""
        with self._change:
            assert len(self._memory) <= self._most
            assert len(self._waiting) <= MOST_WAITING
            for name, places in self._waiting.items():
                known = self._memory.get(name)
                for place, one in places.items() if known is not None else ():
                    assert known is not None
                    assert known.held[place].pin.number >= one.held.pin.number, "what waits is what is known"

    def _sweep(self, tenant: str) -> int:
        now, gone, batch = timestamp(self._clock()), 0, BATCH
        with self._database.reading() as tx:
            until = max(now, rows.beyond(tx, tenant, self._most_of_tenant) or "")
        while batch == BATCH:
            with self._database.reading() as tx:
                keys = rows.some_until(tx, tenant, until, BATCH)
            if keys:
                with self._database.transaction() as tx:
                    rows.remove(tx, keys, until)
            batch = len(keys)
            gone += batch
        return gone

    def _ahead(self, name: Name) -> list[tuple[Place, Held]]:
        """What is known of a session that is not committed yet."""
        both = (self._writing.get(name, {}), self._waiting.get(name, {}))
        return [(place, one.held) for places in both for place, one in places.items()]

    def _remember(self, name: Name, session: _Session) -> _Session:
        self._memory[name] = session
        self._memory.move_to_end(name)
        while len(self._memory) > self._most:
            self._memory.popitem(last=False)
        return session

    def _put(self, name: Name, place: Place, written: Written) -> None:
        if self._closed or (name not in self._waiting and len(self._waiting) >= MOST_WAITING):
            return  # it is kept here, and nowhere else
        self._waiting.setdefault(name, {})[place] = written
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="graftwork-sessions", daemon=True)
            self._thread.start()
        self._change.notify_all()

    def _serve(self) -> None:
        while batch := self._next():
            self._written(self._write(batch))

    def _write(self, batch: dict[Name, dict[Place, Written]]) -> dict[Key, Held]:
        """What others had moved before. What is refused together is written session by session, so that only those are
        lost that are refused."""
        lost: dict[Key, Held] = {}
        parts = [batch]
        while parts:
            part = parts.pop()
            told = {(*name, *place): one for name, places in part.items() for place, one in places.items()}
            try:
                with self._database.transaction() as tx:
                    lost |= rows.write(tx, told, now=timestamp(self._clock()))
            except Unavailable as error:
                log.warning("What sessions keep to cannot be written, and is tried again: %s", error.message)
                self._wait_again({name: places for one in [part, *parts] for name, places in one.items()})
                break
            except Exception:
                if len(part) > 1:
                    parts = [{name: places} for name, places in part.items()]
                else:
                    log.exception("What a session keeps to could not be written.")
        return lost

    def _next(self) -> dict[Name, dict[Place, Written]]:
        """The next batch, when its time has come; none when all is written and nothing more comes."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            self._change.wait_for(lambda: self._urgent or self._closed, timeout=self._pause_s)
            batch = dict(self._waiting.popitem(last=False) for _ in range(min(BATCH, len(self._waiting))))
            self._writing = batch
            return batch

    def _wait_again(self, batch: dict[Name, dict[Place, Written]]) -> None:
        with self._change:
            if not self._closed:
                newer = {name: {**batch.get(name, {}), **places} for name, places in self._waiting.items()}
                self._waiting = OrderedDict({**batch, **newer})
                self._change.wait_for(lambda: self._closed, timeout=RETRY_S)

    def _freed(self, _read: Future[Pins | None]) -> None:
        with self._change:
            self._stuck -= 1

    def _written(self, lost: dict[Key, Held]) -> None:
        """What others had moved before is what their sessions keep to here too."""
        with self._change:
            for (tenant, session, route, rule), held in lost.items():
                known = self._memory.get((tenant, session))
                if known is not None:
                    known.held[route, rule] = held
                    known.grounds.pop((route, rule), None)
            self._writing = {}
            self._urgent = self._urgent and bool(self._waiting)
            self._change.notify_all()
