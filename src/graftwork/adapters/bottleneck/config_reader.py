"""Reading adapter_config.json as the `adapters` library writes it; what we cannot honour is a problem, by its field.

Defaults and meanings: `adapters/configuration/adapter_config.py` (`BnConfig`) of adapters 1.3.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

from graftwork.adapters.bottleneck.config import NON_LINEARITIES, BottleneckConfig, Phm
from graftwork.adapters.config_fields import is_whole, short

#: Models whose blocks the library hooks its adapters to as `BottleneckPart` computes: Llama and Mistral have
#: adapter layers of their own, the Qwen models come with an interface that puts no layer norm after a block.
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
#: Llama and Mistral run an invertible adapter after the embedding, and their plain language models nowhere else; other
#: classes run its inverse before the output head as well.
_INVERTIBLE = ("LlamaForCausalLM", "MistralForCausalLM")
#: What adapter-transformers called them, whose configs have no version.
_OLD_NAMES = {"gelu": "gelu_new", "gelu_orig": "gelu"}
#: Fields that matter in training only; a decoder has no cross attention for `cross_adapter`.
_HARMLESS = {
    "architecture", "cross_adapter", "dropout", "hypercomplex_nonlinearity", "init_weights", "init_weights_seed",
    "learn_phm", "phm_c_init", "phm_init_range", "stochastic_depth",
}  # fmt: skip
_READ = {
    "mh_adapter", "output_adapter", "reduction_factor", "non_linearity", "original_ln_before", "original_ln_after",
    "ln_before", "ln_after", "is_parallel", "scaling", "use_gating", "residual_before_ln", "adapter_residual_before_ln",
    "inv_adapter", "inv_adapter_reduction_factor", "leave_out", "phm_layer", "phm_dim", "factorized_phm_W",
    "shared_W_phm", "shared_phm_rule", "factorized_phm_rule", "phm_rank", "phm_bias",
}  # fmt: skip
_LARGEST = 1e30
#: Widest: sixteen times the hidden size; no trained adapter comes near.
_SMALLEST_FACTOR = 1 / 16
_LARGEST_WHOLE = 1 << 16


def read_bottleneck_config(config: Mapping[str, Any]) -> tuple[BottleneckConfig | None, list[str]]:
    """The checked config of the folder's adapter_config.json, or None with every problem found, each by its field."""
    inner = config.get("config")
    if not isinstance(inner, Mapping):
        return None, [f"config: {short(inner)} must be an object with the adapter's fields."]
    if (architecture := inner.get("architecture")) is not None:
        return None, [
            f"config.architecture: {short(architecture)} of the adapters library is not supported; of its methods, "
            "bottleneck adapters are. Train the others with PEFT."
        ]
    read = _Reader(inner)
    reduction = read.reduction()
    made = BottleneckConfig(
        name=read.name(config),
        attention=read.flag("mh_adapter", None),
        mlp=read.flag("output_adapter", None),
        parallel=read.flag("is_parallel", False),
        non_linearity=read.non_linearity(old="version" not in config),
        reduction=reduction,
        leave_out=read.leave_out(),
        scaling=read.scaling(),
        sum_before=read.flag("original_ln_before", False),
        sum_after=read.flag("original_ln_after", True),
        keeps_sum=not read.flag("residual_before_ln", True),
        keeps_within=read.flag("adapter_residual_before_ln", False),
        norm_before=read.flag("ln_before", False),
        norm_after=read.flag("ln_after", False),
        phm=read.phm(reduction),
        invertible=read.invertible(config),
        warnings=tuple(read.unknown()),
    )
    read.check_model(config)
    read.check_gating()
    return (None if read.problems else made), read.problems


