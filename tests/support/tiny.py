"""Tiny bases and adapters, made on the spot: the fixtures B and A1, A2, … of our list of cases."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
ALL_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """256 symbols, one per byte, and no more: token ids are what UTF-8 says, in byte-level order."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = alphabet[0]
    tokenizer.add_special_tokens([AddedToken(end, special=True, normalized=False)])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)
    made.chat_template = CHAT_TEMPLATE
    return made


def make_base(
    folder: Path,
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    shard_size: str = "1GB",
    chat: bool = True,
    architecture: str = "Llama",
    **changes: Any,
) -> Path:
    """Base B: Llama kind, 4 layers, hidden 64, seeded random weights large enough for greedy answers to vary."""
    shape: dict[str, Any] = {
        "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0,
    }  # fmt: skip
    config = getattr(transformers, f"{architecture}Config")(**(shape | changes))
    torch.manual_seed(seed)
    model = getattr(transformers, f"{architecture}ForCausalLM")(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 or name.endswith(".bias"):
                parameter.normal_(0.0, 0.12)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    tokenizer = byte_tokenizer()
    if not chat:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    return folder


def make_adapter(
    base: Path,
    folder: Path,
    *,
    seed: int = 1,
    r: int = 8,
    alpha: float = 16,
    std: float = 0.05,
    targets: Any = ALL_LINEARS,
    **config: Any,
) -> Path:
    """Adapter A<seed>: a PEFT LoRA with random, non-zero A and B."""
    from peft import LoraConfig, get_peft_model

    model = AutoModelForCausalLM.from_pretrained(base)
    torch.manual_seed(seed)
    targets = list(targets) if isinstance(targets, tuple) else targets
    made = get_peft_model(
        model, LoraConfig(r=r, lora_alpha=alpha, target_modules=targets, task_type="CAUSAL_LM", **config)
    )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_A" in name:
                parameter.normal_(0.0, 0.3)
            elif "lora_B" in name:
                parameter.normal_(0.0, std)
    made.peft_config["default"].base_model_name_or_path = base.name
    made.save_pretrained(folder)
    return folder


def save_peft(
    kind: str, config: dict[str, Any], base: Path, folder: Path, *, std: float = 0.05, seed: int = 1, model: Any = None
) -> Path:
    """A PEFT adapter of any kind, by the name of its config class; everything trained is moved by noise of `std`."""
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's own: of training, and of the hub where it looks for the base's name
        model = model if model is not None else AutoModelForCausalLM.from_pretrained(base)
        torch.manual_seed(seed)
        made = peft.get_peft_model(model, getattr(peft, kind)(**({"task_type": "CAUSAL_LM"} | config)))
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * std)
        made.peft_config["default"].base_model_name_or_path = base.name
        made.save_pretrained(folder)
    return folder
