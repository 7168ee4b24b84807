"""WarmUp: while the engine has nothing to do, popular adapters go back from their forms on disk to memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.adapter_loader import AdapterLoader
from graftwork.engine.background import run_in_background
from graftwork.engine.form_store import FormStore
from graftwork.engine.load_failures import LoadFailures
from graftwork.engine.popularity import Asked, Popularity
from graftwork.engine.request import AdapterHandle
from graftwork.engine.residents import InMemory

#: The engine has had nothing to do for so long before something is brought in, in seconds.
IDLE_S = 0.5
#: How often it is looked whether there is something to bring in, and how often counts are written, in seconds.
_LOOK_S, _SAVE_S = 0.25, 60.0
#: A version that counts for fewer requests than this is not worth bringing.
LEAST_HEAT = 0.5
#: What is brought in is at least so many times as popular as what has to leave for it.
MARGIN = 2.0
#: A version that was brought in is not brought in once more for so long, in seconds.
VAIN_S = 60.0
#: Of those that are not in memory, so many of the most popular are looked at.
MOST_LOOKED_AT = 256


@dataclass(frozen=True)
class Candidate:
    """A version that was asked for and is not in memory; its bytes there."""

    asked: Asked
    bytes: int


@dataclass(frozen=True)
class Plan:
    """What to bring in, and which idle versions may leave for it."""

    handle: AdapterHandle
    instead_of: tuple[str, ...] = ()


def plan(
    candidates: Iterator[Candidate], heat: Mapping[str, float], resident: Mapping[str, InMemory], free_bytes: int
) -> Plan | None:
    """The most popular candidate that fits into free memory, or into that of idle versions which are clearly colder.

    `candidates` come with the most popular first. None where memory holds what it should.
    """
    idle = sorted((heat.get(digest, 0.0), digest) for digest, one in resident.items() if not one.pins and not one.kept)
    for candidate in candidates:
        room, leave = free_bytes, list[str]()
        for cold, digest in idle:
            if room >= candidate.bytes or cold * MARGIN > candidate.asked.heat:
                break
            room += resident[digest].bytes
            leave.append(digest)
        if room >= candidate.bytes:
            return Plan(candidate.asked.handle, tuple(leave))
    return None


class WarmUp:
    """Owns the thread that does it; one load at a time, and none while `busy` says that there are rows."""

    def __init__(
        self, popularity: Popularity, cache: AdapterCache, loader: AdapterLoader, store: FormStore,
        failures: LoadFailures, busy: Callable[[], bool], wanted: Callable[[str, str], bool],
    ) -> None:  # fmt: skip
        self._popularity, self._cache, self._loader = popularity, cache, loader
        self._store, self._failures, self._busy, self._wanted = store, failures, busy, wanted
        self._nothing_to_do: tuple[int, int, int] | None = None  # what there was when last there was nothing to bring
        self._vain: dict[str, float] = {}  # digest → until when it is not tried again
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="graftwork-warm-up", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        run_in_background()
        idle_since = saved = time.monotonic()
        while not self._stop.wait(_LOOK_S):
            now = time.monotonic()
            if self._busy() or self._loader.loading:
                idle_since = now
            elif now - idle_since >= IDLE_S:
                while not self._busy() and not self._stop.is_set() and self.bring_one():
                    self._wait_for_load()
            if now - saved >= _SAVE_S:
                self._popularity.save()
                saved = now

    def bring_one(self) -> bool:
        """Start the load that is worth most now; False where none is."""
        seen = (self._popularity.num_noted, self._cache.num_evictions, self._cache.num_let_go)
        if seen == self._nothing_to_do:
            return False
        ranked = self._popularity.ranked()
        resident = self._cache.in_memory()
        free = self._cache.capacity_bytes - self._cache.used_bytes
        heat = {one.handle.digest: one.heat for one in ranked}
        found = plan(self._candidates(ranked, resident), heat, resident, free)
        if found is None:
            self._nothing_to_do = seen
            return False
        self._vain[found.handle.digest] = time.monotonic() + VAIN_S  # whatever becomes of it: no load is repeated soon
        self._loader.start(found.handle, "warm-up", instead_of=found.instead_of)
        return True

    def _candidates(self, ranked: Sequence[Asked], resident: Mapping[str, InMemory]) -> Iterator[Candidate]:
        now = time.monotonic()
        self._vain = {digest: until for digest, until in self._vain.items() if until > now}
        hot = (one for one in ranked if one.heat >= LEAST_HEAT and one.handle.digest not in resident)
        for one in islice(hot, MOST_LOOKED_AT):
            digest = one.handle.digest
            if digest in self._vain or self._failures.of(digest) is not None:
                continue
            if not self._wanted(one.handle.tenant, digest):
                continue
            if (kept := self._store.find(one.handle.tenant, digest)) is not None:
                yield Candidate(one, kept.bytes)

    def _wait_for_load(self) -> None:
        while self._loader.loading and not self._stop.wait(_LOOK_S / 10):
            pass
