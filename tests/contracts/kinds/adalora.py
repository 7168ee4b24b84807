"""AdaLoRA as PEFT writes it, before and after training took ranks away."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from contracts.kinds import KindCase
from support.tiny import save_peft

CONFIG = {"init_r": 6, "target_r": 3, "lora_alpha": 32, "target_modules": "all-linear", "total_step": 10}


def _prune(base: Path, folder: Path) -> Path:
    """As PEFT saves it when its `rank_pattern` is set; a whole training run would set the same."""
    save_peft("AdaLoraConfig", CONFIG, base, folder, std=0.2)
    config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    tensors, masks = load_file(weights), {}
    for number, name in enumerate(sorted(name for name in tensors if name.endswith(".lora_E"))):
        kept = [bool((number + rank) % 3) and "layers.3.mlp" not in name for rank in range(6)]  # some lose all ranks
        module = name.removesuffix(".lora_E")
        masks[name.removeprefix("base_model.model.")] = kept
        tensors[f"{module}.lora_E"] = tensors[f"{module}.lora_E"][kept]
        tensors[f"{module}.lora_A"] = tensors[f"{module}.lora_A"][kept]
        tensors[f"{module}.lora_B"] = tensors[f"{module}.lora_B"][:, kept].copy()
    save_file(tensors, weights)
    config.write_text(json.dumps(json.loads(config.read_text()) | {"rank_pattern": masks}))
    return folder


def _adalora(name: str, **changes: Any) -> KindCase:
    make = partial(save_peft, "AdaLoraConfig", CONFIG | changes, std=0.2)
    return KindCase(name, "ADALORA", "low-rank pairs with singular values", make)


CASES = [
    _adalora("adalora"),
    _adalora("adalora-what-lora-would-read", use_rslora=True, alpha_pattern={"q_proj": 64}),
    _adalora("adalora-without-alpha", lora_alpha=0),
    KindCase("adalora-fewer-ranks", "ADALORA", "ranks that training took away (rank_pattern)", _prune),
]
