"""Spellings: one adapter under every name, prefix, dtype and file that trainers give it answers as PEFT does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from graftwork.adapters.account import account_folder
from support.edited import Tensors, edited
from support.engines import FolderSource, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity

FP32 = 1e-4
PEFTS = "base_model.model.model."
PROMPT = prompt_of(11, 70)


def prefixed(prefix: str) -> Callable[[Tensors], Tensors]:
    return lambda old: {key.replace(PEFTS, prefix): value for key, value in old.items()}


#: The five of PEFT, of those who strip it and of those who wrap twice; then those of a text model in a larger one.
PREFIXES = (
    PEFTS,
    "base_model.model.",
    "model.",
    "",
    f"base_model.model.{PEFTS}",
    "base_model.model.language_model.model.",
    "base_model.model.model.language_model.",
    "language_model.model.",
    "module.model.",
)
CONFIGS: tuple[dict[str, Any], ...] = (
    {"target_modules": "all-linear"},
    {"target_modules": r".*\.(self_attn|mlp)\.[a-z]+_proj"},
    {"init_lora_weights": "gaussian"},
    *({"base_model_name_or_path": name}
      for name in ("another-base", "private/absent", "/home/someone/run-7", None, "unsloth/B-bnb-4bit")),
)  # fmt: skip


async def assert_all_answer_as_a1(tiny: Tiny, root: Path, names: list[str]) -> None:
    oracle = Oracle(tiny.root / "base", tiny.adapter("a1"))
    assert oracle.greedy(list(PROMPT), 16)[0] != Oracle(tiny.root / "base").greedy(list(PROMPT), 16)[0]
    async with running(tiny, FolderSource(root), adapter_cache_bytes=1 << 25) as engine:
        for answer in await ask_all(engine, [request(PROMPT, name) for name in names]):
            assert_float32_parity(oracle, PROMPT, answer, FP32)


async def test_every_prefix_of_the_keys(tiny: Tiny, tmp_path: Path) -> None:
    for number, prefix in enumerate(PREFIXES):
        edited(tiny.adapter("a1"), tmp_path / str(number), prefixed(prefix))
    await assert_all_answer_as_a1(tiny, tmp_path, [str(number) for number in range(len(PREFIXES))])


async def test_every_text_of_the_config_that_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    for number, config in enumerate(CONFIGS):
        edited(tiny.adapter("a1"), tmp_path / str(number), **config)
    await assert_all_answer_as_a1(tiny, tmp_path, [str(number) for number in range(len(CONFIGS))])


async def test_every_file_that_holds_the_tensors(tiny: Tiny, tmp_path: Path) -> None:
    whole, name = tiny.adapter("a1"), "adapter_model.safetensors"
    tensors = load_file(whole / name)
    for place in ("bin", "pt", "float64", "shards", "both"):
        shutil.copytree(whole, tmp_path / place)
        if place != "both":
            (tmp_path / place / name).unlink()
    torch.save(tensors, tmp_path / "bin" / "adapter_model.bin")
    torch.save(tensors, tmp_path / "pt" / "adapter_model.pt")
    torch.save({key: -value for key, value in tensors.items()}, tmp_path / "both" / "adapter_model.bin")
    save_file({key: value.double() for key, value in tensors.items()}, tmp_path / "float64" / name)
    for number in range(3):
        part = dict(list(tensors.items())[number::3])
        save_file(part, tmp_path / "shards" / f"adapter_model-{number + 1:05}-of-00003.safetensors")
    await assert_all_answer_as_a1(tiny, tmp_path, ["bin", "pt", "float64", "shards", "both"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
async def test_halves_are_widened_as_peft_widens_them(tiny: Tiny, tmp_path: Path, dtype: torch.dtype) -> None:
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "half"))
    file = folder / "adapter_model.safetensors"
    save_file({key: value.to(dtype) for key, value in load_file(file).items()}, file)
    oracle = Oracle(tiny.root / "base", folder)
    async with running(tiny, FolderSource(tmp_path)) as engine:
        assert_float32_parity(oracle, PROMPT, await ask(engine, request(PROMPT, "half")), FP32)


async def test_an_adapter_of_zeros_answers_as_the_base(tiny: Tiny, tmp_path: Path) -> None:
    edited(tiny.adapter("a1"), tmp_path / "zero",
           lambda old: {key: value * np.float32("lora_A" in key) for key, value in old.items()})  # fmt: skip
    async with running(tiny, FolderSource(tmp_path)) as engine:
        got = await ask(engine, request(PROMPT, "zero"))
        assert_float32_parity(Oracle(tiny.root / "base"), PROMPT, got, FP32)


@pytest.mark.filterwarnings("ignore")  # PEFT's own, of what is converted here
async def test_a_pissa_adapter_that_was_converted_as_the_refusal_says(tiny: Tiny, tmp_path: Path) -> None:
    """Trained on a changed base, saved as a plain LoRA of twice the rank: the same change of the base as it was."""
    base = tiny.root / "base"
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base),
        LoraConfig(r=4, init_lora_weights="pissa", target_modules=["q_proj"]),
    )
    model.peft_config["default"].init_lora_weights = True
    model.save_pretrained(tmp_path / "initial")
    model.peft_config["default"].init_lora_weights = "pissa"
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)
        want = model(input_ids=torch.tensor([PROMPT])).logits[0, -1].log_softmax(-1)
    model.peft_config["default"].base_model_name_or_path = "base"
    model.save_pretrained(tmp_path / "pissa")
    assert not account_folder(tmp_path / "pissa", tiny.outline, max_rank=64).ok
    model.save_pretrained(tmp_path / "plain", path_initial_model_for_weight_conversion=str(tmp_path / "initial"))
    assert account_folder(tmp_path / "plain", tiny.outline, max_rank=64).rank == 8
    async with running(tiny, FolderSource(tmp_path)) as engine:
        answer = await ask(engine, request(PROMPT, "plain", max_tokens=1))
    assert answer.tokens == [int(want.argmax())] and answer.chosen == pytest.approx([float(want.max())], abs=1e-3)
