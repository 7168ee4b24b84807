"""LoRA as PEFT writes it: every field that it may set, alone and where fields meet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from contracts.kinds import KindCase
from support.oracle import Oracle, WholePasses
from support.tiny import save_peft

_TIED = {"tie_word_embeddings": True}
_BIASES = {"attention_bias": True, "mlp_bias": True}
_TWO = ["q_proj", "v_proj"]


def _lora(
    name: str,
    feature: str,
    *,
    base: dict[str, Any] | None = None,
    std: float = 0.05,
    oracle: type[Oracle] = Oracle,
    prompt: tuple[int, ...] | None = None,
    optional: tuple[str, ...] = (),
    may_grow: tuple[str, ...] = (),
    **config: Any,
) -> KindCase:
    settings = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"} | config
    make = partial(save_peft, "LoraConfig", settings, std=std)
    return KindCase(
        name, "LORA", feature, make, oracle, base=base or {}, prompt=prompt, optional=optional, may_grow=may_grow
    )


class _GrownOracle(Oracle):
    """PEFT on a base whose vocabulary was made larger before the adapter was loaded."""

    def __init__(self, base: Path, adapter: Path | None = None, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(base, adapter, dtype, vocab_size=260)


def _grown(base: Path, folder: Path) -> Path:
    """An adapter for a base with four more tokens, its embedding and head saved as trainers do."""
    config = {"r": 8, "lora_alpha": 16, "target_modules": _TWO, "modules_to_save": ["lm_head", "embed_tokens"]}
    model = AutoModelForCausalLM.from_pretrained(base)
    model.resize_token_embeddings(260, mean_resizing=False)
    return save_peft("LoraConfig", config, base, folder, model=model)


CASES = [
    _lora("plain", "low-rank pairs"),
    *(_lora(f"rank-{r}", "low-rank pairs", r=r) for r in (1, 3, 48, 63)),
    *(_lora(f"only-{'-'.join(names)}", "low-rank pairs", std=0.15, target_modules=[f"{name}_proj" for name in names])
      for names in (["q"], ["k"], ["v"], ["q", "k"], ["gate"], ["up"])),
    _lora("rslora", "rsLoRA", r=16, lora_alpha=16, use_rslora=True),
    _lora(
        "patterns", "rank_pattern and alpha_pattern", rank_pattern={"v_proj": 4, r"layers\.[01]\.mlp\.up_proj": 2},
        alpha_pattern={"q_proj": 64, "layers.2.mlp.down_proj": 1},
    ),
    _lora("some-layers", "layers_to_transform", target_modules=_TWO, layers_to_transform=[1, 3], std=0.15),
    _lora("excluded", "exclude_modules", exclude_modules=r".*\.0\..*|.*up_proj"),
    _lora("fused", "fused targets (qkv_proj, gate_up_proj)", base={"architecture": "Phi3"}, std=0.1,
          target_modules=["qkv_proj", "gate_up_proj", "o_proj"]),
    _lora("dora", "DoRA", use_dora=True),
    _lora("dora-head", "DoRA", use_dora=True, target_modules=["q_proj", "lm_head", "embed_tokens"],
          optional=("base_layer",)),
    _lora("dora-biased-base", "DoRA", use_dora=True, base=_BIASES),
    _lora("bias-all", "bias='all' and 'lora_only', of linear layers", base=_BIASES, bias="all", target_modules=_TWO),
    _lora("bias-lora-only", "bias='all' and 'lora_only', of linear layers", base=_BIASES, bias="lora_only",
          target_modules=_TWO),
    _lora("bias-dora", "bias='all' and 'lora_only', of linear layers", base=_BIASES, bias="all", use_dora=True),
    _lora("lora-bias", "lora_bias", lora_bias=True),
    _lora("lora-bias-biased-base", "lora_bias", lora_bias=True, base=_BIASES, use_rslora=True),
    _lora("ends", "embed_tokens and lm_head as targets", target_modules=["q_proj", "embed_tokens", "lm_head"], std=0.1,
          optional=("base_layer",)),
    _lora("saved-ends", "modules_to_save: embedding, head, linear layers", target_modules=_TWO,
          modules_to_save=["lm_head", "embed_tokens"], may_grow=("embed_tokens",)),
    _lora("saved-linear", "modules_to_save: embedding, head, linear layers", target_modules=_TWO,
          modules_to_save=["down_proj"]),
    _lora("saved-and-targeted", "modules_to_save: embedding, head, linear layers", modules_to_save=["v_proj"]),
    _lora("tokens", "trainable_token_indices", target_modules=_TWO, trainable_token_indices=[9, 7], std=0.3,
          prompt=(7, 9)),
    _lora("tokens-at-head", "trainable_token_indices", target_modules=_TWO, std=0.3, prompt=(7, 9),
          trainable_token_indices={"embed_tokens": [7, 9], "lm_head": [3, 40, 41]}),
    _lora("tied-embedding", "tied embedding and head", base=_TIED, target_modules=["q_proj", "embed_tokens"], std=0.1,
          optional=("base_layer",)),
    _lora("tied-head", "tied embedding and head", base=_TIED, target_modules=["q_proj", "lm_head"], std=0.1,
          optional=("base_layer",)),
    _lora("tied-ends", "tied embedding and head", base=_TIED, target_modules=["q_proj", "lm_head", "embed_tokens"],
          optional=("base_layer",)),
    _lora("tied-ensured", "tied embedding and head", base=_TIED, target_modules=["q_proj", "embed_tokens"], std=0.1,
          ensure_weight_tying=True, optional=("base_layer", "lm_head")),
    _lora("tied-saved-embedding", "tied embedding and head", base=_TIED, target_modules=_TWO,
          modules_to_save=["embed_tokens"], may_grow=("embed_tokens",)),
    _lora("tied-saved-head", "tied embedding and head", base=_TIED, target_modules=_TWO, modules_to_save=["lm_head"]),
    _lora("tied-saved-ensured", "tied embedding and head", base=_TIED, target_modules=_TWO,
          modules_to_save=["embed_tokens"], ensure_weight_tying=True, may_grow=("embed_tokens",),
          optional=("lm_head",)),
    _lora("tied-tokens", "tied embedding and head", base=_TIED, target_modules=_TWO, trainable_token_indices=[7, 9],
          std=0.3, prompt=(7, 9)),
    KindCase("more-tokens", "LORA", "more tokens than the base, with embedding and head", _grown, _GrownOracle,
             may_grow=("embed_tokens",)),
    _lora("activated", "activated LoRA", oracle=WholePasses, alora_invocation_tokens=[5, 6, 7], prompt=(5, 6, 7),
          std=0.1),
]  # fmt: skip
