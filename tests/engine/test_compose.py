"""Composition: several adapters together answer as PEFT's `cat` of them, in a batch with the singles and the base."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import pytest
import torch

from graftwork.adapters.serving_form import Affine, LowRankSlice, Part, ServingForm, Site, Traits
from graftwork.engine.compose import Scaled, compose
from graftwork.errors import GenerationFailed, Refused
from support.engines import FolderSource, Named, ask, ask_all, prompt_of, reading, request, running
from support.fixtures import Tiny
from support.oracle import ComposedOracle, Oracle
from support.parity import assert_bfloat16_parity, assert_float32_parity

FP32 = 1e-4
#: a1: rank 8 on all layers; a2: rsLoRA with patterns, rank 4; a3: rank 1 on the queries alone.
MIXES: tuple[tuple[tuple[str, float], ...], ...] = (
    (("a1", 0.7), ("a2", 0.3)),
    (("a3", 1.0), ("a1", 1.0)),
    (("a1", 0.5), ("a2", -0.75), ("a3", 0.5)),
    (("a2", -0.5), ("a3", -0.1)),
    (("a1", 0.5), ("a2", -0.5)),
    (("a1", 1.5), ("a3", 0.0)),
)


@cache
def oracle(root: Path, named: Named, dtype: torch.dtype = torch.float64) -> Oracle:
    """Twice as precise as what it judges: added low-rank terms cancel, and PEFT's own rounding is as large as ours."""
    if isinstance(named, tuple):
        return ComposedOracle(root / "base", [(root / name, scale) for name, scale in named], dtype)
    return Oracle(root / "base", root / named if named else None, dtype)


def test_compositions_differ_from_their_parts(tiny: Tiny) -> None:
    everything: tuple[Named, ...] = (None, "a1", "a2", "a3", *MIXES)
    answers = {tuple(oracle(tiny.root, named).greedy(list(prompt_of(1, 20)), 16)[0]) for named in everything}
    assert len(answers) == len(everything), "the fixtures must differ, or parity proves nothing"


@pytest.mark.parametrize("mix", MIXES)
async def test_alone(tiny: Tiny, mix: Named) -> None:
    async with running(tiny, max_num_batched_tokens=64) as engine:
        for length in (1, 20, 100):
            prompt = prompt_of(length, length)
            answer = await ask(engine, request(prompt, mix))
            assert_float32_parity(oracle(tiny.root, mix), prompt, answer, FP32)


async def test_in_a_batch_with_the_singles_and_the_base(tiny: Tiny) -> None:
    rows = [(prompt_of(n, 9 + 7 * n), named) for n, named in enumerate((*MIXES, None, "a1", "a2", "a3"))]
    source = FolderSource(tiny.root)
    async with running(tiny, source) as engine:
        reads = []
        for _ in range(2):
            answers = await ask_all(engine, [request(prompt, named) for prompt, named in rows])
            for (prompt, named), answer in zip(rows, answers, strict=True):
                assert_float32_parity(oracle(tiny.root, named), prompt, answer, FP32)
            reads.append(len(source.reads))
        assert engine.stats().max_distinct_adapters_in_step == len(rows) - 1
        assert reads[0] == reads[1], "all were resident"


async def test_embeddings_take_compositions_too(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        got = torch.tensor((await engine.pool(reading(prompt_of(4, 30), MIXES[0]))).values)
        assert torch.allclose(got, oracle(tiny.root, MIXES[0]).hidden(list(prompt_of(4, 30))).mean(0), atol=1e-3)


async def test_bfloat16(tiny: Tiny) -> None:
    rows = [(prompt_of(5 + n, 30), mix) for n, mix in enumerate(MIXES * 2)]
    oracles = {mix: (oracle(tiny.root, mix), oracle(tiny.root, mix, torch.bfloat16)) for mix in MIXES}
    async with running(tiny, dtype="bfloat16") as engine:
        await assert_bfloat16_parity(engine, rows, oracles, count=8)  # type: ignore[arg-type]


async def test_a_huge_scale_answers_or_fails_alone(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        huge, beside = await asyncio.gather(
            ask(engine, request(prompt_of(1, 9), (("a1", 1e9), ("a2", 1.0)))),
            ask(engine, request(prompt_of(2, 9), "a1")),
            return_exceptions=True,
        )
        assert not isinstance(beside, BaseException)
        assert_float32_parity(oracle(tiny.root, "a1"), prompt_of(2, 9), beside, FP32)
        assert isinstance(huge, GenerationFailed) or not isinstance(huge, BaseException)


@pytest.mark.parametrize("scale", [1e300, -1e41])
async def test_a_scale_that_overflows_is_refused_by_name_and_nothing_is_kept(tiny: Tiny, scale: float) -> None:
    async with running(tiny) as engine:
        with pytest.raises(Refused, match=r"scale -?1e\+\d+ of a2:1\.0\.0"):
            await ask(engine, request((1, 2, 3), (("a1", 0.5), ("a2", scale))))
        assert engine.stats().adapters_resident == 0


async def test_ranks_above_the_limit_name_both_numbers(tiny: Tiny) -> None:
    async with running(tiny, max_rank=8) as engine:
        with pytest.raises(Refused, match=r"add up to 12 at model\.\S+, above this server's max_rank 8"):
            await ask(engine, request((1, 2, 3), (("a1", 0.5), ("a2", 0.5))))


async def test_fifty_first_requests_compose_once(tiny: Tiny) -> None:
    source = FolderSource(tiny.root)
    async with running(tiny, source) as engine:
        await ask_all(engine, [request(prompt_of(2, 12), MIXES[0]) for _ in range(50)])
        assert sorted(source.reads) == ["a1", "a2"]


A, B = torch.ones(2, 3), torch.ones(2, 4)
PLAIN = ServingForm((LowRankSlice(0, A, B),))


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (ServingForm(affines=(Affine(0, shift=torch.ones(4)),)), "scales or shifts activations"),
        (ServingForm(parts=(Part(Site("mlp")), Part(Site("head")))), "acts at head and acts at mlp"),
        (ServingForm(traits=Traits(virtual_tokens=3)), "has virtual tokens"),
        (ServingForm(traits=Traits(labels=("x",))), "has virtual tokens, an invocation or a classification head"),
    ],
)
def test_what_is_more_than_low_rank_is_refused_by_name(tiny: Tiny, form: ServingForm, why: str) -> None:
    parts = [Scaled("plain:1.0.0", "lora", PLAIN, 1.0), Scaled("more:1.0.0", "ia3", form, 0.5)]
    with pytest.raises(Refused, match=rf"more:1\.0\.0 cannot be composed.*kind ia3\) {why}"):
        compose(parts, tiny.outline, torch.float32, 64)


def test_scaling_rounds_once(tiny: Tiny) -> None:
    b = torch.tensor([[1.0 + 2**-8]])  # halfway between two bfloat16 numbers: rounded first, the scale finds another
    made = compose(
        [Scaled("a", "lora", ServingForm((LowRankSlice(0, torch.ones(1, 1), b),)), 3.0)],
        tiny.outline,
        torch.bfloat16,
        64,
    )
    assert made.slices[0].b.item() == (b * 3.0).bfloat16().item() != (b.bfloat16() * 3.0).bfloat16().item()
