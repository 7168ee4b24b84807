"""Survey a Hugging Face folder into its outline, and refuse what cannot be served rightly.

The model is built on the meta device, so its weights are read only once, for their digest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from graftwork.adapters.outline import BlockSite, EmbedSite, LinearSite, Outline, weights_digest
from graftwork.errors import Refused
from graftwork.models.base import weight_files
from graftwork.models.tokenizer import tokenizer_outline

_EXPERTS = ".experts."
#: A skeleton has a Python object for each of them; no known model comes near.
MAX_LAYERS = 1000


def survey(folder: Path, *, base: str, source: str, revision: str | None) -> Outline:
    """Measure the model in `folder`.

    Raises:
        Refused: naming what is missing, damaged or not supported.
    """
    config = read_config(folder)
    model = skeleton(config)
    shards = weight_files(folder)
    linears = list(linear_modules(model))
    if not linears:
        raise Refused(f"{type(model).__name__} has no linear layers that an adapter could act on here.")
    return Outline(
        base=base,
        architecture=type(model).__name__,
        weights_digest=weights_digest(stored_tensors(shards)),
        dtype=str(_stored_dtype(shards)),
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        head_dim=_head_dim(config),
        max_context=config.max_position_embeddings,
        linears=tuple(
            LinearSite(path, module.in_features, module.out_features, module.bias is not None)
            for path, module in linears
            if _EXPERTS not in path  # each of them sees only the tokens that are routed to it
        ),
        modules=tuple(path for path, _ in model.named_modules() if path),
        ties=_ties(model),
        source=source,
        revision=revision,
        embed=_embed(model),
        head=_head(model),
        blocks=_blocks(model),
        tokenizer=tokenizer_outline(folder),
    )


def read_config(folder: Path) -> Any:
    """The model's config, checked for what would make its answers wrong here.

    Raises:
        Refused: with the reason.
    """
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as error:
        told = str(error).strip().splitlines()
        why = told[-1 if isinstance(error, StrictDataclassError) else 0].strip()
        raise Refused(f"{folder}/config.json cannot be read: {why}") from error
    if reason := _unfit(config):
        raise Refused(f"The base in {folder} cannot be served: {reason}.")
    return config


def _unfit(config: Any) -> str | None:
    known = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    claimed = config.architectures or []
    if known is None or config.is_encoder_decoder or (claimed and claimed[0] != known):
        return f"{claimed[0] if claimed else config.model_type} is not a causal language model"
    if getattr(config, "text_config", None) is not None:
        return f"{known} wraps its text model in a larger one; save the text model alone and serve that"
    if getattr(config, "quantization_config", None):
        return "it is quantised, and its plain weights are needed"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        return f"its rotary embedding ({rope}) changes with the longest row of the batch"
    for field in ("attn_logit_softcapping", "kv_lora_rank", "attention_chunk_size"):
        if getattr(config, field, None):
            return f"its attention uses {field}, which is not plain keys and values"
    needed = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    )
    missing = [field for field in needed if not isinstance(getattr(config, field, None), int)]
    if missing:
        return f"its config lacks {', '.join(missing)}"
    if _head_dim(config) % 2:  # they lie by pairs: `attention.page_shapes`
        return f"its attention heads have {_head_dim(config)} numbers each, and only even ones are served"
    if config.num_hidden_layers > MAX_LAYERS:
        return f"its config speaks of {config.num_hidden_layers} layers; at most {MAX_LAYERS} are believed"
    return None


def _head_dim(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def skeleton(config: Any) -> PreTrainedModel:
    """The model without weights.

    Raises:
        Refused: when its class keeps its attention to itself.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    if not model.is_backend_compatible():
        raise Refused(f"{type(model).__name__} does not let its attention be replaced, so it cannot be batched here.")
    return model


def linear_modules(model: PreTrainedModel) -> Iterator[tuple[str, torch.nn.Linear]]:
    """Every linear layer of the blocks, in the model's order; the output head is not one of them."""
    head = model.get_output_embeddings()
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and module is not head:
            yield path, module


def stored_tensors(shards: list[Path]) -> Iterator[tuple[str, str, tuple[int, ...], memoryview]]:
    """Every tensor of a checkpoint sorted by name, one in memory at a time.

    Raises:
        Refused: naming the shard that is truncated or damaged.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(shard)) for shard in shards]
        where = {name: file for file in files for name in file.keys()}  # noqa: SIM118 (not a dict)
        for name in sorted(where):
            tensor = where[name].get_tensor(name)
            yield name, dtype_name(tensor.dtype), tuple(tensor.shape), tensor_bytes(tensor)


def _opened(shard: Path) -> Any:
    try:
        return safe_open(shard, framework="pt")
    except (SafetensorError, OSError) as error:
        raise Refused(f"{shard} is damaged or only half downloaded: {error}") from error


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """The little-endian bytes of a CPU tensor, without a copy where it is contiguous."""
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def stored_dtypes(shards: list[Path]) -> dict[str, str]:
    """Every stored tensor's name and dtype, in torch's word, from the headers alone."""
    found: dict[str, str] = {}
    for shard in shards:
        with _opened(shard) as file:
            found |= {name: _DTYPES.get(file.get_slice(name).get_dtype(), "other") for name in file.keys()}  # noqa: SIM118
    return found


#: safetensors' words to torch's, for the dtypes that weights come in.
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def _stored_dtype(shards: list[Path]) -> str:
    """The dtype of most tensors."""
    return Counter(stored_dtypes(shards).values()).most_common(1)[0][0]


def _head(model: PreTrainedModel) -> LinearSite | None:
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear:
        return None
    return LinearSite(_path(model, head), head.in_features, head.out_features, head.bias is not None)


def _embed(model: PreTrainedModel) -> EmbedSite | None:
    """The token embedding, if it does nothing but look up rows, and perhaps multiply them by one number."""
    embedding = model.get_input_embeddings()
    plain = type(embedding) is torch.nn.Embedding
    scale = getattr(embedding, "scalar_embed_scale", None)  # how the Gemma family names it
    if not isinstance(embedding, torch.nn.Embedding) or not (plain or isinstance(scale, float)):
        return None
    return EmbedSite(_path(model, embedding), 1.0 if plain or scale is None else scale)


#: Names of the parts of a decoder layer that adds each block to the stream it came from, as Llama's does.
_BLOCK = ("self_attn", "input_layernorm", "mlp", "post_attention_layernorm")
_ALL_OF_A_LAYER = set(_BLOCK)


def _blocks(model: PreTrainedModel) -> tuple[BlockSite, ...]:
    layers = getattr(model.base_model, "layers", None)
    if layers is None or any({name for name, _ in layer.named_children()} != _ALL_OF_A_LAYER for layer in layers):
        return ()
    path = _path(model, layers)
    return tuple(
        BlockSite(f"{path}.{number}", *(f"{path}.{number}.{name}" for name in _BLOCK)) for number in range(len(layers))
    )


def _path(model: PreTrainedModel, module: torch.nn.Module) -> str:
    paths: Iterator[str] = (path for path, found in model.named_modules() if found is module)
    return next(paths)


def _ties(model: PreTrainedModel) -> tuple[tuple[str, ...], ...]:
    if not getattr(model.config, "tie_word_embeddings", False):
        return ()
    head, embed = model.get_output_embeddings(), model.get_input_embeddings()
    names = {id(module): path for path, module in model.named_modules()}
    return ((f"{names[id(head)]}.weight", f"{names[id(embed)]}.weight"),)
