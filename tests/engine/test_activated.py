"""Activated LoRA: nothing of it before its invocation, all of it from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.engines import ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle, WholePasses
from support.parity import assert_float32_parity
from support.tiny import save_peft

CALL = (5, 6, 7)


@pytest.fixture(scope="module")
def folder(tiny: Tiny) -> Path:
    config = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear", "alora_invocation_tokens": list(CALL)}
    return save_peft("LoraConfig", config, tiny.root / "base", tiny.root / "activated", std=0.1)


async def test_with_and_without_the_invocation_in_one_batch_twice(tiny: Tiny, folder: Path) -> None:
    plain = prompt_of(3, 70)
    rows = {
        "without": plain,
        "half of it": (*plain, *CALL[:2]),
        "early": (*CALL, *plain),
        "late": (*plain, *CALL),
        "twice, of which the last counts": (*plain[:10], *CALL, *plain[10:40], *CALL, *plain[40:]),
    }
    base, activated = Oracle(tiny.root / "base"), WholePasses(tiny.root / "base", folder)
    async with running(tiny, max_num_batched_tokens=64) as engine:
        for _ in range(2):
            asked = [request(prompt, adapter) for prompt in rows.values() for adapter in ("activated", None)]
            answers = await ask_all(engine, asked)
            for number, (name, prompt) in enumerate(rows.items()):
                ours, bases = answers[2 * number : 2 * number + 2]
                assert_float32_parity(base, prompt, bases, 1e-4)
                assert_float32_parity(base if name in ("without", "half of it") else activated, prompt, ours, 1e-4)


def test_the_invocation_makes_a_difference(tiny: Tiny, folder: Path) -> None:
    prompt = [*prompt_of(3, 70), *CALL]
    assert WholePasses(tiny.root / "base", folder).greedy(prompt, 16) != Oracle(tiny.root / "base").greedy(prompt, 16)
