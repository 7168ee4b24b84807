"""From a LoRA's stored tensors to its serving form; called only after an account without problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from graftwork.adapters.kinds import BaseWeights
from graftwork.adapters.lora.account import whole_module
from graftwork.adapters.lora.config import LoraConfig
from graftwork.adapters.lora.tensors import ModuleTensors
from graftwork.adapters.lora.trained_tokens import tied_tokens, tokens_of
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Affine, LowRankSlice, Part, ServingForm, Site, Traits, Weights
from graftwork.adapters.stored_weights import tensor_of, weights_of
from graftwork.adapters.vocabulary import EmbedLowRank, EmbedRows, HeadLowRank, HeadRows
from graftwork.adapters.whole_modules import SCORE_NAMES, WholeModule


class LoraForm:
    """Makes the slices, vectors and parts of one LoRA for one base."""

    def __init__(self, config: LoraConfig, outline: Outline, dtype: torch.dtype, base: BaseWeights) -> None:
        self._config, self._outline, self._dtype, self._base = config, outline, dtype, base
        self._gains: dict[str, Tensor] = {}  # by module: each takes W whole, and is needed more than once

    def made(self, modules: Sequence[ModuleTensors], labels: tuple[str, ...] | None) -> ServingForm:
        """The whole form. Parts of one site act in order: other weights first, then single tokens, then pairs."""
        linear = [module for module in modules if module.path in self._outline.site_of]
        affines = (self._affine(module) for module in linear)
        parts = [part for module in modules for part in self._wholes(module)]
        parts += [part for module in modules for part in self._tokens(module)]
        pairs_at_head = any(module.path not in self._outline.site_of and "lora_A" in module.parts for module in modules)
        parts += [part for module in modules for part in self._vocabulary_pair(module, pairs_at_head)]
        return ServingForm(
            slices=tuple(self._slice(module) for module in linear if "lora_A" in module.parts),
            affines=tuple(affine for affine in affines if affine is not None),
            parts=tuple(parts),
            traits=Traits(invocation=self._config.invocation, labels=labels),
        )

    # -- linear layers ---------------------------------------------------------------------------------------------

    def _slice(self, module: ModuleTensors) -> LowRankSlice:
        a, b = tensor_of(module.parts["lora_A"]), self._scaled_b(module)
        if (gain := self._gain(module)) is not None:
            b = b * gain[:, None]
        site = self._outline.site_of[module.path]
        return LowRankSlice(site, a.to(self._dtype).contiguous(), b.T.to(self._dtype).contiguous())

    def _affine(self, module: ModuleTensors) -> Affine | None:
        """DoRA's gain and every bias: y = (W x + b) gain + shift."""
        gain, shift = self._gain(module), self._shift(module)
        if gain is None and shift is None:
            return None
        return Affine(self._outline.site_of[module.path], scale_out=gain, shift=shift)

    def _shift(self, module: ModuleTensors) -> Tensor | None:
        parts, whole = module.parts, whole_module(module, self._config, self._outline)
        under, gain = self._base.bias(module.path), self._gain(module)
        shift: Tensor | float = 0.0
        if whole is not None and whole.bias is not None:  # it is in what the pair is added to
            under = tensor_of(whole.bias)
        elif "bias" in parts:
            assert under is not None, "the account refuses a bias that the base has not"
            shift = tensor_of(parts["bias"]) - under.float()
        if gain is not None and under is not None:  # the bias is no part of what DoRA scales
            shift = shift + under.float() * (1 - gain)
        if "lora_B.bias" in parts:
            shift = shift + tensor_of(parts["lora_B.bias"]) * self._config.scale_of(module.path)
        return shift if isinstance(shift, Tensor) else None

    def _gain(self, module: ModuleTensors) -> Tensor | None:
        """DoRA: magnitude over the norm of each row of W + scale B A. Liu et al. 2024, https://arxiv.org/abs/2402.09353"""
        if "magnitude" not in module.parts:
            return None
        if module.path not in self._gains:
            changed = self._weight_under(module) + self._scaled_b(module) @ tensor_of(module.parts["lora_A"])
            magnitude = tensor_of(module.parts["magnitude"])
            self._gains[module.path] = magnitude / torch.linalg.vector_norm(changed, dim=1)
        return self._gains[module.path]

    def _weight_under(self, module: ModuleTensors) -> Tensor:
        """What a pair is added to: the base's weight as it is served, or the one stored beside the pair; in float32."""
        whole = whole_module(module, self._config, self._outline)
        stored = self._base.weight(module.path) if whole is None else tensor_of(whole.weight, self._dtype)
        return stored.float()

    def _scaled_b(self, module: ModuleTensors) -> Tensor:
        return tensor_of(module.parts["lora_B"]) * self._config.scale_of(module.path)

    # -- embedding and head ----------------------------------------------------------------------------------------

    def _vocabulary_pair(self, module: ModuleTensors, head_has_pair: bool) -> Iterator[Part]:
        parts, head = module.parts, self._outline.head
        if "embedding_A" in parts:
            yield self._embedding_pair(module)
            if self._outline.tied and self._config.ensure_weight_tying and not head_has_pair:
                yield HeadLowRank(
                    Site("head"),
                    a=Weights.of(self._scaled_embedding_b(module).T.to(self._dtype)),
                    b=Weights.of(tensor_of(parts["embedding_A"]).T.to(self._dtype)),
                )
        elif head is not None and module.path == head.path and "lora_A" in parts:
            gain, shift = self._gain(module), self._shift(module)
            b = self._scaled_b(module)
            yield HeadLowRank(
                Site("head"),
                a=weights_of(parts["lora_A"], self._dtype),
                b=Weights.of((b if gain is None else b * gain[:, None]).to(self._dtype)),
                gain=None if gain is None else Weights.of(gain),
                shift=None if shift is None else Weights.of(shift),
            )

    def _embedding_pair(self, module: ModuleTensors) -> EmbedLowRank:
        embed = self._outline.embed
        assert embed is not None, "the account refuses a pair at an embedding that is none"
        a, b = tensor_of(module.parts["embedding_A"]), self._scaled_embedding_b(module)  # [rank, vocab], [hidden, rank]
        gain = None
        if "magnitude" in module.parts:  # its norms are those of the columns of the embedding
            changed = self._weight_under(module).T + b @ a
            gain = tensor_of(module.parts["magnitude"]) / torch.linalg.vector_norm(changed, dim=1)  # [hidden]
            b = b * gain[:, None]
        return EmbedLowRank(
            Site("embed"),
            a=Weights.of(a.T.to(self._dtype)),
            b=Weights.of((b * embed.scale).T.to(self._dtype)),
            gain=None if gain is None else Weights.of(gain),
        )

    def _scaled_embedding_b(self, module: ModuleTensors) -> Tensor:
        return tensor_of(module.parts["embedding_B"]) * self._config.scale_of(module.path)

    def _tokens(self, module: ModuleTensors) -> Iterator[Part]:
        ids = tokens_of(self._config, self._outline).get(module.path)
        if not ids or "tokens" not in module.parts:
            return
        order = sorted(range(len(ids)), key=lambda place: ids[place])
        where = Weights.of(torch.tensor([ids[place] for place in order]))
        rows = tensor_of(module.parts["tokens"])[order]
        embed = self._outline.embed
        at_embedding = embed is not None and module.path == embed.path
        if at_embedding and embed is not None:
            yield EmbedRows(Site("embed"), where, Weights.of((rows * embed.scale).to(self._dtype)))
        if not at_embedding or tied_tokens(self._config, self._outline):
            yield HeadRows(Site("head"), where, Weights.of(rows.to(self._dtype)))

    def _wholes(self, module: ModuleTensors) -> Iterator[Part]:
        whole = whole_module(module, self._config, self._outline)
        if whole is None or self._is_the_bases_own(whole):
            return
        yield from whole.parts(self._outline, self._dtype)
        both = "base" in module.parts or not self._config.saves(module.path) or self._config.ensure_weight_tying
        ends = {site.path for site in (self._outline.embed, self._outline.head) if site is not None}
        if self._outline.tied and both and whole.path in ends:
            for other in ends - {whole.path}:
                yield from WholeModule(other, whole.weight).parts(self._outline, self._dtype)

    def _is_the_bases_own(self, whole: WholeModule) -> bool:
        """Whether the stored weights are a copy of the base's: PEFT adds one to every adapter of an embedding."""
        if whole.path in SCORE_NAMES:
            return False
        pairs = [(whole.weight, self._base.weight(whole.path))]
        if whole.bias is not None:
            bias = self._base.bias(whole.path)
            assert bias is not None, "the account refuses a bias that the base has not"
            pairs.append((whole.bias, bias))
        stored = [(tensor_of(mine, self._dtype), old) for mine, old in pairs]
        return all(mine.shape == old.shape and torch.equal(mine, old) for mine, old in stored)
