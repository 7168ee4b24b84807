"""AsyncEngine: the engine's door. One async iterator per request; closing it frees everything the request holds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.outline import Outline
from graftwork.artifacts.disk_budget import Kept
from graftwork.engine.adapter_cache import AdapterCache, CalledOff, NoRoom
from graftwork.engine.adapter_loader import LOADED, AdapterLoader
from graftwork.engine.adapter_source import AdapterSource
from graftwork.engine.adapter_texts import AdapterTexts
from graftwork.engine.form_store import FormStore
from graftwork.engine.grammars import Grammars
from graftwork.engine.inbox import Inbox
from graftwork.engine.intake import Intake
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.load_failures import LoadFailures
from graftwork.engine.loop import EngineLoop, Output
from graftwork.engine.popularity import Popularity
from graftwork.engine.queue_limit import QueueLimit
from graftwork.engine.request import AdapterHandle, Caller, Delta, GenerationRequest, Pooled, PoolingRequest
from graftwork.engine.residency import Residency, by_label, residency_of
from graftwork.engine.runner import Runner
from graftwork.engine.scheduler import Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_record import Observer
from graftwork.engine.stream import Item, Stream
from graftwork.engine.templates import Templates
from graftwork.engine.text import Text
from graftwork.engine.tool_formats import ToolFormat
from graftwork.engine.waiting_room import WaitingRoom
from graftwork.engine.warm_up import WarmUp
from graftwork.errors import Conflict, GraftworkError, InvalidRequest, TimedOut, Unavailable
from graftwork.kernels.select import Kernels
from graftwork.models.model import Model


@dataclass(frozen=True)
class EngineConfig:
    """The engine's share of the settings; sizes in bytes and tokens, times in seconds."""

    max_context: int
    max_num_seqs: int
    max_num_batched_tokens: int
    inter_token_target_s: float
    batch_wait_s: float
    kv_cache_bytes: int
    prefix_caching: bool
    adapter_cache_bytes: int
    forms: Path
    form_cache_bytes: int
    max_rank: int
    max_waiting: int
    request_timeout_s: float | None
    load_timeout_s: float
    load_retries: int
    load_failure_ttl_s: float
    #: Where it is kept how popular adapters are; None: nothing is brought to memory unasked.
    popularity: Path | None
    use_companions: bool
    template_limits: ProcessLimits
    grammar_limits: ProcessLimits
    tool_format: str


@dataclass(frozen=True)
class EngineStats:
    """Where the engine stands, for people and metrics. Counts are since the start."""

    running: int
    waiting: int
    kv_pages_used: int
    kv_pages_cached: int
    kv_pages_total: int
    adapters_resident: int
    adapters_pinned: int
    adapter_loads: int
    adapter_evictions: int
    adapter_bytes: int
    #: By how they ended.
    adapter_load_outcomes: Mapping[str, int]
    #: By where they are: in memory, or on disk as forms.
    adapter_tier_bytes: Mapping[str, int]
    #: By version, of those in memory that were used last.
    adapter_memory_bytes: Mapping[str, int]
    steps: int
    generated_tokens: int
    prompt_tokens: int
    failed_rows: int
    preemptions: int
    prefix_cache_queried_tokens: int
    prefix_cache_hit_tokens: int
    adapter_kernel_launches: int
    max_distinct_adapters_in_step: int


@dataclass(eq=False)
class _Call:
    """Somebody's call for a version to be in memory; `left` when he waits no longer, though it is still to come."""

    handle: AdapterHandle
    pin: bool
    future: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    left: bool = False


