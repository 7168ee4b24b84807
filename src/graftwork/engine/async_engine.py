"""AsyncEngine: the engine's door. One async iterator per request; closing it frees everything the request holds."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.outline import Outline
from graftwork.artifacts.disk_budget import Kept
from graftwork.engine.adapter_source import AdapterSource
from graftwork.engine.adapter_texts import AdapterTexts
from graftwork.engine.adapter_tiers import AdapterTiers
from graftwork.engine.engine_config import EngineConfig
from graftwork.engine.engine_stats import EngineStats, stats_of
from graftwork.engine.grammars import Grammars
from graftwork.engine.inbox import Inbox
from graftwork.engine.intake import Intake
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.loop import EngineLoop
from graftwork.engine.queue_limit import QueueLimit
from graftwork.engine.request import AdapterHandle, Caller, Delta, GenerationRequest, Pooled, PoolingRequest
from graftwork.engine.residency import Residency
from graftwork.engine.runner import Runner
from graftwork.engine.scheduler import Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_record import Observer
from graftwork.engine.stream import Stream
from graftwork.engine.streams import Streams
from graftwork.engine.templates import Templates
from graftwork.engine.text import Text
from graftwork.engine.tool_formats import ToolFormat
from graftwork.engine.waiting_room import WaitingRoom
from graftwork.errors import GraftworkError, TimedOut, Unavailable
from graftwork.kernels.select import Kernels
from graftwork.models.model import Model


class AsyncEngine:
    """Serves one base and any number of its adapters; safe to call from several event loops.

    Example:
        >>> async for delta in engine.generate(request):  # doctest: +SKIP
        ...     print(delta.text, end="")
    """

    def __init__(
        self,
        model: Model,
        kernels: Kernels,
        text: Text,
        source: AdapterSource,
        config: EngineConfig,
    ) -> None:
        self.outline: Outline = model.outline
        self._model, self._kernels, self._config = model, kernels, config
        self._streams = Streams()
        self._kv = KvCache(model.outline, model.dtype, config.kv_cache_bytes)
        self._adapters = AdapterTiers(model, source, config, lambda: bool(self._streams), self._loaded)
        self.max_context = min(config.max_context, self._kv.max_tokens)
        self._intake = self._new_intake(text, source)
        self._scheduler = Scheduler(
            self._kv, config.max_num_seqs, config.max_num_batched_tokens, config.inter_token_target_s
        )
        cache, loader = self._adapters.cache, self._adapters.loader
        self._room = WaitingRoom(cache, loader, config.load_timeout_s, time.monotonic)
        self._loop = EngineLoop(
            Runner(model, kernels, self._kv, cache.slots),
            self._scheduler,
            self._room,
            Inbox(config.batch_wait_s, config.max_num_seqs, time.monotonic),
            self.max_context,
            self._streams.deliver,
            time.perf_counter,
        )
        self._queue = QueueLimit(config.max_waiting, time.monotonic)
        self._started = False

    def _new_intake(self, text: Text, source: AdapterSource) -> Intake:
        config, texts = self._config, None
        if config.use_companions:
            texts = AdapterTexts(
                source, self.outline, text, config.load_timeout_s, config.load_retries, self._adapters.failures
            )
        return Intake(
            text,
            texts,
            Templates(config.template_limits),
            Grammars(config.grammar_limits),
            self.max_context,
            config.tool_format,
            shared_base=self.outline.weights_digest if config.prefix_caching else None,
        )

    @property
    def ready(self) -> bool:
        """Started, and neither stopped nor broken."""
        return self._started and not self._loop.stopped

    async def start(self) -> None:
        """Compile the kernels and start the loop thread."""
        await asyncio.to_thread(self._kernels.warm, self._model.dtype)
        self._loop.start()
        self._adapters.start()
        self._started = True

    async def stop(self) -> None:
        """Stop serving; requests that still run fail with `Unavailable`."""
        if self._started:
            self._started = False
            await asyncio.to_thread(self._adapters.stop)
            await asyncio.to_thread(self._loop.stop)
            closing = self._adapters.loader.close, self._intake.close  # neither waits for what the other reads
            await asyncio.gather(*map(asyncio.to_thread, closing))

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta]:
        """Continue a prompt, one delta per step; the last one has a finish reason.

        Raises, before the first delta:
            InvalidRequest: the prompt is empty, damaged, or too long for the context.
            TooManyRequests: the tenant has its share of the queue already, or too many new grammars that wait.
            Unavailable: too many requests wait, the adapter found no room, or the server stops.
            Refused, Damaged: the adapter cannot be loaded.
        Raises, at any time:
            GenerationFailed: this row, and only this row, went wrong.
            InvalidRequest: its grammar became too complex on the way.
            TimedOut: it took longer than a request may.
        """
        if request.counts:
            self._adapters.asked_for(request.adapter)
        async with self._row(request.id, request.caller, partial(self._intake.generating, request)) as stream:
            while not stream.ended:
                item = await stream.next()
                assert isinstance(item, Delta), "a generating row gives deltas"
                yield item

    async def pool(self, request: PoolingRequest) -> Pooled:
        """What a prompt becomes; computed in the same steps as everything else. Cancelling it frees the row.

        Raises:
            InvalidRequest: as `generate`, or the adapter has no head to classify with.
            Unavailable, Refused, Damaged, GenerationFailed, TimedOut: as `generate`.
        """
        self._adapters.asked_for(request.adapter)
        async with self._row(request.id, request.caller, partial(self._intake.pooling, request)) as stream:
            item = await stream.next()
            assert isinstance(item, Pooled), "a pooling row gives one result"
            return item

    @asynccontextmanager
    async def _row(self, key: str, caller: Caller, make: Callable[[], Awaitable[Sequence]]) -> AsyncGenerator[Stream]:
        """A row in the loop, from submission until the block is left; what it gives arrives in its stream."""
        self._check_running()
        limit_s = self._config.request_timeout_s
        with self._streams.open(key) as stream:
            self._queue.enter(caller, self._running_by_tenant, self._loop.num_running)
            timer = stream.loop.call_later(limit_s, self._time_out, key, stream) if limit_s else None
            try:
                async with asyncio.timeout(limit_s):
                    row = await make()
                self._loop.submit(row)
                yield stream
            except TimeoutError:
                raise _timed_out(limit_s) from None
            finally:
                if timer is not None:
                    timer.cancel()
                if not stream.ended or stream.timed_out:
                    self._loop.abort(key)
                self._queue.leave(caller, self._loop.num_running)

    def _time_out(self, key: str, stream: Stream) -> None:
        stream.timed_out = True
        stream.queue.put_nowait(_timed_out(self._config.request_timeout_s))
        self._loop.abort(key)

    def _running_by_tenant(self) -> Counter[str]:
        return Counter(row.caller.tenant for row in tuple(self._scheduler.running))

    def _check_running(self) -> None:
        if not self.ready:
            raise Unavailable("The engine is not running: it is starting, stopping or broken; see /ready.")

    async def load(self, handle: AdapterHandle, *, pin: bool = False, wait_s: float | None = None) -> bool:
        """Bring a version to memory, and with `pin` keep it there until `unpin`; whatever failed before is tried anew.

        Waits up to `wait_s` seconds, `load_timeout_s` if None; false where the load goes on then. Cancelling the call
        ends the load, unless somebody else wants it.

        Raises:
            Conflict: pinned versions leave no room for another pinned one; the message says how many bytes they hold.
            Refused, Damaged, NotFound, Unavailable: as `generate`.
        """
        self._check_running()
        return await self._adapters.loads.load(handle, pin=pin, wait_s=wait_s)

    def unpin(self, handle: AdapterHandle) -> None:
        """Let a version leave memory again when its room is needed; one that is still to come is not kept then."""
        self._adapters.loads.unpin(handle.digest)

    async def unload(self, handle: AdapterHandle, *, wait_s: float = 10.0, disk: bool = False) -> int:
        """Free a version's memory, and with `disk` what lies of it on the local disk; the next request loads it again.

        Rows that run finish on it, and rows that come meanwhile are served from it too. Waits up to `wait_s` seconds
        for them: how many there are then, 0 when it is gone. It leaves as soon as there is none, whoever waits.

        Raises:
            Conflict: it is pinned.
        """
        return await self._adapters.unload(handle, wait_s=wait_s, disk=disk)

    def retry(self, digest: str) -> None:
        """Something was done about a version that could not be loaded: its next request tries at once."""
        self._adapters.failures.forget(digest)

    def moved(self, before: str, after: AdapterHandle) -> None:
        """A name that meant one version means another: if that one was in memory, bring this one before it is asked."""
        if self.ready:
            self._adapters.moved(before, after)

    def residency(self) -> Mapping[str, Residency]:
        """What is in memory, on its way there, or failed a moment ago, by digest."""
        return self._adapters.residency()

    def form_on_disk(self, handle: AdapterHandle) -> Kept | None:
        """The form of a version on the local disk."""
        return self._adapters.form_on_disk(handle)

    async def companions(self, handle: AdapterHandle) -> Companions:
        """What a version carries beside its weights, if that is used at all; its defaults are for the caller to apply.

        Raises:
            Refused, NotFound, Damaged, Unavailable: as `generate`.
        """
        return await self._intake.companions(handle)

    async def tool_format(self, adapter: AdapterHandle | None, *, own: bool) -> ToolFormat:
        """How an adapter (`own`: by its own chat template) or the base writes calls of tools.

        Raises:
            InvalidRequest: its chat template has no place for tools, or does not say. Else as `companions`.
        """
        return await self._intake.tool_format(adapter, own=own)

    @property
    def loaded_digest(self) -> str:
        """Digest of the base's weights when they were loaded, in the serving dtype."""
        return self._model.loaded_digest

    async def weights_digest(self) -> str:
        """Digest of the base's weights as they are now, in the serving dtype; W is frozen, so nothing may change it."""
        return await asyncio.to_thread(self._model.weights_digest)

    def waits(self, request_id: str) -> bool:
        """Whether a request has no place in the engine's steps now: it has had none yet, or gave way to others."""
        return self._loop.waits(request_id)

    def stats(self) -> EngineStats:
        return stats_of(self._loop, self._scheduler, self._kv, self._adapters, self._kernels)

    def observe(self, observer: Observer | None) -> None:
        """Tell `observer` of every step from now on, in place of whoever was told before; None ends it."""
        self._loop.observer = observer

    def check(self) -> None:
        """Assert the invariants of everything that is owned; only while no step runs."""
        self._scheduler.check()
        self._room.check()
        self._adapters.cache.check()

    def _loaded(self, digest: str, error: GraftworkError | None) -> None:
        self._loop.loaded(digest, error)


def _timed_out(limit_s: float | None) -> TimedOut:
    return TimedOut(
        f"The request was not answered within {limit_s:g} seconds (request_timeout_s); ask for fewer tokens, or later."
    )
