"""LoraConfig: the fields of a PEFT LoRA config that change the answer; what we cannot honour is a problem, by name.

Fields: https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import regex

from graftwork.errors import Refused

#: Longest time one pattern of a config may take on one module name, in seconds.
MATCH_TIMEOUT_S = 0.1

#: Fields that describe training, provenance or defaults, and do not change what a trained adapter answers.
_HARMLESS = {
    "auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "inference_mode", "layers_pattern",
    "layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core", "peft_type",
    "peft_version", "qalora_group_size", "revision", "task_type", "ensure_weight_tying",
}  # fmt: skip
_READ = {
    "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "target_modules", "exclude_modules",
    "init_lora_weights",
}  # fmt: skip
#: Initialisations after which the saved A and B belong to a *changed* base unless they were converted on saving.
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda")


@dataclass(frozen=True)
class LoraConfig:
    """Checked values of one config; `rank_of` and `alpha_of` apply PEFT's pattern rule (first matching key wins)."""

    rank: int
    alpha: float
    use_rslora: bool
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    target_modules: str | tuple[str, ...] | None
    exclude_modules: str | tuple[str, ...] | None
    layers_to_transform: tuple[int, ...] | None
    layers_pattern: tuple[str, ...]
    task_type: str | None
    warnings: tuple[str, ...] = ()

    def rank_of(self, module: str) -> int:
        return self.rank_pattern.get(_matching(self.rank_pattern, module), self.rank)

    def scale_of(self, module: str) -> float:
        """alpha / r, or alpha / sqrt(r) for rsLoRA (https://arxiv.org/abs/2312.03732)."""
        alpha = self.alpha_pattern.get(_matching(self.alpha_pattern, module), self.alpha)
        rank = self.rank_of(module)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank


def matches(pattern: str, text: str) -> bool:
    """Full match of a config's regular expression, in bounded time.

    Raises:
        Refused: when the pattern is not a regular expression or takes too long.
    """
    try:
        return regex.fullmatch(pattern, text, timeout=MATCH_TIMEOUT_S) is not None
    except TimeoutError as error:
        raise Refused(f"adapter_config.json: the pattern {pattern[:80]!r} takes too long to match.") from error
    except regex.error as error:
        raise Refused(f"adapter_config.json: {pattern[:80]!r} is not a regular expression: {error}") from error


def _matching(patterns: Mapping[str, Any], module: str) -> str:
    return next((key for key in patterns if matches(rf"(.*\.)?({key})", module)), "")


def read_lora_config(config: Mapping[str, Any]) -> tuple[LoraConfig | None, list[str]]:
    """The checked config, or None with every problem found, each naming its field."""
    read = _Reader(config)
    made = LoraConfig(
        rank=read.whole("r", least=1),
        alpha=read.number("lora_alpha"),
        use_rslora=read.flag("use_rslora"),
        rank_pattern=read.pattern("rank_pattern", lambda value: _is_whole(value) and value >= 1),
        alpha_pattern=read.pattern("alpha_pattern", _is_number),
        target_modules=read.names("target_modules"),
        exclude_modules=read.names("exclude_modules"),
        layers_to_transform=read.layers(),
        layers_pattern=_as_tuple(read.names("layers_pattern")),
        task_type=config.get("task_type") if isinstance(config.get("task_type"), str) else None,
        warnings=tuple(read.unknown()),
    )
    problems = read.problems + list(_unsupported(config))
    return (None if problems else made), problems


def _unsupported(config: Mapping[str, Any]) -> list[str]:
    problems = []
    if config.get("bias", "none") not in (None, "none"):
        problems.append(f"bias: {config['bias']!r} is not supported yet; train with bias='none'.")
    init = config.get("init_lora_weights")
    if isinstance(init, str) and init.lower().startswith(_CHANGES_BASE):
        problems.append(
            f"init_lora_weights: {init!r} trains against a changed base. Convert it to a plain LoRA first: "
            "save_pretrained(..., path_initial_model_for_weight_conversion=...), which sets this field to true."
        )
    for field in sorted(_SWITCHES):
        if config.get(field):
            problems.append(f"{field}: {config[field]!r} is not supported yet: {_SWITCHES[field]}.")
    return problems


#: Fields that change the answer and have no support yet, with what each would need.
_SWITCHES = {
    "use_dora": "DoRA rescales the columns of W",
    "lora_bias": "a bias on lora_B",
    "modules_to_save": "whole replaced modules",
    "trainable_token_indices": "replaced embedding rows",
    "fan_in_fan_out": "transposed weights",
    "alora_invocation_tokens": "activated LoRA",
    "use_qalora": "QA-LoRA pools its input",
    "use_bdlora": "block-diagonal LoRA",
    "layer_replication": "a base with repeated layers",
    "target_parameters": "deltas on bare parameters",
    "megatron_config": "Megatron layers",
    "arrow_config": "routing between adapters",
    "monteclora_config": "MonteCLoRA",
    "velora_config": "VeLoRA",
    "kasa_config": "KaSA",
}


class _Reader:
    """Reads fields one by one and remembers what was wrong with them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.problems: list[str] = []

    def _bad(self, field: str, want: str) -> None:
        self.problems.append(f"{field}: {self.config.get(field)!r} must be {want}.")

    def whole(self, field: str, *, least: int) -> int:
        value = self.config.get(field)
        if _is_whole(value) and value >= least:
            return int(value)
        self._bad(field, f"a whole number of at least {least}")
        return least

    def number(self, field: str) -> float:
        value = self.config.get(field)
        if _is_number(value):
            return float(value)
        self._bad(field, "a finite number")
        return 1.0

    def flag(self, field: str) -> bool:
        value = self.config.get(field, False)
        if value is None or isinstance(value, bool):
            return bool(value)
        self._bad(field, "true or false")
        return False

    def pattern(self, field: str, good: Callable[[Any], bool]) -> dict[str, Any]:
        value = self.config.get(field) or {}
        if isinstance(value, dict) and all(good(item) for item in value.values()):
            return value
        self._bad(field, "an object of module patterns and numbers")
        return {}

    def names(self, field: str) -> str | tuple[str, ...] | None:
        value = self.config.get(field)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self._bad(field, "a name, a pattern or a list of names")
        return None

    def layers(self) -> tuple[int, ...] | None:
        value = self.config.get("layers_to_transform")
        items = [value] if _is_whole(value) else value
        if items is None or items == []:
            return None
        if isinstance(items, list) and all(_is_whole(item) for item in items):
            return tuple(items)
        self._bad("layers_to_transform", "a layer number or a list of them")
        return None

    def unknown(self) -> list[str]:
        """Warn of unknown fields; one that switches something on may change the answer, so it is a problem."""
        warnings = []
        for field in sorted(set(self.config) - _HARMLESS - _READ - set(_SWITCHES) - {"bias"}):
            if self.config[field] is True:
                self.problems.append(f"{field}: unknown field that is switched on; it may change the answer.")
            elif self.config[field]:
                warnings.append(f"{field}: unknown field in adapter_config.json, ignored.")
        return warnings


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _as_tuple(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else (value or ())
