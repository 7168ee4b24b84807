"""Bench: one tiny base and one engine for the adapters of all kinds, and their libraries' answers, each asked once."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contracts.kinds import KindCase
from graftwork.adapters.account import Account, account_folder
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.create import create_engine
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.engines import FolderSource, prompt_of, settled
from support.fixtures import Tiny
from support.oracle import Oracle, OracleLike
from support.tiny import make_adapter, make_base

#: Seed and length of the prompts that all tests share, so that an oracle answers each of them once: within a page,
#: around the chunk of 64 tokens, and over several.
PROMPTS = ((5, 5), (0, 30), (1, 30), (2, 30), (100, 100))


class Remembered:
    """An oracle that is asked the same thing once."""

    def __init__(self, oracle: OracleLike) -> None:
        self.oracle = oracle
        self._logprobs: dict[tuple[int, ...], Tensor] = {}
        self._spread: dict[tuple[int, ...], list[Tensor]] = {}

    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        return self.oracle.greedy(prompt, count)

    def logprobs(self, tokens: list[int]) -> Tensor:
        if (key := tuple(tokens)) not in self._logprobs:
            self._logprobs[key] = self.oracle.logprobs(tokens)
        return self._logprobs[key]

    def spread(self, tokens: list[int]) -> list[Tensor]:
        if (key := tuple(tokens)) not in self._spread:
            self._spread[key] = self.oracle.spread(tokens)
        return self._spread[key]


class Bench:
    """One tiny base with an ordinary LoRA `a1`, and beside them the adapters of all cases on that base."""

    def __init__(self, root: Path, changes: dict[str, Any]) -> None:
        self.root = root
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # transformers' and peft's own
            self.base = make_base(root / "base", **changes)
            make_adapter(self.base, root / "a1", std=0.08, targets="all-linear")
        settings = Settings(
            home=root / "home",
            base=str(self.base),
            dtype="float32",
            kv_cache_bytes=1 << 23,
            adapter_cache_bytes=1 << 27,
            form_cache_bytes=0,  # here a digest is a folder's name, and some change what is in it
        )
        self.tiny = Tiny(root, settings, prepare_base(settings))
        self._engines: dict[tuple[str, bool], AsyncEngine] = {}
        self._oracles: dict[tuple[str | None, torch.dtype], Remembered] = {}
        self._a1: Remembered | None = None

    def adapter(self, case: KindCase) -> Path:
        folder = self.root / case.name
        if not folder.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.make(self.base, folder)
        return folder

    def oracle(self, case: KindCase | None, dtype: torch.dtype = torch.float32) -> Remembered:
        key = (case.name if case else None, dtype)
        if key not in self._oracles:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = case.oracle(self.base, self.adapter(case), dtype) if case else Oracle(self.base, None, dtype)
            self._oracles[key] = Remembered(made)
        return self._oracles[key]

    async def engine(self, dtype: str = "float32", *, deterministic: bool = False) -> AsyncEngine:
        """One engine for all tests of this base; any event loop may call it."""
        key = dtype, deterministic
        if key not in self._engines:
            changes = {
                "dtype": dtype, "max_num_batched_tokens": 64, "deterministic": deterministic, "load_failure_ttl_s": 0,
            }  # fmt: skip
            settings = Settings(**(self.tiny.settings.model_dump() | changes))
            engine = create_engine(settings, self.tiny.base, FolderSource(self.root))
            await engine.start()
            self._engines[key] = engine
        return self._engines[key]

    async def close(self) -> None:
        for engine in self._engines.values():
            await settled(engine)
            engine.check()
            await engine.stop()

    def plain(self) -> Remembered:
        """The oracle of `a1`."""
        if self._a1 is None:
            self._a1 = Remembered(Oracle(self.base, self.root / "a1"))
        return self._a1

    def account(self, folder: Path) -> Account:
        return account_folder(folder, self.tiny.outline, max_rank=64)


def prompt_for(case: KindCase, seed: int, length: int) -> tuple[int, ...]:
    """A prompt that shows the adapter of a case."""
    prompt = prompt_of(seed, length)
    return prompt if case.prompt is None else (*prompt[: length // 2], *case.prompt, *prompt[length // 2 :])


def bench_key(case: KindCase) -> str:
    return json.dumps(case.base, sort_keys=True, default=str)
