"""QuotaKeeper: what tenants have used lately, of the quotas that are set for them; one per process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from graftwork.access.access import Access
from graftwork.access.quotas import NO_QUOTAS, Quotas, Room, Use, admit, check_stock, leave, rooms, spend
from graftwork.artifacts.bundle import Manifest
from graftwork.registry.snapshot import SnapshotReader

_NOTHING = Use()


class QuotaKeeper:
    """Owns the counters; for use from any thread. Several gateways beside one another each count for themselves.

    What is set for a tenant is looked up once for each of its requests, when that enters: to see whether others have
    changed it costs a call of the database.
    """

    def __init__(self, snapshots: SnapshotReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._snapshots, self._clock = snapshots, clock
        self._uses: dict[str, Use] = {}
        self._limits: dict[str, Quotas] = {}  # of the tenants that have entered, as it was then
        self._lock = threading.Lock()

    def enter(self, tenant: str, quotas: Quotas) -> None:
        """A request of a tenant, for which these quotas are set, begins, and ends with `leave`.

        Raises:
            TooManyRequests: a quota is used up; it did not begin.
        """
        with self._lock:
            self._limits[tenant] = quotas
            self._uses[tenant] = admit(self._uses.get(tenant, _NOTHING), quotas, self._clock())

    def leave(self, tenant: str) -> None:
        """A request that entered has been answered."""
        with self._lock:
            self._uses[tenant] = leave(self._uses[tenant])

    def spend(self, tenant: str, tokens: int) -> None:
        """An answer took so many tokens, of prompt and answer."""
        with self._lock:
            quotas = self._limits.get(tenant, NO_QUOTAS)
            self._uses[tenant] = spend(self._uses.get(tenant, _NOTHING), quotas, tokens, self._clock())

    def rooms(self, tenant: str) -> list[Room]:
        """What is left of a tenant's requests and tokens, where they are limited."""
        with self._lock:
            quotas = self._limits.get(tenant, NO_QUOTAS)
            return rooms(self._uses.get(tenant, _NOTHING), quotas, self._clock())

    def check_stock(self, tenant: str, adapter: str, new: Manifest) -> None:
        """Raises QuotaExhausted where a tenant may not have this adapter, or so many bytes, beside what it has."""
        snapshot = self._snapshots.current()
        quotas = snapshot.part(Access).tenant(tenant).quotas
        if quotas.adapters is None and quotas.bytes is None:
            return
        own = [view for view in snapshot.adapters.values() if view.tenant == tenant]
        stored = {version.digest: version.manifest.bytes for view in own for version in view.versions}
        if new.digest() not in stored:
            check_stock(quotas, stored=sum(stored.values()) + new.bytes)
        if all(view.name != adapter for view in own):
            check_stock(quotas, adapters=len(own) + 1)
