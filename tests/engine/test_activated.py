"""Activated LoRA: the base until the invocation, PEFT's answer from there on, whoever else is in the batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import torch

from graftwork.engine.async_engine import AsyncEngine
from support.engines import Answer, FolderSource, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity
from support.tiny import save_peft

FP32 = 1e-4
INVOCATION = (5, 6, 7)
BEFORE, AFTER = prompt_of(1, 40), prompt_of(2, 40)
WITHOUT = (*BEFORE, 5, 6, 8, *AFTER)


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {"r": 8, "target_modules": "all-linear", "alora_invocation_tokens": list(INVOCATION)}
    return save_peft("LoraConfig", config, tiny.root / "base", tmp_path_factory.mktemp("alora") / "alora", std=0.1)


@pytest.fixture
async def engine(tiny: Tiny, adapter: Path) -> AsyncIterator[AsyncEngine]:
    async with running(tiny, FolderSource(adapter.parent), max_num_batched_tokens=64) as made:
        yield made


def assert_peft_rates_it_so(oracle: Oracle, prompt: Sequence[int], got: Answer) -> None:
    """By one whole pass: PEFT looks for the invocation in the tokens of one call only."""
    with torch.inference_mode():
        truth = oracle.logprobs([*prompt, *got.tokens])[len(prompt) - 1 : -1]
    assert truth.argmax(-1).tolist() == got.tokens
    want = [float(row[token]) for row, token in zip(truth, got.tokens, strict=True)]
    assert got.chosen == pytest.approx(want, abs=FP32)


@pytest.mark.parametrize(
    "prompt",
    [
        (*BEFORE, *INVOCATION, *AFTER),
        (*INVOCATION, *AFTER),
        (*BEFORE, *INVOCATION),
        (*BEFORE, *INVOCATION, *AFTER, *INVOCATION, *AFTER[:9]),
        INVOCATION,
    ],
    ids=["amid", "first", "last", "twice", "alone"],
)
async def test_from_the_invocation_on_it_answers_as_peft_does(
    engine: AsyncEngine, tiny: Tiny, adapter: Path, prompt: tuple[int, ...]
) -> None:
    oracle = Oracle(tiny.root / "base", adapter)
    for _ in range(2):
        got, base = await ask_all(engine, [request(prompt, "alora"), request(prompt)])
        assert_peft_rates_it_so(oracle, prompt, got)
        assert_float32_parity(Oracle(tiny.root / "base"), prompt, base, FP32)
    assert got.tokens != base.tokens


async def test_what_lies_before_the_invocation_is_shared_with_the_base(
    engine: AsyncEngine, tiny: Tiny, adapter: Path
) -> None:
    """In whole blocks; from the one on in which it begins to act, neither reads what the other has left."""
    before, after = prompt_of(3, 150), prompt_of(4, 100)
    prompt = (*before, *INVOCATION, *after)
    oracle, base = Oracle(tiny.root / "base", adapter), Oracle(tiny.root / "base")
    assert_float32_parity(base, prompt, await ask(engine, request(prompt)), FP32)
    for cached in (128, 192):
        got = await ask(engine, request(prompt, "alora"))
        assert_peft_rates_it_so(oracle, prompt, got)
        assert got.cached_tokens == cached, "first the base's, then its own as well"
    again = await ask(engine, request(prompt))
    assert_float32_parity(base, prompt, again, FP32)
    assert again.cached_tokens == 192
    longer = (*prompt, *INVOCATION, 9)  # it begins to act later: all that the base has computed is right now
    got = await ask(engine, request(longer, "alora"))
    assert_peft_rates_it_so(oracle, longer, got)
    assert got.cached_tokens == 192
    never = (*before[:140], *after)
    assert (await ask(engine, request(never, "alora"))).cached_tokens == 128
    shared = await ask(engine, request(never))
    assert_float32_parity(base, never, shared, FP32)
    assert shared.cached_tokens == 192, "where it never acts, what it has left is the base's"


async def test_without_the_invocation_it_answers_as_the_base(engine: AsyncEngine, tiny: Tiny) -> None:
    base = Oracle(tiny.root / "base")
    for _ in range(2):
        invoked = request((*BEFORE, *INVOCATION, *AFTER), "alora")
        got, _ = await ask_all(engine, [request(WITHOUT, "alora"), invoked])
        assert_float32_parity(base, WITHOUT, got, FP32)
    assert_float32_parity(base, (5, 6), await ask(engine, request((5, 6), "alora", max_tokens=1)), FP32)
