"""Writes the goldens beside it: adapters as the `adapters` library saves them, and what it answers with them.

Not a test: it needs the library, which wants an older transformers than ours, so it runs in an environment of its own:

    python3.11 -m venv ../adapters-env
    ../adapters-env/bin/pip install torch==2.13.0 transformers==4.57.6 adapters==1.3.0
    PYTHONPATH=tests ../adapters-env/bin/python tests/adapters/bottleneck/make_golden.py

Answers come from whole sequences, never from a cache: with transformers 4.57, adapters 1.3.0 drops Llama's cache.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from support.golden_base import golden_prompts, make_golden_base

adapters: Any = import_module("adapters")  # not tests/adapters
GOLDEN = Path(__file__).resolve().parent / "golden"
BASE = Path("golden-base")  # the library saves this name with every adapter
NEW_TOKENS = 6

_BOTH = {"mh_adapter": True, "output_adapter": True, "reduction_factor": 16, "non_linearity": "relu"}
_ACTIVATIONS = (
    "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "laplace",
    "leaky_relu", "leakyrelu", "linear", "mish", "quick_gelu", "relu2", "relu6", "sigmoid", "silu", "tanh",
)  # fmt: skip
_LLAMA: dict[str, Any] = {
    "seq_bn": adapters.SeqBnConfig(),
    "double_seq_bn": adapters.DoubleSeqBnConfig(),
    "par_bn": adapters.ParBnConfig(reduction_factor=16),
    "scaled_par_bn": adapters.ParBnConfig(reduction_factor=16, scaling="learned", mh_adapter=True),
    "adapter_plus": adapters.AdapterPlusConfig(reduction_factor=16, stochastic_depth=0.0),
    "channel": adapters.DoubleSeqBnConfig(scaling="channel"),
    "ln": adapters.BnConfig(**_BOTH, ln_before=True, ln_after=True),
    "ln_within": adapters.BnConfig(**_BOTH, ln_after=True, adapter_residual_before_ln=True),
    "ln_within_sum": adapters.BnConfig(
        **_BOTH, ln_after=True, adapter_residual_before_ln=True, original_ln_before=True, residual_before_ln=False,
        original_ln_after=False,
    ),
    "ln_parallel": adapters.ParBnConfig(
        reduction_factor=16, ln_before=True, ln_after=True, adapter_residual_before_ln=True
    ),
    "residual_twice": adapters.BnConfig(**_BOTH, original_ln_before=True, residual_before_ln=False),
    "residual_dropped": adapters.BnConfig(**_BOTH, original_ln_before=True, original_ln_after=False),
    "parallel_dropped": adapters.ParBnConfig(reduction_factor=16, original_ln_after=False),
    "per_layer": adapters.DoubleSeqBnConfig(reduction_factor={"1": 32, "default": 12.5}),
    "leave_out": adapters.DoubleSeqBnConfig(leave_out=[0], reduction_factor=200),
    "compacter": adapters.CompacterConfig(reduction_factor=16),
    "compacter_plus": adapters.CompacterPlusPlusConfig(reduction_factor=16, phm_rank=2, phm_bias=False),
    "phm_full": adapters.SeqBnConfig(
        phm_layer=True, factorized_phm_W=False, shared_phm_rule=False, factorized_phm_rule=True
    ),
    "phm_shared": adapters.DoubleSeqBnConfig(phm_layer=True, shared_W_phm=True, factorized_phm_rule=True, phm_dim=2),
    "head": adapters.SeqBnConfig(),
    "seq_bn_inv": adapters.SeqBnInvConfig(inv_adapter_reduction_factor=4),
    **{
        f"act_{name}": adapters.SeqBnConfig(non_linearity=name, leave_out=[1], reduction_factor=32)
        for name in _ACTIVATIONS
    },
}  # fmt: skip
#: Model type to goldens: Mistral has adapter layers of its own like Llama, Qwen has them put in by hooks.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    **{
        model_type: {
            f"{model_type}_seq_bn": adapters.SeqBnConfig(mh_adapter=True),
            f"{model_type}_par_bn": adapters.ParBnConfig(mh_adapter=True, reduction_factor=16),
        }
        for model_type in ("mistral", "qwen2", "qwen3")
    },
}


def main() -> None:
    shutil.rmtree(GOLDEN, ignore_errors=True)
    digests = {}
    for model_type, configs in CONFIGS.items():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            digests[model_type] = make_golden_base(BASE, model_type)
            for name, config in configs.items():
                _make(name, config)
    (GOLDEN / "bases.json").write_text(json.dumps(digests, indent=1) + "\n")


def _make(name: str, config: Any) -> None:
    torch.manual_seed(crc32(name.encode()))
    model = AutoModelForCausalLM.from_pretrained(BASE, attn_implementation="eager").eval()
    adapters.init(model)
    model.add_adapter(name, config=config)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if name == "head" and path == "lm_head.weight":
                parameter.add_(torch.randn_like(parameter) * 0.05)
            elif f".{name}." in path:
                spread = 0.3 if parameter.ndim == 1 or "phm_rule" in path else 0.4
                parameter.add_(torch.randn_like(parameter) * spread)
    model.set_active_adapters(name)
    folder = GOLDEN / name
    folder.parent.mkdir(exist_ok=True)
    _save(model, folder, name)
    answers: dict[str, Any] = {}
    for index, prompt in enumerate(golden_prompts()):
        tokens, logprobs = _answer(model, prompt)
        answers |= {f"tokens{index}": np.asarray(tokens, np.int16), f"logprobs{index}": logprobs}
    np.savez_compressed(folder / "answers.npz", **answers)


def _save(model: Any, folder: Path, name: str) -> None:
    """As the library does; where it fails to write safetensors (one tensor under two names), from what its .bin has."""
    try:
        model.save_adapter(str(folder), name, with_head=name == "head", use_safetensors=True)
    except RuntimeError:
        model.save_adapter(str(folder), name, with_head=False)
        file = folder / "pytorch_adapter.bin"
        state = torch.load(file, weights_only=True)
        save_file({key: value.clone() for key, value in state.items()}, folder / "adapter.safetensors")
        file.unlink()


@torch.inference_mode()
def _answer(model: Any, prompt: list[int]) -> tuple[list[int], np.ndarray[Any, Any]]:
    """The likeliest continuation after the prompt, and log-probabilities [tokens, vocab] after each token of both."""
    tokens = list(prompt)
    for _ in range(NEW_TOKENS):
        tokens.append(int(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return tokens, logits.float().log_softmax(-1).numpy()


if __name__ == "__main__":
    main()
