"""Extreme weights: finite, yet near the end of float32; the row answers or fails alone, and never as another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from graftwork.adapters.account import account_folder
from graftwork.errors import GenerationFailed, Refused
from support.edited import Tensors, edited
from support.engines import Answer, FolderSource, ask, prompt_of, request, running, settled
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity

Q0 = "base_model.model.model.layers.0.self_attn.q_proj"
D3 = "base_model.model.model.layers.3.mlp.down_proj"


#: What becomes of each: PEFT's own answer, a refusal when it loads, or no finite number on the way.
OUTCOMES = {"large": Answer, "attention": GenerationFailed, "huge-a": Refused, "huge-b": Refused}


def one_value(name: str, value: float, tensors: Tensors) -> Tensors:
    tensors[name][3, 2] = np.float32(value)
    return tensors


def attention(tensors: Tensors) -> Tensors:
    """Queries and keys of about 1e36 each, so that no score is finite."""
    large = {name: value * np.float32(1e18) for name, value in tensors.items() if "q_proj" in name or "k_proj" in name}
    return tensors | large


@pytest.fixture
def source(tiny: Tiny, tmp_path: Path) -> FolderSource:
    """a1 as it is, and copies of it with values near the end of float32 and bfloat16."""
    edited(tiny.adapter("a1"), tmp_path / "a1")
    edited(tiny.adapter("a1"), tmp_path / "large", lambda old: one_value(f"{Q0}.lora_A.weight", 1e18, old))
    edited(tiny.adapter("a1"), tmp_path / "attention", attention)
    edited(tiny.adapter("a1"), tmp_path / "huge-a", lambda old: one_value(f"{Q0}.lora_A.weight", 1e38, old))
    edited(tiny.adapter("a1"), tmp_path / "huge-b", lambda old: one_value(f"{D3}.lora_B.weight", -3e38, old))
    return FolderSource(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_such_a_row_answers_or_fails_alone_and_whoever_comes_next_is_served_rightly(
    tiny: Tiny, source: FolderSource, dtype: str
) -> None:
    prompt = prompt_of(4, 30)
    # Room for two: whoever comes after has the slot and the memory of one that went before.
    room = 256 << 10 if dtype == "float32" else 128 << 10
    async with running(tiny, source, dtype=dtype, adapter_cache_bytes=room) as engine:
        base = await ask(engine, request(prompt))
        want = await ask(engine, request(prompt, "a1"))
        for name in (*OUTCOMES, "large", "attention"):
            extreme, good, plain = await asyncio.gather(
                ask(engine, request(prompt, name)),
                ask(engine, request(prompt, "a1")),
                ask(engine, request(prompt)),
                return_exceptions=True,
            )
            assert isinstance(extreme, OUTCOMES[name]), extreme
            if isinstance(extreme, Answer) and dtype == "float32":
                assert_float32_parity(Oracle(tiny.root / "base", source.root / name), prompt, extreme, 1e-4)
            for got, right in ((good, want), (plain, base)):
                assert isinstance(got, Answer)
                assert got.tokens == right.tokens and got.chosen == pytest.approx(right.chosen, abs=1e-2)
        await settled(engine)
        after = await ask(engine, request(prompt, "a1"))
        # Bits are promised in deterministic mode only: elsewhere what a library sums up first may depend on the moment.
        assert after.tokens == want.tokens and after.chosen == pytest.approx(
            want.chosen, abs=1e-5 if dtype == "float32" else 1e-2
        )
        if dtype == "float32":
            assert_float32_parity(Oracle(tiny.root / "base", tiny.adapter("a1")), prompt, after, 1e-4)


@pytest.mark.parametrize("name", ["huge-a", "huge-b"])
def test_a_delta_whose_norm_is_beyond_float32_is_refused_by_its_tensor(
    tiny: Tiny, source: FolderSource, name: str
) -> None:
    made = account_folder(source.root / name, tiny.outline, max_rank=64)
    assert not made.ok and "overflows float32" in " ".join(made.problems)
    assert (Q0 if name == "huge-a" else D3) in " ".join(made.problems)
