"""The head beside a bottleneck adapter: kept where it differs from the base's, refused where it is of another sort."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.bottleneck.kind import Bottleneck
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import ServingForm
from graftwork.errors import Refused
from support.bottleneck import HEAD
from support.fixtures import Tiny

Grown = Callable[[str], Path]


def account(folder: Path, outline: Outline) -> Account:
    return account_folder(folder, outline, max_rank=64)


class OneWeight:
    """A base of which only the head is asked for."""

    def __init__(self, values: Any) -> None:
        self._weight = torch.from_numpy(values)

    def weight(self, path: str) -> torch.Tensor:
        assert path == "lm_head"
        return self._weight

    def bias(self, path: str) -> torch.Tensor | None:
        raise AssertionError("not asked for")


def form(folder: Path, outline: Outline, base_head: Any) -> ServingForm:
    return Bottleneck().serving_form(AdapterFolder.open(folder), outline, torch.float32, OneWeight(base_head))


def test_a_head_is_kept_only_where_it_is_not_the_bases_own(tiny: Tiny, grown: Grown) -> None:
    folder = grown("head")
    line = next(line for line in account(folder, tiny.outline).tensors if line.name == "lm_head.weight")
    assert line.used and "output head" in line.reason
    own = load_file(folder / HEAD)["lm_head.weight"]
    places = [part.site.place for part in form(folder, tiny.outline, own).parts]
    assert places == ["mlp"] * tiny.outline.num_layers
    assert [part.site.place for part in form(folder, tiny.outline, own + 1).parts] == [*places, "head"]


def test_a_head_that_differs_from_a_tied_one_is_refused(tiny: Tiny, grown: Grown) -> None:
    folder = grown("head")
    tied = replace(tiny.outline, ties=(("lm_head.weight", "model.embed_tokens.weight"),))
    own = load_file(folder / HEAD)["lm_head.weight"]
    assert len(form(folder, tied, own).parts) == tiny.outline.num_layers
    with pytest.raises(Refused, match="embedding as well"):
        form(folder, tied, own + 1)


def _wrong_shape(head: dict[str, Any]) -> None:
    head["lm_head.weight"] = head["lm_head.weight"][:-1]


def _not_a_number(head: dict[str, Any]) -> None:
    head["lm_head.weight"][0, 0] = np.nan


def _another(head: dict[str, Any]) -> None:
    head["heads.x.0.weight"] = head["lm_head.weight"]


def _none(head: dict[str, Any]) -> None:
    head["x"] = head.pop("lm_head.weight")


@pytest.mark.parametrize(
    ("damage", "word"),
    [(_wrong_shape, "needs [256, 64]"), (_not_a_number, "NaN"), (_another, "heads.x.0"), (_none, "is missing")],
)
def test_a_damaged_head_is_refused_by_tensor(
    tiny: Tiny, grown: Grown, damage: Callable[[dict[str, Any]], None], word: str
) -> None:
    folder = grown("head")
    head = load_file(folder / HEAD)
    damage(head)
    save_file(head, folder / HEAD)
    made = account(folder, tiny.outline)
    assert not made.ok and word in " ".join(made.problems)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (None, "head_config.json"),
        ("{", "JSON"),
        ("[]", "JSON object"),
        ('{"config": {"head_type": "causal_lm"}}', "causal_lm"),
    ],
)
def test_a_head_of_another_sort_is_refused(tiny: Tiny, grown: Grown, text: str | None, word: str) -> None:
    folder = grown("head")
    (folder / "head_config.json").unlink()
    if text is not None:
        (folder / "head_config.json").write_text(text)
    made = account(folder, tiny.outline)
    assert not made.ok and word in " ".join(made.problems)


def test_a_truncated_head_and_a_base_without_a_plain_head_are_refused(tiny: Tiny, grown: Grown) -> None:
    folder = grown("head")
    assert "plain matrix" in account(folder, replace(tiny.outline, head=None)).problems[0]
    (folder / HEAD).write_bytes((folder / HEAD).read_bytes()[:-4])
    assert HEAD in account(folder, tiny.outline).problems[0]


def test_a_head_config_without_weights_is_no_head(tiny: Tiny, grown: Grown) -> None:
    folder = grown("seq_bn")
    (folder / "head_config.json").write_text(json.dumps({"config": None}))
    assert account(folder, tiny.outline).ok
