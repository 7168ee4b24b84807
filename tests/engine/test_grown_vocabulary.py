"""A vocabulary that an adapter made larger: its rows read and write the new tokens, and no other row ever does."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from graftwork.adapters.account import account_folder
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.grammar import Grammar
from graftwork.errors import InvalidRequest
from support.edited import edited
from support.engines import FolderSource, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.tiny import save_peft

GROWN = 260
NEW = set(range(256, GROWN))


@pytest.fixture(scope="module")
def root(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beside a1 an adapter `grown` with four tokens more, which its head likes best of all."""
    root = tmp_path_factory.mktemp("grown")
    model = AutoModelForCausalLM.from_pretrained(tiny.root / "base")
    model.resize_token_embeddings(GROWN, mean_resizing=False)
    with torch.no_grad():
        model.lm_head.weight[256:] = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    config = {"r": 8, "target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]}
    save_peft("LoraConfig", config, tiny.root / "base", root / "grown", model=model)
    names = {f"<new-{number}>": number for number in sorted(NEW)}
    (root / "grown" / "added_tokens.json").write_text(json.dumps(names))
    edited(tiny.adapter("a1"), root / "a1")
    return root


@pytest.fixture
async def engine(tiny: Tiny, root: Path) -> AsyncIterator[AsyncEngine]:
    async with running(tiny, FolderSource(root)) as made:
        yield made


@pytest.mark.parametrize("temperature", [0.0, 2.0])
async def test_new_tokens_come_from_their_adapter_alone(engine: AsyncEngine, temperature: float) -> None:
    names = ("grown", None, "a1", "grown", None)
    rows = [request(prompt_of(seed, 9), name, temperature=temperature, seed=seed, max_tokens=60, logprobs=20)
            for seed, name in enumerate(names)]  # fmt: skip
    for name, answer in zip(names, await ask_all(engine, rows), strict=True):
        seen = {top.token_id for entry in answer.logprobs for top in entry.top} | set(answer.tokens)
        assert bool(seen & NEW) == (name == "grown") and max(seen) < GROWN


async def test_new_tokens_are_read_for_their_adapter_alone(engine: AsyncEngine) -> None:
    by_ids, by_text = await ask_all(engine, [request((66, 67, 258), "grown"), request("cd<new-258>", "grown")])
    assert by_ids.finish_reason == by_text.finish_reason == "length" and by_text.prompt_tokens == 3
    for name in (None, "a1"):
        with pytest.raises(InvalidRequest, match="258"):
            await ask(engine, request((1, 2, 258), name))


async def test_a_grammar_is_read_by_each_rows_own_words(engine: AsyncEngine) -> None:
    """T61: the same grammar, prepared for the base and for an adapter whose tokens it names."""
    grammar, new, cuts = Grammar("regex", "(<new-257>|x){3}"), ((257, 100.0),), {"logprobs": None, "max_tokens": 60}
    own = replace(request(prompt_of(1, 9), "grown", logit_bias=new, **cuts), grammar=grammar)
    bases = [replace(request(prompt_of(1, 9), name, seed=3, temperature=1.0, **cuts), grammar=grammar)
             for name in (None, "a1")]  # fmt: skip
    first, grown, second = await ask_all(engine, [bases[0], own, bases[1]])
    assert grown.tokens == [257] * 3 and grown.text == "<new-257>" * 3
    for answer in (first, second):
        assert max(answer.tokens) < 256 and re.fullmatch("(<new-257>|x){3}", answer.text)
        assert answer.finish_reason == "stop"


def test_a_head_that_is_larger_than_the_embedding_is_refused_with_both_sizes(
    tiny: Tiny, root: Path, tmp_path: Path
) -> None:
    folder = edited(
        root / "grown",
        tmp_path / "head",
        lambda old: {key: value for key, value in old.items() if "embed_tokens" not in key},
        modules_to_save=["lm_head"],
    )
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert not made.ok and "260 rows" in " ".join(made.problems) and "256" in " ".join(made.problems)


def test_new_tokens_without_names_are_told_of(tiny: Tiny, root: Path, tmp_path: Path) -> None:
    folder = edited(root / "grown", tmp_path / "nameless")
    (folder / "added_tokens.json").unlink()
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert made.ok and any("256 to 259" in warning for warning in made.warnings)
    named = account_folder(root / "grown", tiny.outline, max_rank=64)
    assert named.ok and not any("names" in warning for warning in named.warnings)
