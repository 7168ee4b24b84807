"""Decoder: our own forward pass for the Llama family, a handful of calls per layer.

The family is one layer with switches: biases (Qwen2), norms on query and key heads (Qwen3). Module paths, sites and
logits are those of the transformers model whose weights it takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Site
from graftwork.kernels.decoder import Heads, Rotary
from graftwork.kernels.layers_cpu import MOST_TOKENS
from graftwork.kernels.lowrank import Group
from graftwork.kernels.select import Kernels
from graftwork.models.adapter_plan import EMBED, HEAD, AdapterPlan
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from graftwork.models.model import Maker, digest_of

#: Classes that are this layer with its switches; `fits` looks at the rest of the config.
FAMILY = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})


def fits(module: PreTrainedModel, max_context: int) -> bool:
    """Whether a model is of the family and asks for nothing that the decoder lacks."""
    if type(module).__name__ not in FAMILY:  # others need not have any of these fields
        return False
    config: Any = module.config
    window = getattr(config, "sliding_window", None)
    rope = config.rope_parameters or {}
    return (
        config.hidden_act == "silu"
        and rope.get("partial_rotary_factor", 1.0) == 1.0
        and (window is None or window >= max_context)
    )


class FusedLinear:
    """Linear layers that read one input, packed as one matrix; each is a site with its own columns of the output."""

    def __init__(self, module: torch.nn.Module, paths: list[str], sites: dict[str, int], kernels: Kernels) -> None:
        linears: list[Any] = [module.get_submodule(path) for path in paths]
        weight = torch.cat([one.weight.data for one in linears])  # a copy: what was read may be a view of a mapped file
        biases = [one.bias for one in linears]
        bias = None
        if any(one is not None for one in biases):
            bias = torch.cat(
                [
                    one.weight.new_zeros(one.out_features) if one.bias is None else one.bias.data.clone()
                    for one in linears
                ]
            )
        self.group = Group(tuple(sites[path] for path in paths), tuple(one.out_features for one in linears))
        self.columns = dict(zip(paths, self.group.columns, strict=True))
        self._with_bias = {path for path, one in zip(paths, biases, strict=True) if one is not None}
        self.packed = kernels.pack_linear(weight, bias)
        for one in linears:
            one.weight = one.bias = None  # frees the plain copy

    def __call__(self, x: Tensor, plan: AdapterPlan | None) -> Tensor:
        """x [tokens, in] to [tokens, all outs], with what the step's adapters do there."""
        return self.packed(x) if plan is None else plan.linear(x, self.group, self.packed)

    def weight(self, path: str) -> Tensor:
        """W of one of the layers [out, in], bit for bit."""
        return self.packed.dense()[self.columns[path]]

    def bias(self, path: str) -> Tensor | None:
        if path not in self._with_bias:
            return None
        assert self.packed.bias is not None, "one of the layers has a bias"
        return self.packed.bias[self.columns[path]]


@dataclass(frozen=True)
class _Layer:
    attention_norm: Tensor  # [hidden] float32, as the other norms
    qkv: FusedLinear
    rotary: Rotary
    out: FusedLinear
    mlp_norm: Tensor
    gate_up: FusedLinear
    down: FusedLinear
    keys: Site
    attention: Site
    mlp: Site


