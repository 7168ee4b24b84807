"""The bases of the bottleneck adapters' goldens: tiny, and the same on every machine and version.

`tests/adapters/bottleneck/make_golden.py` runs this file beside another transformers, so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 64
LAYERS = 2


def make_golden_base(folder: Path, model_type: str) -> str:
    """Write a base's weights and config (no tokenizer), drawn from numpy's PCG64; returns the weights' SHA-256."""
    config = AutoConfig.for_model(
        model_type, vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-6,
        sliding_window=None, tie_word_embeddings=False, bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    draw, digest = np.random.Generator(np.random.PCG64(20260101)), hashlib.sha256()
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            uniform = draw.random(tuple(parameter.shape), dtype=np.float32)  # exact in every version of numpy
            values = (uniform - np.float32(0.5)) * np.float32(0.45) + np.float32("norm" in name)
            digest.update(name.encode() + values.astype("<f4").tobytes())
            parameter.copy_(torch.from_numpy(values))
    model.save_pretrained(folder)
    return digest.hexdigest()


def golden_prompts() -> list[list[int]]:
    """What every golden was asked."""
    return [[1 + (seed * 29 + n * n * (seed + 2) + n * 7) % (VOCAB - 1) for n in range(length)]
            for seed, length in ((0, 3), (1, 11))]  # fmt: skip
