"""AdapterLoader: a form on disk spares a version its files; what only shows beside the base's weights is refused."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graftwork.adapters.account import account_folder
from graftwork.engine import adapter_loader
from graftwork.engine.form_image import FormImage
from graftwork.errors import Damaged, GraftworkError, Refused, Unavailable
from support.edited import Tensors, edited
from support.engines import FolderSource, ask, request, running
from support.fixtures import Tiny
from support.tiny import save_peft

#: Two adapters composed.
PAIR = (("a1", 1.0), ("a2", 0.5))
Q2 = "model.layers.2.self_attn.q_proj"


async def test_a_form_that_overflows_is_refused_by_its_layer(tiny: Tiny, tmp_path: Path) -> None:
    config = {"r": 4, "target_modules": ["q_proj"], "use_dora": True}
    whole = save_peft("LoraConfig", config, tiny.base.folder, tmp_path / "whole")

    def huge(tensors: Tensors) -> Tensors:  # finite, but not once it is divided by the norms of W + B A
        return tensors | {name: np.full_like(one, 3e38) for name, one in tensors.items() if f"{Q2}.lora_magn" in name}

    assert account_folder(edited(whole, tmp_path / "huge", huge), tiny.outline, max_rank=4).ok
    async with running(tiny, FolderSource(tmp_path)) as engine:
        with pytest.raises(Refused, match=rf"huge:1\.0\.0 cannot be served.*{Q2} is beyond float32"):
            await ask(engine, request((1, 2, 3), "huge"))
        assert (await ask(engine, request((1, 2, 3), "whole"))).tokens
        assert engine.stats().adapters_resident == 1


async def test_a_version_that_was_loaded_before_needs_neither_its_files_nor_its_account(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {"cache_dir": tmp_path, "form_cache_bytes": 1 << 24, "adapter_companions": False}
    async with running(tiny, FolderSource(tiny.root), **kept) as engine:
        want = [await ask(engine, request((1, 2, 3), name)) for name in ("a1", "a2", PAIR)]
    assert len(list((tmp_path / "forms").glob("local/*.form"))) == 2, "a composition is made of its parts each time"

    def run(*args: object, **options: object) -> None:
        raise AssertionError("the account was run")

    source = FolderSource(tiny.root, failure=Damaged("its files are gone"))
    async with running(tiny, source, **kept) as engine:
        monkeypatch.setattr(adapter_loader, "account_folder", run)
        got = [await ask(engine, request((1, 2, 3), name)) for name in ("a1", "a2")]
        assert [(one.tokens, one.chosen) for one in got] == [(one.tokens, one.chosen) for one in want[:2]]
        with pytest.raises(Damaged):
            await ask(engine, request((1, 2, 3), PAIR))


async def test_a_damaged_form_is_made_anew_from_the_files_and_replaced(tiny: Tiny, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"cache_dir": tmp_path, "form_cache_bytes": 1 << 24}
    async with running(tiny, FolderSource(tiny.root), **kept) as engine:
        want = await ask(engine, request((1, 2, 3), "a1"))
    (blob,) = (tmp_path / "forms").glob("local/*.form")
    whole = blob.read_bytes()
    blob.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    source = FolderSource(tiny.root)
    async with running(tiny, source, **kept) as engine:
        got = await ask(engine, request((1, 2, 3), "a1"))
    assert (got.tokens, got.chosen) == (want.tokens, want.chosen)
    assert "a1" in source.reads and blob.read_bytes() == whole


async def test_what_is_refused_leaves_no_form(tiny: Tiny, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"cache_dir": tmp_path / "cache", "form_cache_bytes": 1 << 24}
    edited(tiny.adapter("a1"), tmp_path / "bad", lambda old: {name: one * np.nan for name, one in old.items()})
    async with running(tiny, FolderSource(tmp_path), **kept) as engine:
        with pytest.raises(Refused):
            await ask(engine, request((1, 2, 3), "bad"))
    assert not list(tmp_path.glob("cache/forms/*/*"))


@pytest.mark.parametrize("kind", [Refused, Unavailable, RuntimeError])
async def test_what_a_failed_load_has_made_is_gone_though_its_error_is_not(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    made: list[weakref.ref[Any]] = []

    def insert(digest: str, image: FormImage, *args: object, **options: object) -> None:
        made.append(weakref.ref(image.data))
        raise kind("It does not go in.")

    async with running(tiny) as engine:
        monkeypatch.setattr(engine._adapters.cache, "insert", insert)
        gc.collect()
        gc.disable()  # nobody may have to find a ring
        try:
            with pytest.raises(GraftworkError) as told:
                await ask(engine, request((1, 2, 3), "a1"))
            assert told.value.message and [image() for image in made] == [None]
        finally:
            gc.enable()
