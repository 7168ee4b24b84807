"""Embeddings with every kind of adapter, as its library's own hidden states say; alone, in chunks, and all together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contracts.kinds import KindCase, all_cases
from graftwork.engine.request import Pooling
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.engines import prompt_of, reading, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.tiny import make_base

FP32 = 1e-4
POOLINGS: tuple[Pooling, ...] = ("mean", "last")
LENGTHS = (9, 70)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[KindCase], Tiny]:
    """The tiny base of a case, one for all cases that change it alike."""

    @cache
    def made(changes: str) -> Tiny:
        root = tmp_path_factory.mktemp("embeddings")
        base = make_base(root / "base", **json.loads(changes))
        settings = Settings(home=root / "home", base=str(base), dtype="float32", kv_cache_bytes=1 << 22,
                            adapter_cache_bytes=1 << 27, max_num_batched_tokens=64)  # fmt: skip
        return Tiny(root, settings, prepare_base(settings))

    return lambda case: made(json.dumps(case.base, sort_keys=True, default=str))


@pytest.mark.filterwarnings("ignore")  # transformers' and peft's own
@pytest.mark.parametrize("case", all_cases(), ids=str)
async def test_vectors_are_those_of_the_kinds_library(case: KindCase, bench: Callable[[KindCase], Tiny]) -> None:
    tiny = bench(case)
    if not (tiny.root / case.name).exists():
        case.make(tiny.root / "base", tiny.root / case.name)
    oracle = case.oracle(tiny.root / "base", tiny.root / case.name, torch.float32)
    if not isinstance(oracle, Oracle):
        pytest.skip("the kind's library has no hidden states to compare with here")
    plain = Oracle(tiny.root / "base")
    prompts = [(*prompt_of(length, length), *(case.prompt or ())) for length in LENGTHS]
    rows = [(prompt, name, how) for prompt in prompts for name in (case.name, None) for how in POOLINGS]
    async with running(tiny) as engine:
        made = await asyncio.gather(*(engine.pool(reading(*row)) for row in rows))
    for (prompt, name, how), got in zip(rows, made, strict=True):
        want = _pooled((oracle if name else plain).hidden(list(prompt)), how)
        assert (normalize(torch.tensor(got.values), dim=0) - want).abs().max() <= FP32
        assert got.prompt_tokens == len(prompt)


def _pooled(states: Tensor, how: Pooling) -> Tensor:
    return normalize(states.mean(0) if how == "mean" else states[-1], dim=0)
