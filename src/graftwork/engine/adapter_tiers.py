"""AdapterTiers: an engine's adapters in memory, as forms on disk and as files, and what brings them up and down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from graftwork.artifacts.disk_budget import Kept
from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.adapter_loader import AdapterLoader, OnLoaded
from graftwork.engine.adapter_source import AdapterSource
from graftwork.engine.engine_config import EngineConfig
from graftwork.engine.explicit_loads import ExplicitLoads
from graftwork.engine.form_store import FormStore
from graftwork.engine.load_failures import LoadFailures
from graftwork.engine.popularity import Popularity
from graftwork.engine.request import AdapterHandle
from graftwork.engine.residency import Residency, residency_of
from graftwork.engine.warm_up import WarmUp
from graftwork.errors import GraftworkError
from graftwork.models.model import Model


class AdapterTiers:
    """Builds and owns the cache, the forms, the loader, and those who call for loads beside rows.

    Args:
        busy: whether there are rows, so that nothing is brought in unasked.
        on_loaded: told of every load that ended, in a loader thread, as `OnLoaded` says.
    """

    def __init__(
        self, model: Model, source: AdapterSource, config: EngineConfig, busy: Callable[[], bool], on_loaded: OnLoaded
    ) -> None:
        dtype, outline, kept = model.dtype, model.outline, config.form_cache_bytes
        self._source, self._on_loaded = source, on_loaded
        self.cache = AdapterCache(outline, dtype, config.adapter_cache_bytes)
        self.forms = FormStore(config.forms, kept, outline, dtype, config.max_rank) if kept else None
        self.failures, self._popularity = LoadFailures(config.load_failure_ttl_s), Popularity(config.popularity)
        self.loader = AdapterLoader(
            source, self.cache, outline, model, dtype, config.max_rank, config.load_timeout_s, config.load_retries,
            self.failures, self._loaded, self.forms,
        )  # fmt: skip
        self.loads = ExplicitLoads(self.cache, self.loader, self.failures, config.load_timeout_s)
        self._warm_up = None
        if self.forms is not None and config.popularity is not None:
            self._warm_up = WarmUp(
                self._popularity, self.cache, self.loader, self.forms, self.failures, busy, source.wanted
            )

    def start(self) -> None:
        if self._warm_up is not None:
            self._warm_up.start()

    def stop(self) -> None:
        """Bring nothing in unasked any more; blocks until a load that was begun so is under way no more."""
        if self._warm_up is not None:
            self._warm_up.stop()
            self._popularity.save()

    def asked_for(self, handle: AdapterHandle | None) -> None:
        """A request has come, for a version or for the base."""
        if handle is not None:
            self._popularity.note(handle)

    def moved(self, before: str, after: AdapterHandle) -> None:
        """As `AsyncEngine.moved`."""
        if before in self.cache.resident:
            self.loader.start(after, "explicit")

    async def unload(self, handle: AdapterHandle, *, wait_s: float, disk: bool) -> int:
        """As `AsyncEngine.unload`."""
        self._popularity.forget(handle.digest)  # or it would be brought back at once
        self.loader.cancel(handle.digest, "warm-up")
        self.loads.unload(handle.digest)
        if disk:
            await asyncio.to_thread(self._forget_on_disk, handle)
        return await self.loads.gone(handle.digest, wait_s)

    def _forget_on_disk(self, handle: AdapterHandle) -> None:
        if self.forms is not None:
            self.forms.remove(handle.tenant, handle.digest)
        self._source.remove(handle.tenant, handle.digest)

    def residency(self) -> Mapping[str, Residency]:
        """As `AsyncEngine.residency`."""
        return residency_of(self.cache.in_memory(), self.loader.loading, self.failures.recent())

    def form_on_disk(self, handle: AdapterHandle) -> Kept | None:
        """As `AsyncEngine.form_on_disk`."""
        return None if self.forms is None else self.forms.find(handle.tenant, handle.digest)

    def _loaded(self, digest: str, error: GraftworkError | None) -> None:
        self.loads.ended(digest, error)
        self._on_loaded(digest, error)
