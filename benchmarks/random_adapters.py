"""Adapters of random numbers for benchmarks: PEFT folders in bfloat16, made in milliseconds, no two alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from graftwork.adapters.outline import LinearSite, Outline

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL_SEVEN = (*ATTENTION, "gate_proj", "up_proj", "down_proj")
#: Seeds begin at this distance in one stock of random numbers.
_STRIDE, _STOCK = 997, 1 << 22


def mixed_ranks(index: int) -> int:
    """Rank 8 and 16 by turns."""
    return 8 + 8 * (index % 2)


def targeted(outline: Outline, projections: Iterable[str]) -> Iterator[LinearSite]:
    """The linear layers that an adapter of these projections changes."""
    wanted = set(projections)
    return (site for site in outline.linears if site.path.rpartition(".")[2] in wanted)


def own_bytes(outline: Outline, rank: int, projections: Iterable[str], itemsize: int) -> int:
    """Bytes of one adapter's tensors where a number takes `itemsize`."""
    return sum(rank * (site.in_features + site.out_features) for site in targeted(outline, projections)) * itemsize


def write_adapter(
    folder: Path, outline: Outline, *, rank: int, seed: int, projections: tuple[str, ...] = ALL_SEVEN
) -> Path:
    """A PEFT LoRA in `folder`, over what was there; each seed below 4,000 gives other bytes."""
    assert 0 <= seed < _STOCK // _STRIDE, "further seeds would begin where others do"
    folder.mkdir(parents=True, exist_ok=True)
    take, tensors = _taker(seed * _STRIDE), {}
    for site in targeted(outline, projections):
        tensors[f"base_model.model.{site.path}.lora_A.weight"] = take(rank, site.in_features)
        tensors[f"base_model.model.{site.path}.lora_B.weight"] = take(site.out_features, rank)
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": outline.source,
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(projections),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _taker(begin: int) -> Callable[[int, int], Tensor]:
    """Takes one matrix after another from the stock, round and round."""
    stock, at = _stock(), begin

    def take(rows: int, columns: int) -> Tensor:
        nonlocal at
        count = rows * columns
        at = at % len(stock) if at % len(stock) + count <= len(stock) else 0
        at += count
        return stock[at - count : at].clone().view(rows, columns)

    return take


@cache
def _stock() -> Tensor:
    """[numbers] bfloat16, small enough for logits to stay near the base's."""
    return (0.1 * torch.randn(_STOCK, generator=torch.Generator().manual_seed(0))).to(torch.bfloat16)
