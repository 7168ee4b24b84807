"""PARITY on a real base with the adapters that were trained for it, alone and in a mixed batch of eight."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from graftwork.engine.request import ChatPrompt
from graftwork.engine.text import Text
from support.engines import ask, ask_all, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_bfloat16_parity, assert_float32_parity

#: Largest difference of a chosen token's log-probability on this base in float32.
FP32 = 1e-3
ROWS: tuple[tuple[str, str | None], ...] = (
    ("I loved every minute of it.", "sentiment"),
    ("What is the capital of France?", None),
    ("Maria Lopez flew from Lisbon to meet the board of Northwind.", "entities"),
    ("The bus was late again and the driver was rude.", "sentiment-v1"),
    ("Name three colours.", None),
    ("The council met on Tuesday. After two hours it agreed to mend the bridge before winter.", "summary"),
    ("My parcel never came.", "support"),
    ("a function that doubles a number", "code"),
)


@cache
def oracle(folder: Path, adapter: str | None, examples: Path, dtype: torch.dtype = torch.float32) -> Oracle:
    return Oracle(folder, examples / adapter if adapter else None, dtype)


def prompts(smollm2: Tiny) -> list[tuple[tuple[int, ...], str | None]]:
    text = Text.open(smollm2.base.folder)
    return [(text.encode(ChatPrompt(({"role": "user", "content": said},))), adapter) for said, adapter in ROWS]


async def test_float32_alone_and_together(smollm2: Tiny) -> None:
    rows = prompts(smollm2)
    async with running(smollm2, dtype="float32") as engine:
        before = await engine.weights_digest()
        together = await ask_all(engine, [request(prompt, adapter) for prompt, adapter in rows])
        for (prompt, adapter), answer in zip(rows, together, strict=True):
            truth = oracle(smollm2.base.folder, adapter, smollm2.root)
            assert_float32_parity(truth, prompt, answer, FP32)
            alone = await ask(engine, request(prompt, adapter))
            assert alone.tokens == answer.tokens
            assert alone.chosen == pytest.approx(answer.chosen, abs=FP32)
        assert engine.stats().max_distinct_adapters_in_step == len({adapter for _, adapter in ROWS} - {None})
        assert await engine.weights_digest() == before == engine.loaded_digest


async def test_bfloat16_together(smollm2: Tiny) -> None:
    rows = prompts(smollm2)
    folder, examples = smollm2.base.folder, smollm2.root
    oracles = {
        adapter: (oracle(folder, adapter, examples), oracle(folder, adapter, examples, torch.bfloat16))
        for _, adapter in rows
    }
    async with running(smollm2, dtype="bfloat16") as engine:
        await assert_bfloat16_parity(engine, rows, oracles, count=24)
        assert await engine.weights_digest() == engine.loaded_digest == smollm2.outline.weights_digest


async def test_the_base_says_what_it_should(smollm2: Tiny) -> None:
    async with running(smollm2) as engine:
        said = ChatPrompt(({"role": "user", "content": "What is the capital of France?"},))
        answer = await ask(engine, request(said, ignore_eos=False))
        assert answer.text == "The capital of France is Paris." and answer.finish_reason == "stop"
