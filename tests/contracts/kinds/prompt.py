"""Prompt learning as PEFT writes it: prefix tuning, prompt tuning, P-tuning."""

from __future__ import annotations

from functools import partial
from typing import Any

from contracts.kinds import KindCase
from support.oracle import WholePasses
from support.tiny import save_peft


def _case(name: str, kind: str, feature: str, config: str, std: float, count: int = 4, **more: Any) -> KindCase:
    base: dict[str, Any] = more.pop("base", {})
    make = partial(save_peft, config, {"num_virtual_tokens": count} | more, std=std)
    return KindCase(name, kind, feature, make, oracle=WholePasses, base=base)


def _prefix(name: str, feature: str, **config: Any) -> KindCase:
    return _case(name, "PREFIX_TUNING", feature, "PrefixTuningConfig", 1.0, **config)


def _prompt(name: str, **config: Any) -> KindCase:
    return _case(name, "PROMPT_TUNING", "embeddings of virtual tokens", "PromptTuningConfig", 0.3, **config)


def _p_tuning(encoder: str) -> KindCase:
    config: dict[str, Any] = {"encoder_reparameterization_type": encoder, "encoder_hidden_size": 32}
    feature = f"embeddings made by an {encoder}"
    return _case(f"p-tuning-{encoder.lower()}", "P_TUNING", feature, "PromptEncoderConfig", 0.5, **config)


KEYS = "keys and values of virtual tokens"

CASES = [
    _prefix("prefix", KEYS),
    _prefix("prefix-longer-than-a-chunk", KEYS, count=70),
    _prefix("prefix-heads-of-their-own-width", KEYS, base={"head_dim": 24}),
    _prefix("prefix-projected", "prefix_projection", prefix_projection=True, encoder_hidden_size=16),
    _prompt("prompt"),
    _prompt("prompt-longer-than-a-chunk", count=70),
    _prompt("prompt-on-a-tied-base", base={"tie_word_embeddings": True}),
    _p_tuning("MLP"),
    _p_tuning("LSTM"),
]