class Decoder:
    """One frozen base of the Llama family in memory. Call `forward` from one thread."""

    def __init__(self, module: PreTrainedModel, outline: Outline, kernels: Kernels, max_context: int) -> None:
        self.outline = outline
        self.dtype: torch.dtype = module.dtype
        self._kernels = kernels
        config, inner = module.config, module.base_model
        self._eps: float = config.rms_norm_eps
        self._heads = Heads(outline.num_heads, outline.num_kv_heads, outline.head_dim)
        self._scale: float = outline.head_dim**-0.5
        #: Digest of the weights as loaded, in the serving dtype.
        self.loaded_digest = digest_of(_plain(module))
        self._makers: dict[str, Maker] = {}
        self._kept_bytes = 0  # of what is not packed
        self._linears: dict[str, FusedLinear] = {}
        table = _rotary_table(inner.rotary_emb, max_context)
        assert table.shape == (max_context, outline.head_dim), "the kernels step over it by whole heads"
        self._layers = [self._layer(module, number, table) for number in range(outline.num_layers)]
        self._norm = self._kept(module, "model.norm").float()
        self._together = kernels.layers(self._layers, self._heads, self._scale, self._eps)
        embedding = self._kept(module, "model.embed_tokens")
        tied = bool(config.tie_word_embeddings)
        self._head = kernels.pack_linear(embedding if tied else module.lm_head.weight.data.clone(), None)
        self._lookup: Callable[[Tensor], Tensor] = embedding.__getitem__  # token ids [tokens] to [tokens, hidden]
        rows = self._head.rows() if tied else None
        if not tied:
            self._makers["lm_head.weight"] = self._head.dense
        elif rows is not None:  # so W is in memory once
            self._lookup, self._makers["model.embed_tokens.weight"] = rows.gather, self._head.dense
        if rows is not None or (tied and not self._head.packed):
            self._kept_bytes -= embedding.nbytes

    def _layer(self, module: PreTrainedModel, number: int, table: Tensor) -> _Layer:
        path = f"model.layers.{number}"
        attention = f"{path}.self_attn"
        normed = hasattr(module.get_submodule(attention), "q_norm")
        q_norm, k_norm = (self._kept(module, f"{attention}.{x}_norm").float() if normed else None for x in "qk")
        return _Layer(
            attention_norm=self._kept(module, f"{path}.input_layernorm").float(),
            qkv=self._fused(module, [f"{attention}.{x}_proj" for x in "qkv"]),
            rotary=Rotary(table, q_norm, k_norm, self._eps),
            out=self._fused(module, [f"{attention}.o_proj"]),
            mlp_norm=self._kept(module, f"{path}.post_attention_layernorm").float(),
            gate_up=self._fused(module, [f"{path}.mlp.gate_proj", f"{path}.mlp.up_proj"]),
            down=self._fused(module, [f"{path}.mlp.down_proj"]),
            keys=Site("keys", number),
            attention=Site("attention", number),
            mlp=Site("mlp", number),
        )

    def _kept(self, module: PreTrainedModel, path: str) -> Tensor:
        """A weight that stays as it is; a copy, for it may be a view of a mapped file."""
        weight: Tensor = module.get_parameter(f"{path}.weight").data.clone()
        self._makers[f"{path}.weight"] = partial(_same, weight)
        self._kept_bytes += weight.nbytes
        return weight

    def _fused(self, module: PreTrainedModel, paths: list[str]) -> FusedLinear:
        made = FusedLinear(module, paths, self.outline.site_of, self._kernels)
        for path in paths:
            self._linears[path] = made
            self._makers[f"{path}.weight"] = partial(made.weight, path)
            if (bias := made.bias(path)) is not None:
                self._makers[f"{path}.bias"] = partial(_same, bias)
        return made

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch) -> ForwardResult:
        """Write the batch's keys and values to their pages; logits and hidden states are in the serving dtype."""
        plan, stream = batch.plan, self._embed(batch)
        lowrank = None if plan is None else plan.lowrank_alone
        if self._together is not None and len(stream) <= MOST_TOKENS and (plan is None or lowrank is not None):
            residual, delta = self._together.run(stream, batch.positions, batch.keys, batch.values, batch.rows, lowrank)
            self._kernels.launches += plan is not None
        else:
            residual, delta = self._one_by_one(stream, batch)
        logits = self._logits(self._last(residual, delta, batch.logits_at), plan)
        hidden = None if batch.hidden_at is None else self._last(residual, delta, batch.hidden_at)
        return ForwardResult(logits, hidden)

    def _one_by_one(self, residual: Tensor, batch: ForwardBatch) -> tuple[Tensor, Tensor]:
        """The residual stream after the last layer but for its last sum, and what that adds; each operation a call."""
        plan, add_norm = batch.plan, self._kernels.add_norm
        delta: Tensor | None = None
        for number, layer in enumerate(self._layers):
            h = add_norm(residual, delta, layer.attention_norm, self._eps)
            delta = layer.out(self._attend(number, layer, h, batch), plan)
            if plan is not None:
                plan.act(layer.attention, residual, delta)
            h = add_norm(residual, delta, layer.mlp_norm, self._eps)
            delta = layer.down(self._kernels.gated(layer.gate_up(h, plan)), plan)
            if plan is not None:
                plan.act(layer.mlp, residual, delta)
        assert delta is not None, "a model has layers"
        return residual, delta

    def _embed(self, batch: ForwardBatch) -> Tensor:
        """The residual stream [tokens, hidden] as it enters the first layer."""
        if batch.plan is None:
            return self._lookup(batch.token_ids)
        known = batch.token_ids.clamp(max=self.outline.vocab_size - 1)  # adapters fill in their own tokens
        stream = self._lookup(known)
        batch.plan.act(EMBED, batch.token_ids, stream)
        return stream

    def _attend(self, number: int, layer: _Layer, h: Tensor, batch: ForwardBatch) -> Tensor:
        kernels, heads, plan = self._kernels, self._heads, batch.plan
        qkv = layer.qkv(h, plan)
        q, k, v = heads.split(qkv)
        if plan is not None and plan.acts("keys"):
            kernels.rotate(qkv, heads, layer.rotary, batch.positions)
            plan.act(layer.keys, k, v)
            kernels.write_kv(k, v, batch.keys, batch.values, number, batch.rows)
        else:
            kernels.rotate_and_write(
                qkv, heads, layer.rotary, batch.positions, batch.keys, batch.values, number, batch.rows
            )
        return kernels.attend(q, batch.keys, batch.values, number, batch.rows, self._scale).view(len(h), -1)

    def _last(self, residual: Tensor, delta: Tensor, at: Tensor) -> Tensor:
        """The final hidden states of some tokens: [wanted, hidden]."""
        return self._kernels.add_norm(residual[at], delta[at], self._norm, self._eps)

    def _logits(self, hidden: Tensor, plan: AdapterPlan | None) -> Tensor:
        logits = self._head(hidden)
        if plan is None:
            return logits
        logits = plan.widened(logits)
        plan.act(HEAD, hidden, logits)
        plan.hide(logits)
        return logits

    # -- weights ---------------------------------------------------------------------------------------------------

    def weight(self, path: str) -> Tensor:
        """The weight of a linear layer [out, in] or of the embedding [vocab, hidden], as it was loaded."""
        return self._head.dense() if path == "lm_head" else self._makers[f"{path}.weight"]()

    def bias(self, path: str) -> Tensor | None:
        """The bias of a linear layer, if it has one."""
        return self._linears[path].bias(path) if path in self._linears else None

    def weight_names(self) -> set[str]:
        """Names of the weights that the digest is taken over."""
        return set(self._makers)

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take in memory, in whatever form; what two names share is there once."""
        packed = [self._head, *(one.packed for one in set(self._linears.values()))]
        return sum(one.nbytes for one in packed) + self._kept_bytes

    def weights_digest(self) -> str:
        """The digest of the weights as they are now, read back through their packed form."""
        return digest_of(self._makers)


def _plain(module: PreTrainedModel) -> dict[str, Maker]:
    """The weights of a module as it was loaded; a tied head is the embedding and has no name of its own."""
    return {name: partial(_same, parameter.data) for name, parameter in module.named_parameters()}


def _rotary_table(rotary: torch.nn.Module, positions: int) -> Tensor:
    """Cosines, then sines, as `Rotary.table` wants them; transformers gives both halves of a head the same."""
    places = torch.arange(positions)[None]
    cos, sin = rotary(torch.zeros(1, dtype=torch.float32), places)  # each [1, positions, head_dim]
    half = cos.shape[-1] // 2
    return torch.cat([cos[0, :, :half], sin[0, :, :half]], dim=-1).float().contiguous()


def _same(tensor: Tensor) -> Tensor:
    return tensor
