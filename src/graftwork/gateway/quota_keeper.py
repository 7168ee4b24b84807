"""QuotaKeeper: what tenants have used lately, of the quotas that are set for them; one per process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from graftwork.access.access import Access
from graftwork.access.quotas import Quotas, Room, Use, admit, check_stock, leave, rooms, spend
from graftwork.artifacts.bundle import Manifest
from graftwork.registry.snapshot import SnapshotReader

_NOTHING = Use()


class QuotaKeeper:
    """Owns the counters; for use from any thread. Several gateways beside one another each count for themselves."""

    def __init__(self, snapshots: SnapshotReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._snapshots, self._clock = snapshots, clock
        self._uses: dict[str, Use] = {}
        self._lock = threading.Lock()

    def enter(self, tenant: str) -> None:
        """A request of a tenant begins, and ends with `leave`.

        Raises:
            TooManyRequests: a quota is used up; it did not begin.
        """
        quotas = self._quotas(tenant)
        with self._lock:
            self._uses[tenant] = admit(self._uses.get(tenant, _NOTHING), quotas, self._clock())

    def leave(self, tenant: str) -> None:
        """A request that entered has been answered."""
        with self._lock:
            self._uses[tenant] = leave(self._uses[tenant])

    def spend(self, tenant: str, tokens: int) -> None:
        """An answer took so many tokens, of prompt and answer."""
        quotas = self._quotas(tenant)
        with self._lock:
            self._uses[tenant] = spend(self._uses.get(tenant, _NOTHING), quotas, tokens, self._clock())

    def rooms(self, tenant: str) -> list[Room]:
        """What is left of a tenant's requests and tokens, where they are limited."""
        quotas = self._quotas(tenant)
        with self._lock:
            return rooms(self._uses.get(tenant, _NOTHING), quotas, self._clock())

    def check_stock(self, tenant: str, adapter: str, new: Manifest) -> None:
        """Raises QuotaExhausted where a tenant may not have this adapter, or so many bytes, beside what it has."""
        quotas, snapshot = self._quotas(tenant), self._snapshots.current()
        if quotas.adapters is None and quotas.bytes is None:
            return
        own = [view for view in snapshot.adapters.values() if view.tenant == tenant]
        stored = {version.digest: version.manifest.bytes for view in own for version in view.versions}
        if new.digest() not in stored:
            check_stock(quotas, stored=sum(stored.values()) + new.bytes)
        if all(view.name != adapter for view in own):
            check_stock(quotas, adapters=len(own) + 1)

    def _quotas(self, tenant: str) -> Quotas:
        return self._snapshots.current().part(Access).tenant(tenant).quotas
