"""EngineSlot: the one engine of this server, from "loading" to "ready", with the reasons in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.outline import Outline
from graftwork.artifacts.disk_budget import Kept
from graftwork.engine.request import AdapterHandle, Delta, GenerationRequest, Pooled, PoolingRequest
from graftwork.engine.residency import Residency
from graftwork.engine.tool_formats import ToolFormat
from graftwork.errors import SHUTTING_DOWN, GraftworkError, Unavailable

log = logging.getLogger(__name__)

_BROKEN = "stopped after an internal error; restart the server"


class GenerationEngine(Protocol):
    """What the gateway needs of an engine; `engine.AsyncEngine` is one, `testing.FakeEngine` another."""

    @property
    def outline(self) -> Outline: ...

    @property
    def loaded_digest(self) -> str:
        """Of the weights when they were loaded, in the dtype that they are served in."""
        ...

    @property
    def ready(self) -> bool:
        """Whether requests are answered; once started, false means that it broke and stays so."""
        ...

    async def start(self) -> None:
        """Load the base and warm the kernels; returns when requests can be answered."""
        ...

    async def stop(self) -> None: ...

    def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta, None]:
        """What each step adds; closing it aborts. Raises before the first delta what a caller can mend."""
        ...

    async def pool(self, request: PoolingRequest) -> Pooled:
        """What a prompt becomes; cancelling it frees the row. Raises what a caller can mend."""
        ...

    async def load(self, handle: AdapterHandle, *, pin: bool = False, wait_s: float | None = None) -> bool:
        """Bring a version to memory, and keep it there with `pin`; false where that goes on after `wait_s` seconds."""
        ...

    def unpin(self, handle: AdapterHandle) -> None: ...

    async def unload(self, handle: AdapterHandle, *, wait_s: float = 10.0, disk: bool = False) -> int:
        """Free a version's memory; how many rows still need it after `wait_s` seconds: it goes after the last."""
        ...

    def retry(self, digest: str) -> None:
        """What a version failed of may be mended: the next request tries to load it at once."""
        ...

    def moved(self, before: str, after: AdapterHandle) -> None:
        """A name that meant the version with the digest `before` means another one now."""
        ...

    def residency(self) -> Mapping[str, Residency]:
        """What is in memory, on its way there, or failed a moment ago, by digest."""
        ...

    def form_on_disk(self, handle: AdapterHandle) -> Kept | None: ...

    async def companions(self, handle: AdapterHandle) -> Companions:
        """What a version carries beside its weights; raises as `generate`."""
        ...

    async def tool_format(self, adapter: AdapterHandle | None, *, own: bool) -> ToolFormat:
        """How an adapter, or the base, writes calls of tools; raises InvalidRequest where its template does not say."""
        ...

    def waits(self, request_id: str) -> bool:
        """Whether a request has no place in the engine's steps now: it has had none yet, or gave way to others."""
        ...

    def stats(self) -> Any:
        """A dataclass of numbers."""
        ...

    async def weights_digest(self) -> str:
        """Of the weights as they are now; equal to `loaded_digest`, for W is frozen."""
        ...


#: Called, from any thread, with what an engine's start does next.
Stage = Callable[[str], None]
EngineMaker = Callable[[Stage], GenerationEngine]
Pin = tuple[str, Callable[[], AdapterHandle]]


