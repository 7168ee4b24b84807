"""AdapterPlan: each row gets what its own adapter does, and an adapter that fails ends its own rows only."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part, ServingForm, Site
from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.form_image import image_of
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.runner import Runner
from graftwork.errors import GenerationFailed
from graftwork.kernels.select import kernels_for
from graftwork.models.adapter_plan import AdapterPlan, AdapterRow
from graftwork.models.load import load_model
from support.engines import Answer, FolderSource, ask_all, prompt_of, request, running
from support.fixtures import Tiny


@dataclass(frozen=True)
class _Broken(Part):
    """Fails whenever it is asked."""

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        raise IndexError("no such row")


@dataclass(frozen=True)
class _AddsFirst(Part):
    """Adds the position of its first token."""

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y += first


@dataclass(frozen=True)
class _BrokenHead(_Broken):
    """A classification head that fails."""

    @property
    def width(self) -> int:
        return 3


def plan_of(tiny: Tiny, *forms: ServingForm) -> tuple[AdapterCache, list[int]]:
    cache = AdapterCache(tiny.outline, torch.float32, 1 << 22)
    for number, form in enumerate(forms):
        cache.insert(str(number), image_of(form, torch.float32), time.monotonic(), lambda: True)
    slots = [cache.pin(str(number)) for number in range(len(forms))]
    return cache, [slot for slot in slots if slot is not None]


def test_parts_change_their_own_rows_and_know_where_they_begin(tiny: Tiny) -> None:
    site = Site("mlp", 1)
    cache, (adds, breaks) = plan_of(tiny, ServingForm(parts=(_AddsFirst(site),)), ServingForm(parts=(_Broken(site),)))
    rows = [AdapterRow(1, 3, adds, first=7), AdapterRow(4, 6, breaks, first=0)]
    plan = AdapterPlan(rows, cache.slots, kernels_for("reference"), tiny.outline.vocab_size)
    y = torch.zeros(7, 4)
    plan.act(site, torch.zeros(7, 4), y)
    assert torch.equal(y[:4], torch.tensor([0.0, 7, 7, 0])[:, None].expand(4, 4))
    assert y[4:6].isnan().all() and torch.equal(y[6], torch.zeros(4))
    untouched = torch.zeros(7, 4)
    plan.act(Site("mlp", 0), torch.zeros(7, 4), untouched)
    assert torch.equal(untouched, torch.zeros(7, 4))


def test_a_classification_head_that_fails_ends_its_own_row_only(tiny: Tiny) -> None:
    cache, (slot,) = plan_of(tiny, ServingForm(parts=(_BrokenHead(Site("score")),)))
    kernels = kernels_for("reference")
    model = load_model(tiny.base, kernels, torch.float32, 512)
    runner = Runner(model, kernels, KvCache(tiny.outline, torch.float32, 1 << 20), cache.slots)
    classes = runner.classes(slot, torch.zeros(1, tiny.outline.hidden_size), 0)
    assert classes.shape == (1, 3) and classes.isnan().all()


async def test_a_part_that_fails_ends_its_own_rows_only(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from graftwork.adapters.lora.kind import Lora

    plain = Lora.serving_form

    def with_a_fault(self: Lora, folder: object, *rest: object) -> ServingForm:
        made: ServingForm = plain(self, folder, *rest)  # type: ignore[arg-type]
        faulty = str(getattr(folder, "path", "")).endswith("a2")
        return ServingForm(made.slices, made.affines, (_Broken(Site("mlp", 2)),) if faulty else ())

    monkeypatch.setattr(Lora, "serving_form", with_a_fault)
    async with running(tiny, FolderSource(tiny.root)) as engine:
        want = await ask_all(engine, [request(prompt_of(1, 20), "a1"), request(prompt_of(2, 20))])
        asked = [request(prompt_of(1, 20), "a1"), request(prompt_of(3, 9), "a2"), request(prompt_of(2, 20))]
        got = await asyncio.gather(*(ask_all(engine, [one]) for one in asked), return_exceptions=True)
        assert isinstance(got[1], GenerationFailed)
        for before, after in zip(want, (got[0], got[2]), strict=True):
            assert isinstance(after, list) and isinstance(after[0], Answer) and after[0].tokens == before.tokens
