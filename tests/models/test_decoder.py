"""Our own decoder against transformers' classes: the same logits, keys, weights and names, for every switch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Traits
from graftwork.kernels import linear
from graftwork.kernels.affine import AffineSlots
from graftwork.kernels.attention import AttentionRows, page_shapes
from graftwork.kernels.lowrank import LowRankSlots
from graftwork.kernels.select import Kernels, kernels_for
from graftwork.models.adapter_plan import AdapterPlan, AdapterRow
from graftwork.models.adapter_slots import AdapterSlots
from graftwork.models.base import PreparedBase
from graftwork.models.decoder import Decoder
from graftwork.models.forward_batch import ForwardBatch
from graftwork.models.load import load_model
from graftwork.models.model import Model
from graftwork.models.prepare import prepare_base
from graftwork.models.transformers_model import TransformersModel
from graftwork.settings import Settings
from support.tiny import make_base

LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
SWITCHES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-tied": {"tie_word_embeddings": True},
    "llama-biased": {"attention_bias": True, "mlp_bias": True},
    "llama-wide-heads": {"head_dim": 20, "num_attention_heads": 8, "num_key_value_heads": 2},
    "llama-one-kv-head": {"num_key_value_heads": 1},
    "llama3-rope": {"rope_parameters": LLAMA3},
    "yarn-rope": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}},
    "mistral": {"architecture": "Mistral", "sliding_window": None},
    "qwen2": {"architecture": "Qwen2"},
    "qwen3": {"architecture": "Qwen3", "head_dim": 16},
}


def prepared(folder: Path, **changes: Any) -> PreparedBase:
    base = make_base(folder / "base", **changes)
    return prepare_base(Settings(home=folder / "home", base=str(base)))


#: A step's adapters, from how many tokens each row has.
PlanOf = Callable[[list[int]], AdapterPlan]


def low_rank_plan(model: Decoder, kernels: Kernels) -> PlanOf:
    """The first row uses one adapter, the last another that has nothing at some sites; those between use none."""
    outline = model.outline
    rank = np.array(
        [[4] * len(outline.linears), [3 * (site % 3 > 0) for site in range(len(outline.linears))]], np.int32
    )
    widths = np.array([(site.in_features, site.out_features) for site in outline.linears])
    ends = np.cumsum((rank[:, :, None] * widths).reshape(-1))
    begins = (ends - (rank[:, :, None] * widths).reshape(-1)).reshape(*rank.shape, 2)
    pool = (torch.randn(int(ends[-1]), generator=torch.Generator().manual_seed(5)) * 0.1).to(model.dtype)
    lowrank = LowRankSlots(rank, begins[:, :, 0].copy(), begins[:, :, 1].copy(), pool)
    none = np.zeros(rank.shape, np.int64)
    slots = AdapterSlots(lowrank, AffineSlots(none, none, none, np.zeros(2, np.bool_), pool), [{}, {}], [Traits()] * 2)

    def plan(counts: list[int]) -> AdapterPlan:
        last = sum(counts) - counts[-1]
        rows = [AdapterRow(0, counts[0], 0, 0), AdapterRow(last, sum(counts), 1, 0)]
        return AdapterPlan(rows, slots, kernels, outline.vocab_size)

    return plan


class Pages:
    """A model with room for rows, whose tokens are computed in steps."""

    def __init__(self, model: Model, rows: int, pages: int = 3) -> None:
        self.model, self.table = model, np.arange(rows * pages, dtype=np.int32).reshape(rows, pages)
        outline: Outline = model.outline
        shape = (rows * pages, outline.num_layers, outline.num_kv_heads)
        self.keys = torch.full((*shape, *page_shapes(outline.head_dim)[0]), float("nan"), dtype=model.dtype)
        self.values = torch.full((*shape, *page_shapes(outline.head_dim)[1]), float("nan"), dtype=model.dtype)
        self.done = np.zeros(rows, np.int32)

    def step(
        self, tokens: list[list[int]], *, pooled: bool = False, plan: PlanOf | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute some more tokens of every row: logits of each row's last one, hidden states of all."""
        counts = [len(row) for row in tokens]
        self.done += np.asarray(counts, np.int32)
        rows = AttentionRows(np.cumsum([0, *counts]).astype(np.int32), self.done.copy(), self.table)
        made = self.model.forward(
            ForwardBatch(
                token_ids=torch.tensor([token for row in tokens for token in row]),
                positions=torch.from_numpy(rows.positions),
                rows=rows,
                keys=self.keys,
                values=self.values,
                logits_at=torch.from_numpy(rows.query_start[1:].astype(np.int64)) - 1,
                plan=None if plan is None else plan(counts),
                hidden_at=torch.arange(sum(counts)) if pooled else None,
            )
        )
        return made.logits.float(), made.hidden


