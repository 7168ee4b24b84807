"""MemoryNeed: too much, or too little for a single page, is refused before the base is loaded, with the bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graftwork.engine import create
from graftwork.engine.memory_need import MemoryNeed, memory_need, memory_of_this_machine
from graftwork.errors import Refused
from support.engines import FolderSource
from support.fixtures import Tiny

FITS = MemoryNeed(base=100, kv_cache=50, kv_page=10, adapter_cache=40)


def test_what_fits_is_fine() -> None:
    FITS.check(190)


def test_more_than_there_is_names_every_number() -> None:
    with pytest.raises(Refused, match=r"190 bytes .*100 for the base, 50 for kv_cache_bytes, 40 for .*there are 189"):
        FITS.check(189)


def test_the_base_counts_in_the_dtype_that_is_served(tiny: Tiny) -> None:
    size = (tiny.base.folder / "model.safetensors").stat().st_size
    assert memory_need(tiny.settings, tiny.base, torch.float32).base == size
    assert memory_need(tiny.settings, tiny.base, torch.bfloat16).base == size // 2


def test_this_machine_has_some() -> None:
    assert memory_of_this_machine() > 1 << 20


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"adapter_cache_bytes": 1 << 60}, r"\d+ bytes of memory are needed: .* Lower one"),
        ({"kv_cache_bytes": 1 << 60}, r"\d+ bytes of memory are needed: .* Lower one"),
        ({"kv_cache_bytes": 1 << 20}, r"keys and values of this base needs \d+ bytes, more than .*1048576"),
    ],
)
def test_it_is_told_before_the_base_is_loaded(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], why: str
) -> None:
    from dataclasses import replace

    def load(*args: object) -> None:
        raise AssertionError("the base was loaded")

    monkeypatch.setattr(create, "load_model", load)
    wide = replace(tiny.outline, num_layers=128, linears=(replace(tiny.outline.linears[0], out_features=512),))
    settings = tiny.settings.model_copy(update=changes)
    with pytest.raises(Refused, match=why):
        create.create_engine(settings, replace(tiny.base, outline=wide), FolderSource(tiny.root))
