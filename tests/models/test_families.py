"""Other families than Llama's: their layers, embedding and head are sites as well, and PEFT's answers are ours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graftwork.errors import Refused
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.edited import Tensors, edited
from support.engines import ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity
from support.tiny import make_base, save_peft

#: What is special about each: biases, fused layers, a scaled embedding, multipliers, a parallel layer, a biased head.
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen2": {},
    "Qwen3": {"head_dim": 16},
    "Gemma": {"head_dim": 16},
    "Granite": {"logits_scaling": 2.0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5},
    "Olmo2": {},
    "Glm4": {"head_dim": 16},
    "Phi": {},
    "GPTNeoX": {"num_key_value_heads": None},
}


def prepared(folder: Path, architecture: str, **changes: Any) -> Tiny:
    base = make_base(folder / "base", architecture=architecture, **changes)
    settings = Settings(
        home=folder / "home", base=str(base), dtype="float32", kv_cache_bytes=1 << 22, adapter_cache_bytes=1 << 22
    )
    return Tiny(folder, settings, prepare_base(settings))


@pytest.mark.parametrize("family", FAMILIES)
async def test_layers_and_both_ends_answer_as_peft(family: str, tmp_path: Path) -> None:
    tiny = prepared(tmp_path, family, **FAMILIES[family])
    ends = [site.path.rpartition(".")[2] for site in (tiny.outline.embed, tiny.outline.head) if site is not None]
    assert len(ends) == 2
    for folder, targets in (("layers", "all-linear"), ("ends", ends)):
        save_peft(
            "LoraConfig", {"r": 4, "lora_alpha": 8, "target_modules": targets}, tiny.base.folder, tmp_path / folder
        )
    rows = [(prompt_of(n, 12 + 9 * n), name) for n, name in enumerate(("layers", None, "ends", "layers"))]
    async with running(tiny) as engine:
        answers = await ask_all(engine, [request(prompt, name, max_tokens=8) for prompt, name in rows])
    for (prompt, name), answer in zip(rows, answers, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's own, where embedding and head are tied
            oracle = Oracle(tiny.base.folder, tmp_path / name if name else None)
        assert_float32_parity(oracle, prompt, answer, 1e-4)


async def test_dora_on_a_head_whose_stored_copy_has_another_bias(tmp_path: Path) -> None:
    tiny = prepared(tmp_path, "Phi")
    config = {"r": 4, "use_dora": True, "target_modules": ["q_proj", "lm_head"]}
    save_peft("LoraConfig", config, tiny.base.folder, tmp_path / "made")
    folder = edited(tmp_path / "made", tmp_path / "head", _shift_bias)
    prompt = prompt_of(3, 20)
    async with running(tiny) as engine:
        answer = await ask(engine, request(prompt, "head", max_tokens=8))
    assert_float32_parity(Oracle(tiny.base.folder, folder), prompt, answer, 1e-4)
    assert Oracle(tiny.base.folder, folder).greedy(list(prompt), 8) != Oracle(
        tiny.base.folder, tmp_path / "made"
    ).greedy(list(prompt), 8), "the copy must differ, or parity proves nothing"


def _shift_bias(tensors: Tensors) -> Tensors:
    [name] = [name for name in tensors if name.endswith("lm_head.base_layer.bias")]
    return tensors | {name: tensors[name] + np.linspace(-1, 1, len(tensors[name]), dtype=np.float32)}


async def test_a_config_that_lies_about_heads_is_refused(tmp_path: Path) -> None:
    tiny = prepared(tmp_path, "GPTNeoX", num_key_value_heads=2)  # a field that this family does not read
    with pytest.raises(Refused, match="4 query and 4 key heads of 16; its config says 4 and 2"):
        async with running(tiny):
            pass