class _Reader:
    """Reads fields one by one and remembers what was wrong with them; what is missing has the library's default."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.problems: list[str] = []

    def _bad(self, field: str, want: str) -> None:
        self.problems.append(f"config.{field}: {short(self.config.get(field))} must be {want}.")

    def name(self, outer: Mapping[str, Any]) -> str:
        value = outer.get("name")
        if isinstance(value, str) and value and "." not in value and len(value) <= 512:
            return value
        self.problems.append(f"name: {short(value)} must be the adapter's name, as its tensors have it.")
        return ""

    def check_model(self, outer: Mapping[str, Any]) -> None:
        if (found := outer.get("model_type")) not in MODEL_TYPES:
            self.problems.append(
                f"model_type: {short(found)} is not one of {', '.join(MODEL_TYPES)}; where the adapters library puts "
                "its adapters into other models is not known here."
            )

    def check_gating(self) -> None:
        if self.config.get("use_gating"):
            self.problems.append(
                "config.use_gating: is not supported: the library averages the gate over all tokens of a call, so its "
                "answer depends on how a text is cut into calls. Train with use_gating=False."
            )

    def flag(self, field: str, default: bool | None) -> bool:
        value = self.config.get(field, default)
        if isinstance(value, bool):
            return value
        if field == "residual_before_ln" and value == "post_add":
            self._bad(field, "true or false; post_add needs a layer norm after the block, which these models lack")
        else:
            self._bad(field, "true or false")
        return False

    def whole(self, field: str, default: int) -> int:
        value = self.config.get(field, default)
        if is_whole(value) and 1 <= value <= _LARGEST_WHOLE:
            return value
        self._bad(field, f"a whole number from 1 to {_LARGEST_WHOLE}")
        return 1

    def non_linearity(self, *, old: bool) -> str:
        value = self.config.get("non_linearity")
        name = value.lower() if isinstance(value, str) else ""
        name = _OLD_NAMES.get(name, name) if old else name
        if name not in NON_LINEARITIES:
            self._bad("non_linearity", f"one of {', '.join(sorted(NON_LINEARITIES))}")
        return name

    def reduction(self) -> dict[str, float]:
        value = self.config.get("reduction_factor")
        if _is_factor(value):
            return {"default": float(value)}
        if isinstance(value, Mapping) and value and all(_is_factor(one) for one in value.values()):
            return {str(layer): float(factor) for layer, factor in value.items()}
        self._bad("reduction_factor", f"a number of at least {_SMALLEST_FACTOR}, or one per layer and a default")
        return {"default": 1.0}

    def leave_out(self) -> frozenset[int]:
        value = self.config.get("leave_out", [])
        if isinstance(value, list) and all(is_whole(layer) for layer in value):
            return frozenset(value)
        self._bad("leave_out", "a list of layer numbers")
        return frozenset()

    def scaling(self) -> float | Literal["learned", "channel"]:
        value = self.config.get("scaling", 1.0)
        if value == "learned" or value == "channel":
            return "learned" if value == "learned" else "channel"
        if isinstance(value, float) and abs(value) <= _LARGEST:
            return value
        self._bad("scaling", "a number with a decimal point, 'learned' or 'channel'")
        return 1.0

    def phm(self, reduction: Mapping[str, float]) -> Phm | None:
        if not self.flag("phm_layer", False):
            return None
        if min(reduction.values()) < 1:
            self._bad("phm_layer", "false where the adapter is wider than the base")
        shared, factorized = self.flag("shared_W_phm", False), self.flag("factorized_phm_W", True)
        if shared and not factorized:
            self._bad("shared_W_phm", "false where factorized_phm_W is; the library cannot build both")
        if shared and not _is_factor(self.config.get("reduction_factor")):
            self._bad("shared_W_phm", "false where reduction_factor differs by layer; the library cannot build both")
        return Phm(
            dim=self.whole("phm_dim", 4),
            rank=self.whole("phm_rank", 1) if factorized else None,
            shared=shared,
            shared_rule=self.flag("shared_phm_rule", True),
            factorized_rule=self.flag("factorized_phm_rule", False),
            bias=self.flag("phm_bias", True),
        )

    def invertible(self, outer: Mapping[str, Any]) -> float | None:
        value, factor = self.config.get("inv_adapter"), self.config.get("inv_adapter_reduction_factor")
        if value is None:
            return None
        if value != "nice":
            self._bad("inv_adapter", "null or 'nice'; other invertible adapters are not supported")
        elif (found := outer.get("model_class")) not in _INVERTIBLE:
            self.problems.append(
                f"config.inv_adapter: 'nice' is not supported with model_class {short(found)}, only with "
                f"{' and '.join(_INVERTIBLE)}: other classes run its inverse before the output head."
            )
        if not _is_factor(factor):
            self._bad("inv_adapter_reduction_factor", f"a number of at least {_SMALLEST_FACTOR}")
            return None
        return float(factor)

    def unknown(self) -> list[str]:
        """Warn of unknown texts; any other unknown value may change the answer, so it is a problem."""
        warnings = []
        for field in sorted(set(self.config) - _HARMLESS - _READ):
            if self.config[field] and not isinstance(self.config[field], str):
                self.problems.append(f"config.{field[:80]}: unknown field with a value; it may change the answer.")
            elif self.config[field]:
                warnings.append(f"config.{field[:80]}: unknown field in adapter_config.json, ignored.")
        return warnings


def _is_factor(value: Any) -> TypeGuard[float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and _SMALLEST_FACTOR <= value <= _LARGEST
