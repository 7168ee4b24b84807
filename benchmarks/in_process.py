"""EngineInProcess: the embedded engine with random adapters in its registry, driven by the load of `load.py`."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from graftwork import Engine
from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.engine.create import serving_dtype
from graftwork.engine.engine_stats import EngineStats
from graftwork.engine.request import Caller, GenerationRequest, TokenLogprob
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.step_record import StepRecord
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from graftwork.traffic.handle import handle_of
from load import Answered, Ask, Door, Load, Measured, drive
from random_adapters import ALL_SEVEN, mixed_ranks, write_adapter

T = TypeVar("T")

#: Where nobody set up tenants.
LOCAL_CALLER = Caller()


@contextmanager
def bench_home(base: str) -> Iterator[Path]:
    """A home that is gone at the end with all that was registered; a base that was fetched stays where bases are."""
    with TemporaryDirectory(prefix="graftwork-bench-") as folder:
        home, bases = Path(folder), Settings().bases
        (home / "cache").mkdir()
        if not Path(base).is_dir():
            bases.mkdir(parents=True, exist_ok=True)
            (home / "cache" / "bases").symlink_to(bases, target_is_directory=True)
        yield home


@contextmanager
def engine_in_process(base: str, home: Path | None = None, **settings: Any) -> Iterator[EngineInProcess]:
    """An engine with a registry of its own, or with that of the engines in `home`."""
    with ExitStack() as stack:
        home = home or stack.enter_context(bench_home(base))
        yield stack.enter_context(EngineInProcess(base, home=home, cache_dir=home / "cache", **settings))


class EngineInProcess(Engine):
    """The embedded engine, asked for many streamed answers at a time."""

    @property
    def outline(self) -> Outline:
        return self._engine.outline

    @property
    def dtype(self) -> torch.dtype:
        """Of the base and the adapters while they are served."""
        return serving_dtype(self.settings, prepare_base(self.settings))

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def push_random(
        self, count: int, *, first: int = 0, rank_of: Callable[[int], int] = mixed_ranks,
        projections: tuple[str, ...] = ALL_SEVEN,
    ) -> list[str]:  # fmt: skip
        """Register adapters of random numbers, `bench-<first>` and so on; their names."""
        names = []
        with TemporaryDirectory(prefix="graftwork-bench-") as folder:
            for index in range(first, first + count):
                rank = rank_of(index)
                made = write_adapter(Path(folder), self.outline, rank=rank, seed=index, projections=projections)
                names.append(f"bench-{index}")
                self.push(made, names[-1])
        return names

    def warm(self, names: Sequence[str], load: Load) -> None:
        """Load each adapter, and run every kind of step once, so that a round measures serving."""
        for name in [self.base, *names]:
            self.generate([1, 2, 3], adapter=None if name == self.base else name, temperature=0, max_tokens=1)
        self.drive(Load(load.concurrency, load.concurrency, load.prompt_tokens, 8, load.vocab), names or [self.base], 0)

    def drive(
        self, load: Load, names: Sequence[str], seed: int, popularity: Sequence[float] | None = None,
        *, in_turn: bool = False,
    ) -> Measured:  # fmt: skip
        """One round of the closed loop, without HTTP."""
        return self.run(drive(self.door(), load, names, seed, popularity, in_turn=in_turn))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, in the engine's event loop."""
        return self._runner.run(work)

    def first_token_s(self, name: str, prompt: tuple[int, ...]) -> float:
        """From a request to its first token, all of its prompt computed."""
        began = time.perf_counter()
        return self.run(self._answered(Ask(name, prompt, 1), Caller(salt=secrets.token_hex(8)))).times_s[0] - began

    async def come_and_go(self, name: str) -> None:
        """Load an adapter and unload it again, without asking it anything."""
        handle = self._handle(name)
        await self._engine.load(handle)
        await self._engine.unload(handle)

    def time_to_first(self, ask: Ask) -> float:
        """Seconds from a request to its first token, which may begin with what earlier ones of this kind computed."""
        began = time.perf_counter()
        return self.run(self._answered(ask, LOCAL_CALLER)).times_s[0] - began

    @contextmanager
    def observed(self) -> Iterator[list[StepRecord]]:
        """Every step that begins inside the block."""
        records: list[StepRecord] = []
        self._engine.observe(records.append)
        try:
            yield records
        finally:
            self._engine.observe(None)

    def door(self, caller: Caller = LOCAL_CALLER) -> Door:
        """Where one tenant asks, each time with a salt of its own: rounds repeat prompts, which are to be computed."""

        async def asked(ask: Ask) -> Answered:
            return await self._answered(ask, replace(caller, salt=secrets.token_hex(8)))

        return asked

    def answers(self, asked: Sequence[Ask]) -> list[list[TokenLogprob]]:
        """Each one's tokens with their log-probabilities, all asked at the same time."""

        async def together() -> list[list[TokenLogprob]]:
            return list(await asyncio.gather(*(self._tokens(ask) for ask in asked)))

        return self.run(together())

    async def _tokens(self, ask: Ask) -> list[TokenLogprob]:
        request = self._asked(ask, Caller(salt=secrets.token_hex(8)), logprobs=0)
        return [one async for delta in self._engine.generate(request) for one in delta.logprobs]

    def _asked(self, ask: Ask, caller: Caller, **params: Any) -> GenerationRequest:
        handle = handle_of(self._decide(None if ask.model == self.base else ask.model), LOCAL)
        params = {"temperature": 0, "max_tokens": ask.output_tokens, "ignore_eos": True} | params
        return GenerationRequest(secrets.token_hex(8), ask.prompt, SamplingParams(**params), handle, caller=caller)

    async def _answered(self, ask: Ask, caller: Caller) -> Answered:
        times, tokens = [], 0
        async for delta in self._engine.generate(self._asked(ask, caller)):
            times.append(time.perf_counter())
            tokens += len(delta.token_ids)
        return Answered(times, tokens)
