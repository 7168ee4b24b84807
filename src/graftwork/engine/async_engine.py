"""AsyncEngine: the engine's door. One async iterator per request; closing it frees everything the request holds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.outline import Outline
from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.adapter_loader import AdapterLoader, AdapterSource
from graftwork.engine.adapter_texts import AdapterTexts
from graftwork.engine.form_store import FormStore
from graftwork.engine.grammars import Grammars
from graftwork.engine.inbox import Inbox
from graftwork.engine.intake import Intake
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.loop import EngineLoop, Output
from graftwork.engine.request import AdapterHandle, Delta, GenerationRequest, Pooled, PoolingRequest
from graftwork.engine.runner import Runner
from graftwork.engine.scheduler import Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_record import Observer
from graftwork.engine.stream import Item, Stream
from graftwork.engine.templates import Templates
from graftwork.engine.text import Text
from graftwork.engine.tool_formats import ToolFormat
from graftwork.engine.waiting_room import WaitingRoom
from graftwork.errors import GraftworkError, InvalidRequest, Unavailable
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
    adapter_cache_bytes: int
    forms: Path
    form_cache_bytes: int
    max_rank: int
    max_waiting: int
    load_timeout_s: float
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
    kv_pages_total: int
    adapters_resident: int
    adapters_pinned: int
    adapter_loads: int
    adapter_bytes: int
    steps: int
    generated_tokens: int
    prompt_tokens: int
    failed_rows: int
    preemptions: int
    adapter_kernel_launches: int
    max_distinct_adapters_in_step: int


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
        self._loader = AdapterLoader(
            source, self._cache, outline, model, dtype, config.max_rank, config.load_timeout_s, self._loaded, store
        )
        self._scheduler = Scheduler(
            self._kv, config.max_num_seqs, config.max_num_batched_tokens, config.inter_token_target_s
        )
        runner = Runner(model, kernels, self._kv, self._cache.slots)
        self._room = WaitingRoom(self._cache, self._loader, config.load_timeout_s, time.monotonic)
        self.max_context = min(config.max_context, self._kv.max_tokens)
        self._intake = Intake(
            text,
            AdapterTexts(source, outline, text, config.load_timeout_s) if config.use_companions else None,
            Templates(config.template_limits),
            Grammars(config.grammar_limits),
            self.max_context,
            config.tool_format,
        )
        inbox = Inbox(config.batch_wait_s, config.max_num_seqs, time.monotonic)
        self._loop = EngineLoop(
            runner, self._scheduler, self._room, inbox, self.max_context, self._deliver, time.perf_counter
        )
        self._streams: dict[str, Stream] = {}
        self._loads: dict[str, list[asyncio.Future[None]]] = {}
        self._loads_lock = threading.Lock()
        self._started = False

    @property
    def ready(self) -> bool:
        """Started, and neither stopped nor broken."""
        return self._started and not self._loop.stopped

    async def start(self) -> None:
        """Compile the kernels and start the loop thread."""
        await asyncio.to_thread(self._kernels.warm, self._model.dtype)
        self._loop.start()
        self._started = True

    async def stop(self) -> None:
        """Stop serving; requests that still run fail with `Unavailable`."""
        if self._started:
            self._started = False
            await asyncio.to_thread(self._loop.stop)
            await asyncio.to_thread(self._loader.close)
            await asyncio.to_thread(self._intake.close)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta]:
        """Continue a prompt, one delta per step; the last one has a finish reason.

        Raises, before the first delta:
            InvalidRequest: the prompt is empty, damaged, or too long for the context.
            Unavailable: too many requests wait, the adapter found no room, or the server stops.
            Refused, Damaged: the adapter cannot be loaded.
        Raises, at any time:
            GenerationFailed: this row, and only this row, went wrong.
        """
        async with self._row(request.id, partial(self._intake.generating, request)) as stream:
            while not stream.ended:
                item = await stream.next()
                assert isinstance(item, Delta), "a generating row gives deltas"
                yield item

    async def pool(self, request: PoolingRequest) -> Pooled:
        """What a prompt becomes; computed in the same steps as everything else. Cancelling it frees the row.

        Raises:
            InvalidRequest: as `generate`, or the adapter has no head to classify with.
            Unavailable, Refused, Damaged, GenerationFailed: as `generate`.
        """
        async with self._row(request.id, partial(self._intake.pooling, request)) as stream:
            item = await stream.next()
            assert isinstance(item, Pooled), "a pooling row gives one result"
            return item

    @asynccontextmanager
    async def _row(self, key: str, make: Callable[[], Awaitable[Sequence]]) -> AsyncGenerator[Stream]:
        """A row in the loop, from submission until the block is left; what it gives arrives in its stream."""
        if not self.ready:
            raise Unavailable("The engine is not running: it is starting, stopping or broken; see /ready.")
        if len(self._streams) - self._loop.num_running >= self._config.max_waiting:
            raise Unavailable(f"{self._config.max_waiting} requests are waiting already; try again later.")
        if key in self._streams:
            raise InvalidRequest(f"A request with the id {key!r} is running already.", field="id")
        stream = self._streams[key] = Stream()
        try:
            self._loop.submit(await make())
            yield stream
        finally:
            del self._streams[key]
            if not stream.ended:
                self._loop.abort(key)

    async def load(self, handle: AdapterHandle) -> None:
        """Make a version resident and keep it so until the engine stops.

        Raises:
            Refused, Damaged, Unavailable: as `generate`.
        """
        if self._cache.pin(handle.digest) is not None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._loads_lock:
            self._loads.setdefault(handle.digest, []).append(future)
        self._loader.start(handle, keep=True)
        try:
            await asyncio.wait_for(future, self._config.load_timeout_s)
        except TimeoutError as error:
            raise Unavailable(f"The adapter {handle.label} was not loaded in time.") from error

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
        resident, counters = self._cache.resident, self._loop.counters
        return EngineStats(
            running=self._loop.num_running,
            waiting=self._loop.num_waiting,
            kv_pages_used=self._kv.pool.num_used,
            kv_pages_total=self._kv.pool.num_pages,
            adapters_resident=len(resident),
            adapters_pinned=sum(pins > 0 for pins in resident.values()),
            adapter_loads=self._loader.num_loads,
            adapter_bytes=self._cache.used_bytes,
            steps=counters.steps,
            generated_tokens=counters.generated_tokens,
            prompt_tokens=counters.prompt_tokens,
            failed_rows=counters.failed_rows,
            preemptions=self._scheduler.num_preemptions,
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
        with self._loads_lock:
            waiting = self._loads.pop(digest, [])
        for future in waiting:
            if error is None:
                pinned = self._cache.pin(digest)
                assert pinned is not None, "the load's own pin keeps it resident"
            _call_in(future.get_loop(), _settle, future, error)
        self._loop.loaded(digest, error)


def _put_all(items: list[tuple[Stream, Item | GraftworkError]]) -> None:
    for stream, item in items:
        stream.queue.put_nowait(item)


def _settle(future: asyncio.Future[None], error: GraftworkError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _call_in(loop: asyncio.AbstractEventLoop, call: object, *args: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *args)  # type: ignore[arg-type]
    except RuntimeError:
        # The caller's event loop is closed: nobody is left to tell.
        return