#: How often one who waits for an adapter to leave looks, in seconds.
_LOOK_S = 0.02


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
        dtype, outline = model.dtype, model.outline
        self.outline: Outline = outline
        self._model, self._kernels, self._config = model, kernels, config
        self._kv = KvCache(outline, dtype, config.kv_cache_bytes)
        self._cache = AdapterCache(outline, dtype, config.adapter_cache_bytes)
        kept = config.form_cache_bytes
        store = FormStore(config.forms, kept, outline, dtype, config.max_rank) if kept else None
        self._source, self._store = source, store
        self._failures, self._popularity = LoadFailures(config.load_failure_ttl_s), Popularity(config.popularity)
        self._loader = AdapterLoader(
            source, self._cache, outline, model, dtype, config.max_rank, config.load_timeout_s, config.load_retries,
            self._failures, self._loaded, store,
        )  # fmt: skip
        self._warm_up = None
        if store is not None and config.popularity is not None:
            self._warm_up = WarmUp(
                self._popularity, self._cache, self._loader, store, self._failures, lambda: bool(self._streams)
            )
        self._scheduler = Scheduler(
            self._kv, config.max_num_seqs, config.max_num_batched_tokens, config.inter_token_target_s
        )
        runner = Runner(model, kernels, self._kv, self._cache.slots)
        self._room = WaitingRoom(self._cache, self._loader, config.load_timeout_s, time.monotonic)
        self.max_context = min(config.max_context, self._kv.max_tokens)
        self._intake = Intake(
            text,
            self._texts(text) if config.use_companions else None,
            Templates(config.template_limits),
            Grammars(config.grammar_limits),
            self.max_context,
            config.tool_format,
            shared_base=outline.weights_digest if config.prefix_caching else None,
        )
        inbox = Inbox(config.batch_wait_s, config.max_num_seqs, time.monotonic)
        self._loop = EngineLoop(
            runner, self._scheduler, self._room, inbox, self.max_context, self._deliver, time.perf_counter
        )
        self._streams: dict[str, Stream] = {}
        self._queue = QueueLimit(config.max_waiting, time.monotonic)
        self._calls: dict[str, list[_Call]] = {}
        self._calls_lock = threading.Lock()
        self._started = False

    def _texts(self, text: Text) -> AdapterTexts:
        config = self._config
        return AdapterTexts(
            self._source, self.outline, text, config.load_timeout_s, config.load_retries, self._failures
        )

    @property
    def ready(self) -> bool:
        """Started, and neither stopped nor broken."""
        return self._started and not self._loop.stopped

    async def start(self) -> None:
        """Compile the kernels and start the loop thread."""
        await asyncio.to_thread(self._kernels.warm, self._model.dtype)
        self._loop.start()
        if self._warm_up is not None:
            self._warm_up.start()
        self._started = True

    async def stop(self) -> None:
        """Stop serving; requests that still run fail with `Unavailable`."""
        if self._started:
            self._started = False
            if self._warm_up is not None:
                await asyncio.to_thread(self._warm_up.stop)
                await asyncio.to_thread(self._popularity.save)
            await asyncio.to_thread(self._loop.stop)
            await asyncio.to_thread(self._loader.close)
            await asyncio.to_thread(self._intake.close)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta]:
        """Continue a prompt, one delta per step; the last one has a finish reason.

        Raises, before the first delta:
            InvalidRequest: the prompt is empty, damaged, or too long for the context.
            TooManyRequests: the tenant has its share of the queue already.
            Unavailable: too many requests wait, the adapter found no room, or the server stops.
            Refused, Damaged: the adapter cannot be loaded.
        Raises, at any time:
            GenerationFailed: this row, and only this row, went wrong.
            TimedOut: it took longer than a request may.
        """
        if request.adapter is not None:
            self._popularity.note(request.adapter)
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
        if request.adapter is not None:
            self._popularity.note(request.adapter)
        async with self._row(request.id, request.caller, partial(self._intake.pooling, request)) as stream:
            item = await stream.next()
            assert isinstance(item, Pooled), "a pooling row gives one result"
            return item

    @asynccontextmanager
    async def _row(self, key: str, caller: Caller, make: Callable[[], Awaitable[Sequence]]) -> AsyncGenerator[Stream]:
        """A row in the loop, from submission until the block is left; what it gives arrives in its stream."""
        self._check_running()
        if key in self._streams:
            raise InvalidRequest(f"A request with the id {key!r} is running already.", field="id")
        self._queue.enter(caller, self._running_by_tenant, self._loop.num_running)
        stream = self._streams[key] = Stream()
        limit_s = self._config.request_timeout_s
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
            del self._streams[key]
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
        self._failures.forget(handle.digest)
        if self._cache.keep(handle.digest) if pin else self._cache.stay(handle.digest):
            return True
        call = _Call(handle, pin)
        with self._calls_lock:
            self._calls.setdefault(handle.digest, []).append(call)
        self._loader.start(handle, "call")
        try:
            timeout_s = self._config.load_timeout_s if wait_s is None else wait_s
            await asyncio.wait_for(asyncio.shield(call.future), timeout_s)
        except TimeoutError:
            call.left = True
            return False
        except asyncio.CancelledError:
            self._give_up(call)
            raise
        except NoRoom as error:
            if pin:
                raise Conflict(error.message) from error
            raise
        return True

    def _give_up(self, call: _Call) -> None:
        call.left = True
        digest = call.handle.digest
        with self._calls_lock:
            others = self._calls.get(digest, [])
            if call in others:
                others.remove(call)
            if not others:
                self._calls.pop(digest, None)
                self._loader.cancel(digest, "call")

    def unpin(self, handle: AdapterHandle) -> None:
        """Let a version leave memory again when its room is needed; one that is still to come is not kept then."""
        with self._calls_lock:
            for call in self._calls.get(handle.digest, ()):
                call.pin = False
            self._cache.let_go(handle.digest)

    async def unload(self, handle: AdapterHandle, *, wait_s: float = 10.0, disk: bool = False) -> int:
        """Free a version's memory, and with `disk` what lies of it on the local disk; the next request loads it again.

        Rows that run finish on it, and rows that come meanwhile are served from it too. Waits up to `wait_s` seconds
        for them: how many there are then, 0 when it is gone. It leaves as soon as there is none, whoever waits.

        Raises:
            Conflict: it is pinned.
        """
        digest, until = handle.digest, time.monotonic() + wait_s
        self._popularity.forget(digest)  # or it would be brought back at once
        self._loader.cancel(digest, "warm-up")
        with self._calls_lock:
            if all(call.left for call in self._calls.get(digest, ())):
                self._calls.pop(digest, None)
                self._loader.cancel(digest, "call")
        held = self._cache.unload(digest)
        if disk:
            await asyncio.to_thread(self._forget_on_disk, handle)
        while held and time.monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            held = self._cache.leaving(digest)
        return held or 0

    def _forget_on_disk(self, handle: AdapterHandle) -> None:
        if self._store is not None:
            self._store.remove(handle.tenant, handle.digest)
        self._source.remove(handle.tenant, handle.digest)

    def retry(self, digest: str) -> None:
        """Something was done about a version that could not be loaded: its next request tries at once."""
        self._failures.forget(digest)

    def moved(self, before: str, after: AdapterHandle) -> None:
        """A name that meant one version means another: if that one was in memory, bring this one before it is asked."""
        if self.ready and before in self._cache.resident:
            self._loader.start(after, "call")

    def residency(self) -> Mapping[str, Residency]:
        """What is in memory, on its way there, or failed a moment ago, by digest."""
        return residency_of(self._cache.in_memory(), self._loader.loading, self._failures.recent())

    def form_on_disk(self, handle: AdapterHandle) -> Kept | None:
        """The form of a version on the local disk."""
        return None if self._store is None else self._store.find(handle.tenant, handle.digest)

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

    def stats(self) -> EngineStats:
        resident, counters = self._cache.in_memory(), self._loop.counters
        outcomes = self._loader.outcomes
        return EngineStats(
            running=self._loop.num_running,
            waiting=self._loop.num_waiting,
            kv_pages_used=self._kv.num_used,
            kv_pages_cached=self._kv.prefixes.num_idle,
            kv_pages_total=self._kv.pool.num_pages,
            adapters_resident=len(resident),
            adapters_pinned=sum(one.pins > 0 or one.kept for one in resident.values()),
            adapter_loads=sum(outcomes[way] for way in LOADED),
            adapter_evictions=self._cache.num_evictions,
            adapter_bytes=self._cache.used_bytes,
            adapter_load_outcomes=outcomes,
            adapter_tier_bytes={
                "memory": self._cache.used_bytes,
                "form": 0 if self._store is None else self._store.used_bytes,
            },
            adapter_memory_bytes=by_label(resident.values()),
            steps=counters.steps,
            generated_tokens=counters.generated_tokens,
            prompt_tokens=counters.prompt_tokens,
            failed_rows=counters.failed_rows,
            preemptions=self._scheduler.num_preemptions,
            prefix_cache_queried_tokens=self._scheduler.num_queried,
            prefix_cache_hit_tokens=self._scheduler.num_hit,
            adapter_kernel_launches=self._kernels.launches,
            max_distinct_adapters_in_step=counters.max_distinct_adapters_in_step,
        )

    def observe(self, observer: Observer | None) -> None:
        """Tell `observer` of every step from now on, in place of whoever was told before; None ends it."""
        self._loop.observer = observer

    def check(self) -> None:
        """Assert the invariants of everything that is owned; only while no step runs."""
        self._scheduler.check()
        self._room.check()
        self._cache.check()

    # -- called in other threads -----------------------------------------------------------------------------------

    def _deliver(self, outputs: list[Output]) -> None:
        """One message per step to each event loop that has requests in it."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Stream, Item | GraftworkError]]] = defaultdict(list)
        for key, item in outputs:
            if (stream := self._streams.get(key)) is not None:
                by_loop[stream.loop].append((stream, item))
        for loop, items in by_loop.items():
            _call_in(loop, _put_all, items)

    def _loaded(self, digest: str, error: GraftworkError | None) -> None:
        with self._calls_lock:
            calls = self._calls.get(digest, [])
            again = calls[0].handle if calls and isinstance(error, CalledOff) else None  # by others, before this call
            calls = [] if again else self._calls.pop(digest, [])
            if error is None and any(call.pin for call in calls):  # under the lock, or an `unpin` could come between
                kept = self._cache.keep(digest)
                assert kept, "the load's own pin keeps it resident"
        if again is not None:
            self._loader.start(again, "call")
        for call in calls:
            _call_in(call.future.get_loop(), _settle, call, error)
        self._loop.loaded(digest, error)


def _timed_out(limit_s: float | None) -> TimedOut:
    return TimedOut(
        f"The request was not answered within {limit_s:g} seconds (request_timeout_s); ask for fewer tokens, or later."
    )


def _put_all(items: list[tuple[Stream, Item | GraftworkError]]) -> None:
    for stream, item in items:
        stream.queue.put_nowait(item)


def _settle(call: _Call, error: GraftworkError | None) -> None:
    if call.left or call.future.done():  # nobody would take the error
        return
    if error is None:
        call.future.set_result(None)
    else:
        call.future.set_exception(error)


def _call_in(loop: asyncio.AbstractEventLoop, call: object, *args: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *args)  # type: ignore[arg-type]
    except RuntimeError:
        # The caller's event loop is closed: nobody is left to tell.
        return
