"""A LoRA's config: what would change the answer is honoured or refused with what to do, for every base."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from graftwork.adapters.account import Account, account_folder
from support.edited import edited
from support.fixtures import Tiny

#: Every initialisation of PEFT after which A and B belong to a changed base, as its config may spell it.
CHANGES_BASE = ("pissa", "PiSSA", "pissa_niter_16", "olora", "OLoRA", "loftq", "corda", "CorDA", "lora_ga")


def account(tiny: Tiny, folder: Path, **config: Any) -> Account:
    return account_folder(edited(tiny.adapter("a1"), folder, **config), tiny.outline, max_rank=64)


@pytest.mark.parametrize("init", CHANGES_BASE)
def test_what_was_trained_on_a_changed_base_is_refused_with_the_conversion(
    tiny: Tiny, tmp_path: Path, init: str
) -> None:
    made = account(tiny, tmp_path / "a", init_lora_weights=init)
    [problem] = made.problems
    assert init in problem and "path_initial_model_for_weight_conversion" in problem
    assert not any(entry.used for entry in made.tensors)


@pytest.mark.parametrize("init", [True, False, None, "gaussian", "eva", "orthogonal"])
def test_what_was_trained_on_the_base_as_it_is_loads(tiny: Tiny, tmp_path: Path, init: bool | str | None) -> None:
    made = account(tiny, tmp_path / "a", init_lora_weights=init)
    assert made.ok, made.problems


@pytest.mark.parametrize("targets", ["auto", ["auto"], "", [], "AUTO", ["all-linear"], ["*"]])
def test_targets_that_mean_no_module_are_refused_and_not_nothing(tiny: Tiny, tmp_path: Path, targets: Any) -> None:
    made = account(tiny, tmp_path / "a", target_modules=targets)
    assert not made.ok
    assert "target_modules does not cover modules that have weights" in " ".join(made.problems)


def test_the_largest_rank_of_a_pattern_counts_against_the_limit(tiny: Tiny, tmp_path: Path) -> None:
    import numpy as np

    place = "layers.0.self_attn.q_proj"

    def widened(tensors: dict[str, Any]) -> dict[str, Any]:
        for half, axis in (("lora_A", 0), ("lora_B", 1)):
            name = f"base_model.model.model.{place}.{half}.weight"
            tensors[name] = np.concatenate([tensors[name]] * 4, axis)
        return tensors

    folder = edited(tiny.adapter("a1"), tmp_path / "a", widened, rank_pattern={place: 32})
    made = account_folder(folder, tiny.outline, max_rank=16)
    [problem] = made.problems
    assert place in problem and "rank 32" in problem and "max_rank 16" in problem
    assert account_folder(folder, tiny.outline, max_rank=32).rank == 32


def test_every_known_layout_of_a_base_name_is_a_matter_of_words_only(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> NoReturn:
        raise AssertionError(f"somebody asked the network: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    (tmp_path / "run-7").mkdir()
    names = ("HuggingFaceTB/SmolLM2-135M", "private/there-is-none", str(tmp_path / "run-7"), None, "unsloth/B-bnb-4bit")
    for number, name in enumerate(names):
        made = account(tiny, tmp_path / str(number), base_model_name_or_path=name)
        assert made.ok and [text for text in made.warnings if "base_model_name_or_path" in text]


def wrong(field: str, *values: object) -> list[tuple[dict[str, object], str]]:
    return [({field: value}, field) for value in values]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        *wrong("r", 0, -1, "8", 8.0, None, True, [8], 1 << 40),
        *wrong("lora_alpha", None, "16", [16], True, 1e31, 10**400),
        *wrong("peft_type", None, "", "lora", 7, ["LORA"]),
        *wrong("target_modules", None, 7, {}, [1], [["q_proj"]]),
        *wrong("use_rslora", "true", 1, []),
        *wrong("bias", "some", 1, True),
        *wrong("modules_to_save", 7, [7], {"lm_head": 1}),
        *wrong("trainable_token_indices", [-1], [1.5], {"x": 1}, "7"),
        *wrong("new_config", {"of": "tomorrow"}, [1], 3.5, True),
    ],
    ids=lambda value: json.dumps(value, default=str)[:40] if isinstance(value, dict) else "",
)
def test_a_damaged_field_is_refused_by_its_name(
    tiny: Tiny, tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    made = account(tiny, tmp_path / "a", **changes)
    assert not made.ok and any(field in problem for problem in made.problems)


def test_harmless_fields_of_tomorrow_are_listed_as_warnings(tiny: Tiny, tmp_path: Path) -> None:
    made = account(tiny, tmp_path / "a", note="of tomorrow", new_flag=False, new_list=[], new_thing=None)
    assert made.ok
    assert [text for text in made.warnings if text.startswith("note: unknown field")]
