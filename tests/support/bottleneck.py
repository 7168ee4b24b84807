"""Bottleneck adapters in tests: the library's own folders (goldens), grown to more layers, and an oracle for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F
from transformers.activations import get_activation

from support.oracle import Oracle

GOLDEN = Path(__file__).parents[1] / "adapters" / "bottleneck" / "golden"
WEIGHTS = "adapter.safetensors"
HEAD = "model_head.safetensors"


def grow_golden(name: str, base: Path, folder: Path) -> Path:
    """What the library saved for a base of this width with two layers, and for further layers its first one, rolled."""
    layers = json.loads((base / "config.json").read_text())["num_hidden_layers"]
    tensors = load_file(GOLDEN / name / WEIGHTS)
    first = min((key.split(".")[2] for key in tensors if ".layers." in key), default="0")
    for layer in range(2, layers):
        for key, value in list(tensors.items()):
            if key.startswith(f"model.layers.{first}."):
                tensors[key.replace(f".{first}.", f".{layer}.", 1)] = value.roll(layer, 0).contiguous()
    folder.mkdir()
    config = json.loads((GOLDEN / name / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"model_name": base.name}))
    save_file(tensors, folder / WEIGHTS)
    if (GOLDEN / name / HEAD).exists():
        shutil.copy(GOLDEN / name / "head_config.json", folder)
        own = load_file(base / "model.safetensors")["lm_head.weight"]
        save_file({"lm_head.weight": own.roll(3, 0).contiguous()}, folder / HEAD)
    return folder


class BottleneckOracle(Oracle):
    """The `adapters` library's arithmetic on transformers' Llama, written down once more from its source.

    `tests/adapters/bottleneck/test_golden.py` proves it against the library's own answers. Source, of version 1.3.0:
    `methods/modeling.py` (Adapter, ParallelAdapter, NICECouplingBlock, PHMLayer), `models/llama/modeling_llama.py`.
    """

    def __init__(self, base: Path, adapter: Path, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(base, None, dtype)
        outer = json.loads((adapter / "adapter_config.json").read_text())
        self._name, self._config = outer["name"], outer["config"]
        self._tensors: dict[str, Tensor] = {key: value.to(dtype) for key, value in load_file(adapter / WEIGHTS).items()}
        plain = self._config["non_linearity"]
        self._f: Callable[[Tensor], Tensor] = F.leaky_relu if plain == "leakyrelu" else get_activation(plain)
        for number, layer in enumerate(self._model.model.layers):
            layer.forward = self._layer_forward(layer, f"model.layers.{number}")
        if (adapter / HEAD).exists():
            self._model.lm_head.weight.data = load_file(adapter / HEAD)["lm_head.weight"].to(dtype)
        if self._config["inv_adapter"]:
            self._model.model.embed_tokens.register_forward_hook(lambda _module, _args, output: self._nice(output))

    def _layer_forward(self, layer: Any, path: str) -> Callable[..., Tensor]:
        def forward(hidden_states: Tensor, **options: Any) -> Tensor:
            residual = hidden_states
            hidden_states, _ = layer.self_attn(hidden_states=layer.input_layernorm(hidden_states), **options)
            hidden_states = self._adapters(f"{path}.attention_adapters", hidden_states, residual)
            residual = hidden_states
            hidden_states = layer.mlp(layer.post_attention_layernorm(hidden_states))
            return self._adapters(f"{path}.output_adapters", hidden_states, residual)

        return forward

    def _adapters(self, layer: str, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """BottleneckLayer.forward without a layer norm after the block: pre_forward, forward, post_forward."""
        path, config = f"{layer}.adapters.{self._name}", self._config
        if not any(key.startswith(f"{path}.") for key in self._tensors):
            return hidden_states + input_tensor
        output = hidden_states
        residual = hidden_states
        if config["is_parallel"]:
            hidden_states = residual = input_tensor
        elif config["original_ln_before"]:
            hidden_states = hidden_states + input_tensor
        if not config["is_parallel"] and not config["residual_before_ln"]:
            residual = hidden_states
        new = self._bottleneck(path, hidden_states, residual)
        if config["is_parallel"]:
            new = new + output
        return new + input_tensor if config["original_ln_after"] else new

    def _bottleneck(self, path: str, x: Tensor, residual: Tensor) -> Tensor:
        config = self._config
        first = "adapter_down.0"
        if config["ln_before"]:
            x = self._norm(f"{path}.adapter_down.0", x)
            first = "adapter_down.1"
        output = self._linear(f"{path}.adapter_up", "up", self._f(self._linear(f"{path}.{first}", "down", x)))
        learned = isinstance(config["scaling"], str)
        output = output * (self._tensors[f"{path}.scaling"] if learned else config["scaling"])
        sequential = not config["is_parallel"]
        if sequential and config["adapter_residual_before_ln"]:
            output = output + residual
        if config["ln_after"]:
            output = self._norm(f"{path}.adapter_norm_after", output)
        if sequential and not config["adapter_residual_before_ln"]:
            output = output + residual
        return output

    def _norm(self, path: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self._tensors[f"{path}.weight"], self._tensors[f"{path}.bias"])

    def _linear(self, path: str, position: str, x: Tensor) -> Tensor:
        if not self._config["phm_layer"]:
            return F.linear(x, self._tensors[f"{path}.weight"], self._tensors[f"{path}.bias"])
        shared = f"model.shared_parameters.{self._name}"
        w = self._bmm(f"{shared}.W_{position}" if self._config["shared_W_phm"] else f"{path}.W")
        rule = self._bmm(f"{shared if self._config['shared_phm_rule'] else path}.phm_rule")
        h = torch.stack([torch.kron(rule[n], w[n]) for n in range(len(rule))]).sum(0)
        return x @ h + self._tensors[f"{path}.b"] if self._config["phm_bias"] else x @ h

    def _bmm(self, name: str) -> Tensor:
        if name in self._tensors:
            return self._tensors[name]
        return torch.bmm(self._tensors[f"{name}_left"], self._tensors[f"{name}_right"])

    def _nice(self, x: Tensor) -> Tensor:
        path = f"model.invertible_adapters.{self._name}"

        def net(name: str, part: Tensor) -> Tensor:
            down, up = (f"{path}.{name}.{number}" for number in (0, 2))
            part = self._f(F.linear(part, self._tensors[f"{down}.weight"], self._tensors[f"{down}.bias"]))
            return F.linear(part, self._tensors[f"{up}.weight"], self._tensors[f"{up}.bias"])

        x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        y1 = x1 + net("F", x2)
        return torch.cat((y1, x2 + net("G", y1)), -1)
