"""Residents: the books of adapter memory: which versions are there, who needs them, and who leaves next."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from graftwork.artifacts.eviction import Holding, next_to_leave
from graftwork.engine.range_pool import Range


@dataclass(frozen=True)
class InMemory:
    """One resident version: its bytes, who needs it, and when a row last took it (`time.time`)."""

    tenant: str
    label: str
    bytes: int
    pins: int
    kept: bool
    leaving: bool
    used_s: float
    uses: int


@dataclass
class Resident:
    """A version in memory, or on its way into its range."""

    tenant: str
    label: str
    slot: int
    where: Range
    used_s: float  # of `time.time`: when a row last took it
    pins: int = 1  # of rows that run and loads that have just ended
    kept: bool = False  # until somebody lets go of it
    leaving: bool = False  # as soon as nobody needs it
    uses: int = 0

    @property
    def idle(self) -> bool:
        return not self.pins and not self.kept

    @property
    def told(self) -> InMemory:
        return InMemory(
            self.tenant, self.label, len(self.where), self.pins, self.kept, self.leaving, self.used_s, self.uses
        )


class Residents:
    """Owns who is resident, and the queues of those that nobody needs; not locked, which is up to the cache."""

    def __init__(self) -> None:
        self._resident: dict[str, Resident] = {}
        self._filling: dict[str, Resident] = {}  # hold their range while it is written; nobody sees them
        self._idle: dict[str, OrderedDict[str, None]] = {}  # by tenant, who was let go of longest ago first
        self._held: Counter[str] = Counter()  # bytes by tenant
        #: Bytes that nobody needs, and bytes that somebody keeps.
        self.idle_bytes = self.kept_bytes = 0

    def get(self, digest: str) -> Resident | None:
        return self._resident.get(digest)

    def items(self) -> list[tuple[str, Resident]]:
        return list(self._resident.items())

    def reserve(self, digest: str, one: Resident) -> None:
        """A version has its range, and is not there yet."""
        self._filling[digest] = one
        self._held[one.tenant] += len(one.where)

    def filled(self, digest: str) -> None:
        """What was reserved is there, with its pins."""
        self._resident[digest] = self._filling.pop(digest)

    def give_up(self, digest: str) -> Resident:
        """What was reserved will never be there."""
        return self._forget(self._filling.pop(digest))

    def remove(self, digest: str) -> Resident:
        """An idle version is there no more."""
        gone = self._resident[digest]
        assert gone.idle, f"{digest} is in use"
        self._leave_queue(digest, gone)
        del self._resident[digest]
        return self._forget(gone)

    def change(self, digest: str, *, pins: int = 0, kept: bool | None = None) -> Resident:
        """Whatever changes who needs a version goes through here: idle ones queue up to leave."""
        one = self._resident[digest]
        size, was_idle, was_kept = len(one.where), one.idle, one.kept
        one.pins += pins
        assert one.pins >= 0, f"{digest} is unpinned more often than pinned"
        one.kept = one.kept if kept is None else kept
        self.kept_bytes += size * (one.kept - was_kept)
        if was_idle and not one.idle:
            self._leave_queue(digest, one)
        elif one.idle and not was_idle:
            self._idle.setdefault(one.tenant, OrderedDict())[digest] = None
            self.idle_bytes += size
        return one

    def idle_among(self, digests: Collection[str]) -> list[str]:
        """Those of these versions that are here and that nobody needs."""
        return [digest for digest in digests if (one := self._resident.get(digest)) is not None and one.idle]

    def bytes_of(self, digests: Collection[str]) -> int:
        return sum(len(self._resident[digest].where) for digest in digests)

    def next_to_leave(self, tenant: str, size: int, now_s: float) -> str | None:
        """By the rule of all tiers, as if `size` bytes of `tenant` were there already; None where nobody is idle."""
        if not self._idle:
            return None
        holdings = {
            owner: Holding(self._held[owner] + size * (owner == tenant), self._resident[next(iter(queue))].used_s)
            for owner, queue in self._idle.items()
        }
        return next(iter(self._idle[next_to_leave(holdings, now_s)]))

    def _leave_queue(self, digest: str, one: Resident) -> None:
        queue = self._idle[one.tenant]
        del queue[digest]
        if not queue:
            del self._idle[one.tenant]
        self.idle_bytes -= len(one.where)

    def _forget(self, gone: Resident) -> Resident:
        self._held[gone.tenant] -= len(gone.where)
        if not self._held[gone.tenant]:
            del self._held[gone.tenant]
        return gone

    def check(self, used_bytes: int, free_slots: Collection[int], num_slots: int) -> int:
        """Slots and `used_bytes` are each free or held by exactly one version, queues agree; how many hold a range."""
        here = self._resident
        holders = [*here.values(), *self._filling.values()]
        held = sum(len(holder.where) for holder in holders)
        assert held == used_bytes, "a range is lost or held twice"
        slots = [*(holder.slot for holder in holders), *free_slots]
        assert sorted(slots) == list(range(num_slots)), "a slot is lost or held twice"
        assert all(one.pins >= 0 for one in here.values()), "a pin count is negative"
        idle = {(one.tenant, digest) for digest, one in here.items() if one.idle}
        queued = [(tenant, digest) for tenant, queue in self._idle.items() for digest in queue]
        assert len(queued) == len(idle) and set(queued) == idle, "a queue is not of who is idle"
        assert self.idle_bytes == sum(len(here[digest].where) for _, digest in queued), "idle bytes"
        assert self.kept_bytes == sum(len(one.where) for one in here.values() if one.kept), "kept bytes"
        assert self._held.total() == held and all(self._held.values()), "bytes of tenants are not those of ranges"
        assert not any(one.idle and one.leaving for one in here.values()), "what is to leave stays"
        return len(holders)
