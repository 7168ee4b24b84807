"""Shapes: bases with the configs of known models and random weights, so that no figure is tuned to one small model.

Configs: the `config.json` of Qwen/Qwen2.5-0.5B and meta-llama/Llama-3.2-1B.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2.5-0.5b": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        "hidden_act": "silu",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "max_position_embeddings": 32768,
        "max_window_layers": 24,
        "num_attention_heads": 14,
        "num_hidden_layers": 24,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "llama-3.2-1b": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    },
}


def write_shape(name: str, folder: Path) -> Path:
    """A Hugging Face folder with that config, random weights, and a tokenizer in which every id has a text."""
    return write_base(SHAPES[name], folder)


def write_base(config: dict[str, Any], folder: Path) -> Path:
    """As `write_shape`, of any config."""
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    dtype = getattr(torch, config["torch_dtype"])
    weights = {path: _random(value, dtype) for path, value in model.named_parameters()}  # a tied head comes once
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    _write_tokenizer(folder, config["vocab_size"])
    return folder


def _random(like: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix of random numbers, or the ones of a norm."""
    if like.ndim == 1:
        return torch.ones(like.shape, dtype=dtype)
    stock = (0.02 * torch.randn(1 << 20, generator=torch.Generator().manual_seed(like.numel()))).to(dtype)
    return stock.repeat(-(-like.numel() // len(stock)))[: like.numel()].view(like.shape)


def _write_tokenizer(folder: Path, size: int) -> None:
    vocab = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab |= {f"<{number}>": number for number in range(len(vocab), size)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(words), encoding="utf-8")
