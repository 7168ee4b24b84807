"""EngineInProcess: the embedded engine with random adapters in its registry, driven by the load of `load.py`."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from graftwork import Engine
from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.engine.async_engine import EngineStats
from graftwork.engine.create import serving_dtype
from graftwork.engine.request import GenerationRequest, TokenLogprob
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.step_record import StepRecord
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from graftwork.traffic.handle import handle_of
from load import Answered, Ask, Load, Measured, drive
from random_adapters import ALL_SEVEN, mixed_ranks, write_adapter


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
        return self._runner.run(drive(self._door, load, names, seed, popularity, in_turn=in_turn))

    @contextmanager
    def observed(self) -> Iterator[list[StepRecord]]:
        """Every step that begins inside the block."""
        records: list[StepRecord] = []
        self._engine.observe(records.append)
        try:
            yield records
        finally:
            self._engine.observe(None)

    def answers(self, asked: Sequence[Ask]) -> list[list[TokenLogprob]]:
        """Each one's tokens with their log-probabilities, all asked at the same time."""

        async def together() -> list[list[TokenLogprob]]:
            return list(await asyncio.gather(*(self._tokens(ask) for ask in asked)))

        return self._runner.run(together())

    async def _tokens(self, ask: Ask) -> list[TokenLogprob]:
        return [one async for delta in self._engine.generate(self._asked(ask, logprobs=0)) for one in delta.logprobs]

    def _asked(self, ask: Ask, **params: Any) -> GenerationRequest:
        handle = handle_of(self._decide(None if ask.model == self.base else ask.model), LOCAL)
        params = {"temperature": 0, "max_tokens": ask.output_tokens, "ignore_eos": True} | params
        return GenerationRequest(secrets.token_hex(8), ask.prompt, SamplingParams(**params), handle)

    async def _door(self, ask: Ask) -> Answered:
        times, tokens = [], 0
        async for delta in self._engine.generate(self._asked(ask)):
            times.append(time.perf_counter())
            tokens += len(delta.token_ids)
        return Answered(times, tokens)