STEPS = ([list(range(7, 107)), [3], list(range(40))], [[9], [8], [7]], [[1, 2, 3], [5], list(range(50, 90))], [[4]] * 3)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_logits_and_weights_are_those_of_transformers(switch: str, dtype: torch.dtype, tmp_path: Path) -> None:
    base = prepared(tmp_path, **SWITCHES[switch])
    own = load_model(base, kernels_for("cpu"), dtype, 512)
    theirs = load_model(base, kernels_for("cpu"), dtype, 512, "transformers")
    assert isinstance(own, Decoder)
    assert isinstance(theirs, TransformersModel)
    mine, other = Pages(own, 3), Pages(theirs, 3)
    for tokens in STEPS:
        (got, got_hidden), (want, want_hidden) = (pages.step(tokens, pooled=True) for pages in (mine, other))
        assert got_hidden is not None
        assert want_hidden is not None
        if dtype == torch.float32:
            torch.testing.assert_close(got, want, atol=2e-4, rtol=1e-5)
            torch.testing.assert_close(got_hidden, want_hidden, atol=2e-4, rtol=1e-5)
        else:
            assert (got - want).norm() <= 0.03 * want.norm()
    assert own.weight_names() == theirs.weight_names()
    assert own.weights_digest() == own.loaded_digest == theirs.weights_digest() == theirs.loaded_digest
    sizes = {name: own._makers[name]().nbytes for name in own.weight_names()}
    assert own.nbytes == theirs.nbytes == sum(sizes.values())
    paths = [site.path for site in base.outline.linears]
    for path in (*paths, "lm_head", "model.embed_tokens"):
        assert torch.equal(own.weight(path), theirs.weight(path))
    for path in paths:
        biases = (own.bias(path), theirs.bias(path))
        assert (biases[0] is None) == (biases[1] is None)
        assert biases[0] is None or torch.equal(*biases)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernels", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_without_pairs_and_onednns_private_operators(
    kernels: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = prepared(tmp_path, architecture="Qwen2")
    packed = load_model(base, kernels_for("cpu"), dtype, 512)
    monkeypatch.setattr(linear, "can_pair", lambda weight: False)
    monkeypatch.setattr(linear, "OPERATORS", ("_an_operator_that_this_build_lacks",))
    plain = load_model(base, kernels_for(kernels), dtype, 512)
    assert isinstance(plain, Decoder)
    assert plain.weights_digest() == packed.weights_digest()
    a, b = Pages(packed, 3), Pages(plain, 3)
    for tokens in STEPS:
        got, want = b.step(tokens)[0], a.step(tokens)[0]
        assert (got - want).norm() <= (1e-5 if dtype == torch.float32 else 0.03) * want.norm()


@pytest.mark.pairs
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("adapters", [False, True], ids=["base", "adapters"])
def test_all_layers_in_one_region_have_the_bits_of_one_kernel_at_a_time(
    switch: str, adapters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = kernels_for("cpu")
    model = load_model(prepared(tmp_path, **SWITCHES[switch]), kernels, torch.bfloat16, 512)
    assert isinstance(model, Decoder)
    plan = low_rank_plan(model, kernels) if adapters else None
    together, apart = Pages(model, 3), Pages(model, 3)
    for tokens in ([list(range(7, 80)), [3], list(range(40))], *STEPS[1:]):
        got = together.step(tokens, plan=plan)[0]
        with monkeypatch.context() as patch:
            patch.setattr(model, "_together", None)
            want = apart.step(tokens, plan=plan)[0]
        assert torch.equal(got, want)
    assert torch.equal(together.keys.nan_to_num(), apart.keys.nan_to_num())
    assert torch.equal(together.values.nan_to_num(), apart.values.nan_to_num())


@pytest.mark.pairs
def test_another_number_of_threads_between_two_steps_changes_no_bit(tmp_path: Path) -> None:
    kernels = kernels_for("cpu")
    model = load_model(prepared(tmp_path), kernels, torch.bfloat16, 512)
    assert isinstance(model, Decoder)
    before, counts = torch.get_num_threads(), (1, 8, 2, 16)
    changing, steady = Pages(model, 3), Pages(model, 3)
    try:
        for threads, tokens in zip(counts, STEPS * 2, strict=False):
            torch.set_num_threads(threads)
            got = changing.step(tokens)[0]
            torch.set_num_threads(before)
            assert torch.equal(got, steady.step(tokens)[0])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        {"architecture": "Mistral", "sliding_window": 600},
        {"architecture": "Olmo2"},
        {"architecture": "OPT", "word_embed_proj_dim": 64, "ffn_dim": 128, "num_key_value_heads": 4},
    ],
    ids=["another-activation", "a-window-longer-than-the-context", "another-family", "a-family-without-rotary-fields"],
)
def test_what_does_not_fit_is_left_to_transformers(changes: dict[str, Any], tmp_path: Path) -> None:
    base = prepared(tmp_path, **changes)
    model = load_model(base, kernels_for("cpu"), torch.float32, 512)
    own = changes.get("sliding_window") == 600  # it never bites
    assert isinstance(model, Decoder if own else TransformersModel)
