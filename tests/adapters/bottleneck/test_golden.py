"""What the `adapters` library answers (goldens, made by make_golden.py), what our engine answers, and the oracle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.adapters.account import account_folder
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.bottleneck import GOLDEN, BottleneckOracle
from support.engines import FolderSource, ask, request, running
from support.fixtures import Tiny
from support.golden_base import golden_prompts, make_golden_base
from support.oracle import Oracle
from support.tiny import byte_tokenizer

NAMES = sorted(file.parent.name for file in GOLDEN.glob("*/adapter_config.json"))


MODEL_TYPES = json.loads((GOLDEN / "bases.json").read_text())
OF_EACH = [(name, json.loads((GOLDEN / name / "adapter_config.json").read_text())["model_type"]) for name in NAMES]
Goldens = Callable[[str], Tiny]
EVERY_GOLDEN = pytest.mark.parametrize(("name", "model_type"), OF_EACH)


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Goldens:
    """The base that the library ran on, by model type."""

    @cache
    def made(model_type: str) -> Tiny:
        root = tmp_path_factory.mktemp(model_type)
        digest = make_golden_base(root / "base", model_type)
        assert digest == MODEL_TYPES[model_type], "this is not the base that the library ran on"
        byte_tokenizer().save_pretrained(root / "base")
        settings = Settings(home=root / "home", base=str(root / "base"), dtype="float32", kv_cache_bytes=1 << 22)
        return Tiny(GOLDEN, settings, prepare_base(settings))

    return made


def answers(name: str) -> list[tuple[list[int], torch.Tensor]]:
    """Per prompt: the tokens of prompt and continuation, and the log-probabilities [tokens, vocab] after each."""
    stored: Any = np.load(GOLDEN / name / "answers.npz")
    return [
        (stored[f"tokens{n}"].tolist(), torch.from_numpy(stored[f"logprobs{n}"])) for n in range(len(golden_prompts()))
    ]


@EVERY_GOLDEN
def test_the_oracle_is_the_library(goldens: Goldens, name: str, model_type: str) -> None:
    golden = goldens(model_type)
    oracle = BottleneckOracle(Path(golden.settings.base), GOLDEN / name)
    for prompt, (tokens, logprobs) in zip(golden_prompts(), answers(name), strict=True):
        assert (oracle.logprobs(tokens) - logprobs).abs().max() < 5e-5
        assert oracle.greedy(prompt, len(tokens) - len(prompt))[0] == tokens[len(prompt) :]


@EVERY_GOLDEN
def test_every_tensor_is_used_and_every_golden_differs_from_the_base(
    goldens: Goldens, name: str, model_type: str
) -> None:
    golden = goldens(model_type)
    account = account_folder(GOLDEN / name, golden.outline, max_rank=64)
    assert account.ok, account.problems
    assert account.kind == "bottleneck" and account.tensors and not account.unused
    assert not any("no effect" in warning for warning in account.warnings)
    base = Oracle(Path(golden.settings.base))
    assert any((base.logprobs(tokens) - logprobs).abs().max() > 0.1 for tokens, logprobs in answers(name))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
async def test_the_engine_answers_as_the_library(goldens: Goldens, model_type: str) -> None:
    """All goldens of a base in shared batches."""
    golden = goldens(model_type)
    asked = [(name, n) for name, of in OF_EACH if of == model_type for n in range(len(golden_prompts()))]
    async with running(golden, FolderSource(GOLDEN), max_num_batched_tokens=64) as engine:
        got = await asyncio.gather(
            *(ask(engine, request(tuple(golden_prompts()[n]), name, max_tokens=6)) for name, n in asked)
        )
    for (name, n), answer in zip(asked, got, strict=True):
        tokens, logprobs = answers(name)[n]
        start = len(golden_prompts()[n])
        assert answer.tokens == tokens[start:], name
        wanted = [float(logprobs[at - 1, tokens[at]]) for at in range(start, len(tokens))]
        assert max(abs(a - b) for a, b in zip(answer.chosen, wanted, strict=True)) < 1e-4, name
