"""Embeddings with every kind of adapter, as its library's own hidden states say; alone, in chunks, and all together."""

from __future__ import annotations

import asyncio

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contracts.bench import Bench
from contracts.kinds import KindCase, all_cases
from graftwork.engine.request import Pooling
from support.engines import prompt_of, reading
from support.oracle import Oracle

FP32 = 1e-4
POOLINGS: tuple[Pooling, ...] = ("mean", "last")
LENGTHS = (9, 70)


@pytest.mark.parametrize("case", all_cases(), ids=str)
async def test_vectors_are_those_of_the_kinds_library(case: KindCase, bench: Bench) -> None:
    bench.adapter(case)
    oracle, plain = bench.oracle(case).oracle, bench.oracle(None).oracle
    if not isinstance(oracle, Oracle) or not isinstance(plain, Oracle):
        pytest.skip("the kind's library has no hidden states to compare with here")
    prompts = [(*prompt_of(length, length), *(case.prompt or ())) for length in LENGTHS]
    rows = [(prompt, name, how) for prompt in prompts for name in (case.name, None) for how in POOLINGS]
    engine = await bench.engine()
    made = await asyncio.gather(*(engine.pool(reading(*row)) for row in rows))
    states = {(prompt, name): (oracle if name else plain).hidden(list(prompt)) for prompt, name, _ in rows}
    for (prompt, name, how), got in zip(rows, made, strict=True):
        want = _pooled(states[prompt, name], how)
        assert (normalize(torch.tensor(got.values), dim=0) - want).abs().max() <= FP32
        assert got.prompt_tokens == len(prompt)


def _pooled(states: Tensor, how: Pooling) -> Tensor:
    return normalize(states.mean(0) if how == "mean" else states[-1], dim=0)
