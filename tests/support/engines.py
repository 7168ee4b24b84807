"""Real engines on the tiny base, and short ways to ask them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.create import create_engine
from graftwork.engine.request import AdapterHandle, Caller, GenerationRequest, Pooling, PoolingRequest, TokenLogprob
from graftwork.engine.sampling_params import SamplingParams
from graftwork.settings import Settings
from support.fixtures import Tiny


@dataclass
class FolderSource:
    """Adapters by folder: the digest is the folder's name. Counts what is read; can fail or be held back."""

    root: Path
    reads: list[str] = field(default_factory=list)
    failure: Exception | None = None
    removed: list[str] = field(default_factory=list)
    unwanted: set[str] = field(default_factory=set)
    open: int = 0

    def folder(self, tenant: str, digest: str) -> Path:
        self.reads.append(digest)
        if self.failure is not None:
            raise self.failure
        return self.root / digest

    @contextmanager
    def files(self, tenant: str, digest: str) -> Iterator[Path]:
        self.open += 1
        try:
            yield self.folder(tenant, digest)
        finally:
            self.open -= 1

    def wanted(self, tenant: str, digest: str) -> bool:
        return digest not in self.unwanted

    def remove(self, tenant: str, digest: str) -> None:
        self.removed.append(digest)


@dataclass
class Answer:
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def chosen(self) -> list[float]:
        return [entry.logprob for entry in self.logprobs if entry.logprob is not None]


@asynccontextmanager
async def running(tiny: Tiny, source: FolderSource | None = None, **changes: Any) -> AsyncIterator[AsyncEngine]:
    """A started engine; on leaving, its books must balance."""
    # Here a digest is a folder's name and not its content, so what one test made of it is not for the next.
    fresh = {"form_cache_bytes": 0, "load_failure_ttl_s": 0.0}
    settings = Settings(**(tiny.settings.model_dump() | fresh | changes))
    engine = create_engine(settings, tiny.base, source or FolderSource(tiny.root))
    await engine.start()
    try:
        yield engine
        await settled(engine)
        engine.check()
    finally:
        await engine.stop()


async def settled(engine: AsyncEngine) -> None:
    """Wait until no request holds anything; fails after five seconds."""
    async with asyncio.timeout(5):
        while (stats := engine.stats()).running or stats.waiting or stats.kv_pages_used or stats.adapters_pinned:
            await asyncio.sleep(0.001)


LOCAL = Caller()
_ids = iter(range(1 << 30))

#: The name of an adapter, several with scales, or None for the base.
Named = str | tuple[tuple[str, float], ...] | None


def handle_of(named: Named) -> AdapterHandle | None:
    if named is None:
        return None
    if isinstance(named, str):
        return AdapterHandle(named, "local", f"{named}:1.0.0")
    parts = tuple((AdapterHandle(name, "local", f"{name}:1.0.0"), scale) for name, scale in named)
    return AdapterHandle(str(named), "local", "+".join(f"{name}:1.0.0*{scale:g}" for name, scale in named), parts)


def request(prompt: Any, adapter: Named = None, **params: Any) -> GenerationRequest:
    """`params` are those of SamplingParams, and `caller`."""
    greedy = {"temperature": 0.0, "max_tokens": 16, "ignore_eos": True, "logprobs": 0}
    caller = params.pop("caller", LOCAL)
    asked = SamplingParams(**(greedy | params))
    return GenerationRequest(str(next(_ids)), prompt, asked, handle_of(adapter), caller=caller)


def reading(prompt: Any, adapter: Named = None, pooling: Pooling = "mean") -> PoolingRequest:
    return PoolingRequest(str(next(_ids)), prompt, pooling, handle_of(adapter))


async def ask(engine: AsyncEngine, asked: GenerationRequest) -> Answer:
    answer = Answer()
    async for delta in engine.generate(asked):
        answer.tokens += delta.token_ids
        answer.text += delta.text
        answer.logprobs += delta.logprobs
        answer.prompt_logprobs = answer.prompt_logprobs or delta.prompt_logprobs
        answer.finish_reason = delta.finish_reason
        answer.prompt_tokens, answer.completion_tokens = delta.prompt_tokens, delta.completion_tokens
        answer.cached_tokens = delta.cached_tokens
    return answer


async def ask_all(engine: AsyncEngine, asked: Sequence[GenerationRequest]) -> list[Answer]:
    return list(await asyncio.gather(*(ask(engine, one) for one in asked)))


def prompt_of(seed: int, length: int) -> tuple[int, ...]:
    return tuple(1 + (seed * 37 + index * index * (seed + 1) + index * 11) % 255 for index in range(length))
