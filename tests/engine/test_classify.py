"""Classification: class logits as transformers and PEFT give them, heads of several sizes in one batch."""

from __future__ import annotations

import asyncio
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from graftwork.engine.request import Pooled
from graftwork.errors import InvalidRequest, Refused
from support.classifiers import ClassifierOracle, make_classifier
from support.engines import FolderSource, ask, prompt_of, reading, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity

FP32 = 1e-4
LABELS = {"three": 3, "five": 5, "one": 1}
NAMES = ("bad", "so-so", "good")
LENGTHS = (1, 5, 64, 65, 130, 17)


@pytest.fixture(scope="module")
def classifiers(tiny: Tiny) -> Tiny:
    """The tiny base with adapters for 3, 5 and 1 classes; those of the first have names."""
    base = tiny.root / "base"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the base has no head to begin with
        make_classifier(base, tiny.root / "three", labels=3)
        make_classifier(base, tiny.root / "five", labels=5, seed=2, r=4, target_modules=["q_proj", "v_proj"])
        make_classifier(base, tiny.root / "one", labels=1, seed=3)
    config = {"id2label": dict(enumerate(NAMES))}
    (tiny.root / "three" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return tiny


def oracle(root: Path, adapter: str, dtype: torch.dtype = torch.float32) -> ClassifierOracle:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ClassifierOracle(root / "base", root / adapter, LABELS[adapter], dtype)


def assert_parity(tiny: Tiny, prompt: Sequence[int], adapter: str, got: Pooled) -> None:
    want = oracle(tiny.root, adapter).logits(list(prompt))
    assert len(got.values) == len(got.labels) == LABELS[adapter]
    assert (torch.tensor(got.values) - want).abs().max() <= FP32 * max(1.0, float(want.abs().max()))
    assert got.prompt_tokens == len(prompt)


@pytest.mark.parametrize("adapter", LABELS)
async def test_alone(classifiers: Tiny, adapter: str) -> None:
    async with running(classifiers, max_num_batched_tokens=64) as engine:
        for length in LENGTHS:
            prompt = prompt_of(length, length)
            assert_parity(classifiers, prompt, adapter, await engine.pool(reading(prompt, adapter, "classes")))


@pytest.mark.parametrize("budget", [64, 512])
async def test_heads_of_several_sizes_beside_rows_that_generate_and_embed(classifiers: Tiny, budget: int) -> None:
    rows = [(prompt_of(index, length), list(LABELS)[index % 3]) for index, length in enumerate(LENGTHS)]
    async with running(classifiers, max_num_batched_tokens=budget) as engine:
        said = asyncio.gather(
            *(ask(engine, request(prompt_of(30 + n, 20 + n), name)) for n, name in enumerate((None, "a1", "a2")))
        )
        embedded = asyncio.gather(*(engine.pool(reading(prompt, adapter)) for prompt, adapter in rows))
        classified = await asyncio.gather(*(engine.pool(reading(*row, "classes")) for row in rows))
        for row, got in zip(rows, classified, strict=True):
            assert_parity(classifiers, *row, got)
        for (prompt, adapter), got in zip(rows, await embedded, strict=True):
            want = oracle(classifiers.root, adapter).hidden(list(prompt)).mean(0)
            assert torch.allclose(torch.tensor(got.values), want, rtol=1e-3, atol=1e-3)
            assert got.labels == ()
        for n, (name, answer) in enumerate(zip((None, "a1", "a2"), await said, strict=True)):
            plain = Oracle(classifiers.root / "base", classifiers.root / name if name else None)
            assert_float32_parity(plain, prompt_of(30 + n, 20 + n), answer, FP32)


async def test_labels_have_the_names_of_the_adapters_config(classifiers: Tiny) -> None:
    async with running(classifiers) as engine:
        assert (await engine.pool(reading((1, 2), "three", "classes"))).labels == NAMES
        assert (await engine.pool(reading((1, 2), "five", "classes"))).labels == tuple(f"LABEL_{n}" for n in range(5))


async def test_bfloat16_is_as_close_to_the_truth_as_pefts_own_run(classifiers: Tiny) -> None:
    rows = [(prompt_of(index, length), "three") for index, length in enumerate(LENGTHS)]
    exact, rounded = (oracle(classifiers.root, "three", dtype) for dtype in (torch.float32, torch.bfloat16))
    truth = torch.stack([exact.logits(list(prompt)) for prompt, _ in rows])
    theirs = (torch.stack([rounded.logits(list(prompt)) for prompt, _ in rows]) - truth).abs().max()
    async with running(classifiers, dtype="bfloat16") as engine:
        made = await asyncio.gather(*(engine.pool(reading(*row, "classes")) for row in rows))
    ours = (torch.tensor([one.values for one in made]) - truth).abs().max()
    assert ours <= 1.5 * theirs + 0.02


async def test_a_classifier_generates_nothing_and_composes_with_nothing(classifiers: Tiny) -> None:
    async with running(classifiers) as engine:
        with pytest.raises(InvalidRequest, match=r"three:1\.0\.0 is a classifier.*/v1/classify") as caught:
            await ask(engine, request((1, 2, 3), "three"))
        assert caught.value.field == "model"
        with pytest.raises(Refused, match=r"three:1\.0\.0 cannot be composed"):
            await engine.pool(reading((1, 2, 3), (("a1", 0.5), ("three", 0.5)), "classes"))
        assert_parity(classifiers, (1, 2, 3), "three", await engine.pool(reading((1, 2, 3), "three", "classes")))


async def test_a_head_for_classes_that_may_hold_together_is_refused(classifiers: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(classifiers.root / "three", tmp_path / "several"))
    (folder / "config.json").write_text(json.dumps({"problem_type": "multi_label_classification"}), encoding="utf-8")
    async with running(classifiers, FolderSource(tmp_path)) as engine:
        with pytest.raises(Refused) as caught:
            await engine.pool(reading((1, 2, 3), "several", "classes"))
        assert "problem_type" in " ".join(caught.value.problems)
