"""Our base and adapters as GGUF files, which llama.cpp reads: weights as they are, in bfloat16.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A Llama's q and k rows are stored with the two halves
of each head interleaved, because llama.cpp rotates neighbours where Hugging Face rotates halves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

_ARCHITECTURE = "llama"
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_OUTER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_LORA_PREFIX, _LORA_PARTS = "base_model.model.", {".lora_A.weight": "lora_a", ".lora_B.weight": "lora_b"}


def write_base(folder: Path, target: Path) -> Path:
    """The Llama in a Hugging Face folder, with its byte-level BPE tokenizer."""
    config = _json(folder / "config.json")
    writer = gguf.GGUFWriter(target, _ARCHITECTURE)
    _describe(writer, config)
    _add_tokenizer(writer, config, _json(folder / "tokenizer.json"))
    for file in sorted(folder.glob("*.safetensors")):
        for name, weights in load_file(file).items():
            _add(writer, f"{gguf_name(name.removesuffix('.weight'))}.weight", _turned(name, weights, config))
    return _written(writer, target)


def write_lora(folder: Path, base: Path, target: Path) -> Path:
    """The PEFT LoRA in `folder`, made for the Llama in the Hugging Face folder `base`."""
    config, lora = _json(base / "config.json"), _json(folder / "adapter_config.json")
    writer = gguf.GGUFWriter(target, _ARCHITECTURE)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(lora["lora_alpha"]))
    for name, weights in load_file(folder / "adapter_model.safetensors").items():
        path, part = _lora_place(name)
        rows_are_outputs = part == "lora_b"
        _add(
            writer, f"{gguf_name(path)}.weight.{part}", _turned(path, weights, config) if rows_are_outputs else weights
        )
    return _written(writer, target)


def gguf_name(path: str) -> str:
    """llama.cpp's name of a module: `model.layers.3.mlp.up_proj` is `blk.3.ffn_up`.

    Raises:
        KeyError: llama.cpp's Llama has no such module.
    """
    if path in _OUTER_NAMES:
        return _OUTER_NAMES[path]
    _, _, layer, inner = path.split(".", 3)
    return f"blk.{layer}.{_LAYER_NAMES[inner]}"


def interleave_halves(weights: Tensor, heads: int) -> Tensor:
    """[heads * dim, columns] with each head's rows 0, dim/2, 1, dim/2 + 1, … in this order."""
    rows, columns = weights.shape
    return weights.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def _turned(name: str, weights: Tensor, config: dict[str, Any]) -> Tensor:
    if "q_proj" in name:
        return interleave_halves(weights, config["num_attention_heads"])
    if "k_proj" in name:
        return interleave_halves(weights, config["num_key_value_heads"])
    return weights


def _lora_place(name: str) -> tuple[str, str]:
    for suffix, part in _LORA_PARTS.items():
        if name.endswith(suffix):
            return name.removeprefix(_LORA_PREFIX).removesuffix(suffix), part
    raise ValueError(f"{name} is not a tensor of a plain LoRA.")


def _describe(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config.get("head_dim") or width // heads)
    writer.add_rope_freq_base(config.get("rope_parameters", config)["rope_theta"])  # older files have it on top
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def _add_tokenizer(writer: gguf.GGUFWriter, config: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    ids = dict(tokenizer["model"]["vocab"]) | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    merges = tokenizer["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(sorted(ids, key=ids.__getitem__))
    writer.add_token_types(
        [gguf.TokenType.CONTROL if index in special else gguf.TokenType.NORMAL for index in sorted(ids.values())]
    )
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in merges])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def _add(writer: gguf.GGUFWriter, name: str, weights: Tensor) -> None:
    if weights.ndim == 1:  # norms: llama.cpp takes them in float32 only
        writer.add_tensor(name, weights.float().numpy())
    else:
        writer.add_tensor(name, _bits(weights), raw_dtype=gguf.GGMLQuantizationType.BF16)


def _bits(weights: Tensor) -> NDArray[np.uint8]:
    """The bfloat16 numbers as bytes, which is how the writer takes a type that NumPy does not have."""
    return weights.to(torch.bfloat16).contiguous().view(torch.uint8).numpy()


def _written(writer: gguf.GGUFWriter, target: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
