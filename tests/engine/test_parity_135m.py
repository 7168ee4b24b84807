"""PARITY on a real base with the adapters that were trained for it, alone and in a mixed batch of eight."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from graftwork.engine.request import ChatPrompt
from graftwork.engine.text import Text
from support.engines import FolderSource, ask, ask_all, request, running
from support.fixtures import Tiny
from support.oracle import OneOfMany, WholePasses, oracles_of
from support.parity import assert_bfloat16_parity, assert_float32_parity
from support.tiny import save_peft

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
def oracles(folder: Path, examples: Path, dtype: torch.dtype = torch.float32) -> dict[str | None, OneOfMany]:
    return oracles_of(folder, examples, [adapter for _, adapter in ROWS if adapter], dtype)


def prompts(smollm2: Tiny) -> list[tuple[tuple[int, ...], str | None]]:
    text = Text.open(smollm2.base.folder)
    return [(text.encode(ChatPrompt(({"role": "user", "content": said},))), adapter) for said, adapter in ROWS]


async def test_float32_alone_and_together(smollm2: Tiny) -> None:
    rows = prompts(smollm2)
    async with running(smollm2, dtype="float32") as engine:
        before = await engine.weights_digest()
        together = await ask_all(engine, [request(prompt, adapter) for prompt, adapter in rows])
        for (prompt, adapter), answer in zip(rows, together, strict=True):
            truth = oracles(smollm2.base.folder, smollm2.root)[adapter]
            assert_float32_parity(truth, prompt, answer, FP32)
            alone = await ask(engine, request(prompt, adapter))
            assert alone.tokens == answer.tokens
            assert alone.chosen == pytest.approx(answer.chosen, abs=FP32)
        assert engine.stats().max_distinct_adapters_in_step == len({adapter for _, adapter in ROWS} - {None})
        assert await engine.weights_digest() == before == engine.loaded_digest


#: Adapters of other kinds for the same base, by PEFT's config class; moved by noise, as nobody trained them.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dora": ("LoraConfig", {"r": 8, "use_dora": True, "target_modules": "all-linear"}),
    "ends": ("LoraConfig", {"r": 8, "target_modules": ["embed_tokens", "lm_head"]}),
    "ia3": ("IA3Config", {"target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "prompt": ("PromptTuningConfig", {"num_virtual_tokens": 12}),
    "lokr": ("LoKrConfig", {"r": 8, "target_modules": ["q_proj", "down_proj"]}),
}


async def test_other_kinds_together(smollm2: Tiny, tmp_path: Path) -> None:
    text = Text.open(smollm2.base.folder)
    for name, (kind, config) in KINDS.items():
        save_peft(kind, config, smollm2.base.folder, tmp_path / name, std=0.02)
    said = [ChatPrompt(({"role": "user", "content": f"Tell me about {name}."},)) for name in KINDS]
    rows = [(text.encode(prompt), name) for prompt, name in zip(said, KINDS, strict=True)]
    async with running(smollm2, FolderSource(tmp_path), dtype="float32") as engine:
        await ask_all(engine, [request(*row, max_tokens=1) for row in rows])  # loaded, so that they start together
        answers = await ask_all(engine, [request(*row, max_tokens=8) for row in rows])
        for (prompt, name), answer in zip(rows, answers, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # peft's own, of tied weights
                truth = WholePasses(smollm2.base.folder, tmp_path / name)
            assert_float32_parity(truth, prompt, answer, FP32)
        assert engine.stats().max_distinct_adapters_in_step == len(KINDS)
        assert await engine.weights_digest() == engine.loaded_digest


async def test_bfloat16_together(smollm2: Tiny) -> None:
    rows = prompts(smollm2)
    exact, rounded = (oracles(smollm2.base.folder, smollm2.root, dtype) for dtype in (torch.float32, torch.bfloat16))
    both = {adapter: (exact[adapter], rounded[adapter]) for _, adapter in rows}
    async with running(smollm2, dtype="bfloat16") as engine:
        await assert_bfloat16_parity(engine, rows, both, count=24)
        assert await engine.weights_digest() == engine.loaded_digest == smollm2.outline.weights_digest


async def test_in_deterministic_mode_bits_are_those_of_the_row_alone(smollm2: Tiny) -> None:
    rows = prompts(smollm2)
    async with running(smollm2, dtype="bfloat16", deterministic=True) as engine:
        together = await ask_all(engine, [request(*row, max_tokens=8) for row in rows])
        assert together[::3] == [await ask(engine, request(*row, max_tokens=8)) for row in rows[::3]]


async def test_the_base_says_what_it_should(smollm2: Tiny) -> None:
    async with running(smollm2, dtype="float32") as engine:  # in bfloat16 two first tokens are equally likely
        said = ChatPrompt(({"role": "user", "content": "What is the capital of France?"},))
        answer = await ask(engine, request(said, ignore_eos=False))
        assert answer.text == "The capital of France is Paris." and answer.finish_reason == "stop"
