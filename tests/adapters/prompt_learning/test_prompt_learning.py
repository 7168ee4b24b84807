"""Prompt learning: what it refuses by field or tensor, and what a part does to a piece of a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.prompt_learning.parts import PrefixPart, PromptPart
from graftwork.adapters.serving_form import Site, Weights
from support.edited import edited
from support.fixtures import Tiny
from support.tiny import save_peft

CONFIGS = {"prefix": "PrefixTuningConfig", "prompt": "PromptTuningConfig", "p-tuning": "PromptEncoderConfig"}
Whole = dict[str, Path]


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root, config = tmp_path_factory.mktemp("whole"), {"num_virtual_tokens": 4}
    return {name: save_peft(kind, config, tiny.base.folder, root / name) for name, kind in CONFIGS.items()}


def account(folder: Path, tiny: Tiny) -> Account:
    return account_folder(folder, tiny.outline, max_rank=8)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"num_virtual_tokens": 0}, "num_virtual_tokens: 0"),
        ({"num_virtual_tokens": None}, "num_virtual_tokens: None"),
        ({"num_virtual_tokens": 512}, "num_virtual_tokens: 512"),
        ({"num_virtual_tokens": 5}, "prompt_embeddings: shape [4, "),
        ({"token_dim": 65}, "token_dim: 65"),
        ({"num_transformer_submodules": 2}, "num_transformer_submodules: 2"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"gain": 2.0}, "gain"),
    ],
)
def test_refuses_a_config_by_its_field(
    whole: Whole, tiny: Tiny, tmp_path: Path, kind: str, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole[kind], tmp_path / "edited", **changes), tiny)
    assert not made.ok and not any(line.used for line in made.tensors)
    assert word in " ".join(made.problems)


@pytest.mark.parametrize("changes", [{"num_layers": 5}, {"num_attention_heads": 4}])
def test_a_prefix_for_another_shape_of_base_is_refused(
    whole: Whole, tiny: Tiny, tmp_path: Path, changes: dict[str, Any]
) -> None:
    made = account(edited(whole["prefix"], tmp_path / "edited", **changes), tiny)
    assert not made.ok and next(iter(changes)) in made.problems[0]


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_missing_and_an_unknown_tensor_are_named(whole: Whole, tiny: Tiny, tmp_path: Path, kind: str) -> None:
    renamed = edited(whole[kind], tmp_path / "edited", lambda old: {"mystery": np.ones(3, np.float32)})
    problems = " ".join(account(renamed, tiny).problems)
    assert "prompt_embeddings is missing" in problems and "mystery" in problems


@pytest.mark.parametrize("kind", ["prompt", "p-tuning"])
def test_a_base_whose_embedding_cannot_be_changed_refuses_embeddings(whole: Whole, tiny: Tiny, kind: str) -> None:
    made = account_folder(whole[kind], replace(tiny.outline, embed=None), max_rank=8)
    assert not made.ok and "embedding" in made.problems[0]


@pytest.mark.parametrize(("first", "tokens"), [(0, 3), (2, 2), (3, 6), (0, 9), (5, 1), (4, 1), (50, 1)])
def test_only_virtual_tokens_of_a_chunk_are_overwritten(first: int, tokens: int) -> None:
    learned = torch.arange(5 * 6.0).view(5, 6) + 1
    weights = Weights.of(learned)
    ids, embeddings = torch.zeros(tokens, dtype=torch.int64), torch.zeros(tokens, 6)
    PromptPart(Site("embed"), weights).act(ids, embeddings, first)
    keys, values = torch.zeros(tokens, 2, 3), torch.zeros(tokens, 2, 3)
    PrefixPart(Site("keys", 1), weights, Weights.of(-learned)).act(keys, values, first)
    for token in range(tokens):
        want = learned[first + token] if first + token < 5 else torch.zeros(6)
        assert torch.equal(embeddings[token], want)
        assert torch.equal(keys[token].flatten(), want) and torch.equal(values[token].flatten(), -want)