class EngineSlot:
    """Owns the engine's life; everything else asks `get()` and is told why when there is none."""

    def __init__(self, engine: GenerationEngine | None = None, make: EngineMaker | None = None) -> None:
        self._engine = engine
        self._make = make
        self._waiting_for: list[str] = ["base: not loaded yet"] if engine or make else []
        self._started = False
        self._failure: BaseException | None = None
        self._stopping: asyncio.Future[None] | None = None
        #: Set when the server was told to stop: what would go on for ever ends then.
        self.closing = False

    @property
    def wanted(self) -> bool:
        return self._engine is not None or self._make is not None

    @property
    def failure(self) -> BaseException | None:
        """Why there is no engine and will be none: it could not start, or it broke; else None."""
        return Unavailable(f"The engine {_BROKEN}.") if self._broken else self._failure

    @property
    def _broken(self) -> bool:
        return self._started and self._engine is not None and not self._engine.ready

    def get(self) -> GenerationEngine:
        """The started engine; raises Unavailable with the reason while there is none."""
        if self._broken:
            raise Unavailable(f"The engine {_BROKEN}.")
        if self._stopping is not None:
            raise Unavailable(SHUTTING_DOWN)
        if self._started and self._engine is not None:
            return self._engine
        if not self.wanted:
            raise Unavailable("This server has no engine: it answers registry calls only. Run `graftwork serve`.")
        if self._failure is not None:
            raise Unavailable(f"The engine could not start: {_message(self._failure)}")
        raise Unavailable("The base model is still loading. Try again soon; GET /ready tells when.")

    def reasons(self) -> Sequence[str]:
        """Why the server is not ready; empty when it is."""
        if not self.wanted:
            return ["engine: this server has none"]
        if self._broken:
            return [f"engine: {_BROKEN}"]
        if self._failure is not None:
            return [f"engine: {_message(self._failure)}"]
        return tuple(self._waiting_for)

    async def start(self, pins: Sequence[Pin] = ()) -> None:
        """Make and start the engine, then load the pinned adapters; what goes wrong is told by `failure`."""
        if not self.wanted:
            return
        try:
            await self._start_engine()
        except Exception as error:
            self._failure = error
            log.error("the engine could not start: %s", _message(error), exc_info=_foreign(error))
            return
        self._waiting_for = [f"pinned adapter {reference}: loading" for reference, _ in pins]
        failed = [await self._pin(reference, handle) for reference, handle in pins]
        self._waiting_for = [reason for reason in failed if reason]
        if not self._waiting_for:
            log.info("the base is loaded, the kernels are warm, %d adapters are pinned", len(pins))

    async def _start_engine(self) -> None:
        if self._engine is None and self._make is not None:
            self._stage("loading")
            self._engine = await asyncio.to_thread(self._make, self._stage)
        assert self._engine is not None, "wanted is true"
        self._stage("warming up")
        await self._engine.start()
        self._started = True

    def _stage(self, what: str) -> None:
        self._waiting_for = [f"base: {what}"]
        log.info("base: %s", what)

    async def _pin(self, reference: str, handle: Callable[[], AdapterHandle]) -> str | None:
        try:
            if await self.get().load(handle(), pin=True):
                return None
            why = "it was not loaded in time; it is kept as soon as it is"
        except GraftworkError as error:
            why = error.message
        log.error("pinned adapter %s: %s", reference, why)
        return f"pinned adapter {reference}: {why}"

    @property
    def started(self) -> GenerationEngine | None:
        """The engine, if there is one that runs."""
        return self._engine if self._started and not self._broken else None

    async def stop(self) -> None:
        """End the engine, and whatever it answers, once; everyone who calls waits until it is gone."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop_engine())
        await asyncio.shield(self._stopping)

    async def _stop_engine(self) -> None:
        self._failure = self.failure  # whoever ends the process asks when the engine is gone
        engine, self._engine, self._make = self._engine, None, None
        if engine is not None and self._started:
            self._started = False
            await engine.stop()

    def stats(self) -> Mapping[str, Any]:
        """The engine's numbers; empty while it is not started."""
        if not self._started or self._engine is None:
            return {}
        stats = self._engine.stats()
        return asdict(stats) if is_dataclass(stats) and not isinstance(stats, type) else dict(stats)


def _message(error: BaseException) -> str:
    if isinstance(error, GraftworkError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _foreign(error: BaseException) -> bool:
    return not isinstance(error, GraftworkError)
