"""Our own decoder against transformers' classes: the same logits, keys, weights and names, for every switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.kernels import linear
from graftwork.kernels.attention import PAGE_TOKENS, AttentionRows
from graftwork.kernels.select import kernels_for
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


class Pages:
    """A model with room for rows, whose tokens are computed in steps."""

    def __init__(self, model: Model, rows: int, pages: int = 3) -> None:
        self.model, self.table = model, np.arange(rows * pages, dtype=np.int32).reshape(rows, pages)
        outline: Outline = model.outline
        shape = (rows * pages, outline.num_layers, outline.num_kv_heads)
        self.keys = torch.full((*shape, outline.head_dim, PAGE_TOKENS), float("nan"), dtype=model.dtype)
        self.values = torch.full((*shape, PAGE_TOKENS, outline.head_dim), float("nan"), dtype=model.dtype)
        self.done = np.zeros(rows, np.int32)

    def step(self, tokens: list[list[int]], *, pooled: bool = False) -> tuple[Tensor, Tensor | None]:
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
                plan=None,
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
def test_without_onednns_private_operators(
    kernels: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = prepared(tmp_path, architecture="Qwen2")
    packed = load_model(base, kernels_for("cpu"), dtype, 512)
    monkeypatch.setattr(linear, "OPERATORS", ("_an_operator_that_this_build_lacks",))
    plain = load_model(base, kernels_for(kernels), dtype, 512)
    assert isinstance(plain, Decoder)
    assert plain.weights_digest() == packed.weights_digest()
    a, b = Pages(packed, 3), Pages(plain, 3)
    for tokens in STEPS:
        got, want = b.step(tokens)[0], a.step(tokens)[0]
        assert (got - want).norm() <= (1e-5 if dtype == torch.float32 else 0.03) * want.norm()


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
