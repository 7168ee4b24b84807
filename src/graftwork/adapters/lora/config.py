"""LoraConfig: the fields of a PEFT LoRA config that change the answer; what we cannot honour is a problem, by name.

Fields: https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as made_by
from typing import Any, TypeGuard

from graftwork.adapters.lora.patterns import MAX_CHARS, MAX_PATTERNS, Matcher

#: No trained adapter comes near; what lies beyond is damage, and would overflow.
_LARGEST_RANK = 1 << 16
_LARGEST_ALPHA = 1e30
_LARGEST_TOKEN = 1 << 31
#: Stands for the base's input embedding, whatever its path is.
INPUT_EMBEDDING = ""

#: Fields that describe training, provenance or defaults, and do not change what a trained adapter answers.
_HARMLESS = {
    "auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "inference_mode", "layers_pattern",
    "layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core", "peft_type",
    "peft_version", "qalora_group_size", "revision", "fan_in_fan_out",
}  # fmt: skip
_READ = {
    "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "target_modules", "exclude_modules",
    "init_lora_weights", "use_dora", "bias", "lora_bias", "modules_to_save", "trainable_token_indices",
    "ensure_weight_tying", "alora_invocation_tokens", "task_type",
}  # fmt: skip
#: Initialisations after which the saved A and B belong to a *changed* base unless they were converted on saving.
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")
#: Initialisations that leave the base as it is; `true` and `false` do as well.
_KEEPS_BASE = ("gaussian", "orthogonal", "eva")


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
    use_dora: bool
    bias: str
    lora_bias: bool
    modules_to_save: tuple[str, ...]
    #: Token ids by the module they are trained in; the input embedding where the config gives a plain list.
    trainable_tokens: Mapping[str, tuple[int, ...]]
    ensure_weight_tying: bool
    invocation: tuple[int, ...] | None
    task_type: str
    warnings: tuple[str, ...]
    matcher: Matcher = made_by(default_factory=Matcher, compare=False)

    @property
    def classifies(self) -> bool:
        return self.task_type == "SEQ_CLS"

    def rank_of(self, module: str) -> int:
        key = self.matcher.first_key(self.rank_pattern, module)
        return self.rank if key is None else self.rank_pattern[key]

    def scale_of(self, module: str) -> float:
        """alpha / r, or alpha / sqrt(r) for rsLoRA (https://arxiv.org/abs/2312.03732)."""
        key = self.matcher.first_key(self.alpha_pattern, module)
        alpha, rank = self.alpha if key is None else self.alpha_pattern[key], self.rank_of(module)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank


def read_lora_config(config: Mapping[str, Any]) -> tuple[LoraConfig | None, list[str]]:
    """The checked config, or None with every problem found, each naming its field."""
    read = _Reader(config)
    made = LoraConfig(
        rank=read.whole("r", least=1),
        alpha=read.number("lora_alpha"),
        use_rslora=read.flag("use_rslora"),
        rank_pattern=read.pattern("rank_pattern", lambda value: _is_whole(value) and 1 <= value <= _LARGEST_RANK),
        alpha_pattern=read.pattern("alpha_pattern", _is_number),
        target_modules=read.names("target_modules"),
        exclude_modules=read.names("exclude_modules"),
        layers_to_transform=read.layers(),
        layers_pattern=_as_tuple(read.names("layers_pattern")),
        use_dora=read.flag("use_dora"),
        bias=read.choice("bias", ("none", "all", "lora_only")),
        lora_bias=read.flag("lora_bias"),
        modules_to_save=_as_tuple(read.names("modules_to_save")),
        trainable_tokens=read.trainable_tokens(),
        ensure_weight_tying=read.flag("ensure_weight_tying"),
        invocation=read.token_ids("alora_invocation_tokens"),
        task_type=str(config.get("task_type"))[:40],
        warnings=tuple(read.unknown()),
    )
    problems = read.problems + list(_unsupported(config)) + _contradictions(made)
    return (None if problems else made), problems


def _contradictions(made: LoraConfig) -> list[str]:
    """Fields that PEFT does not take together, or whose sum has no served form."""
    problems = []
    if made.lora_bias and made.use_dora:
        problems.append("lora_bias and use_dora are both true; PEFT has no such adapter.")
    if made.invocation is not None:
        others = {
            "use_dora": made.use_dora,
            "bias": made.bias != "none",
            "modules_to_save": bool(made.modules_to_save),
            "trainable_token_indices": bool(made.trainable_tokens),
        }
        problems += [
            f"{field}: not served together with alora_invocation_tokens, as it would not wait for the invocation."
            for field, there in others.items()
            if there
        ]
    return problems


def _unsupported(config: Mapping[str, Any]) -> list[str]:
    problems = []
    init = config.get("init_lora_weights")
    if isinstance(init, str) and init.lower().startswith(_CHANGES_BASE):
        problems.append(
            f"init_lora_weights: {init!r} trains against a changed base. Convert it to a plain LoRA first: "
            "save_pretrained(..., path_initial_model_for_weight_conversion=...), which sets this field to true."
        )
    elif not (init is None or isinstance(init, bool) or init in _KEEPS_BASE):
        problems.append(
            f"init_lora_weights: {str(init)[:80]!r} is not known, so what it did to the base is not either."
        )
    for field in sorted(_SWITCHES):
        if config.get(field):
            problems.append(f"{field}: {_short(config[field])} is not supported yet: {_SWITCHES[field]}.")
    return problems


#: Fields that change the answer and have no support yet, with what each would need.
_SWITCHES = {
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
        self.problems.append(f"{field}: {_short(self.config.get(field))} must be {want}.")

    def whole(self, field: str, *, least: int) -> int:
        value = self.config.get(field)
        if _is_whole(value) and least <= value <= _LARGEST_RANK:
            return int(value)
        self._bad(field, f"a whole number from {least} to {_LARGEST_RANK}")
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

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        value = self.config.get(field)
        if value is None or value in choices:
            return value or choices[0]
        self._bad(field, f"one of {', '.join(choices)}")
        return choices[0]

    def token_ids(self, field: str) -> tuple[int, ...] | None:
        value = self.config.get(field)
        if value is None or value == []:
            return None
        if _are_token_ids(value):
            return tuple(value)
        self._bad(field, "a list of token ids")
        return None

    def trainable_tokens(self) -> dict[str, tuple[int, ...]]:
        value = self.config.get("trainable_token_indices") or {}
        by_module = value if isinstance(value, dict) else {INPUT_EMBEDDING: value}
        if all(isinstance(name, str) and _are_token_ids(ids) and len(set(ids)) == len(ids)
               for name, ids in by_module.items()):  # fmt: skip
            return {name: tuple(ids) for name, ids in by_module.items()}
        self._bad("trainable_token_indices", "a list of different token ids, or an object of such lists by module")
        return {}

    def pattern(self, field: str, good: Callable[[Any], bool]) -> dict[str, Any]:
        value = self.config.get(field) or {}
        if isinstance(value, dict) and all(good(item) for item in value.values()) and _is_bounded(value):
            return value
        self._bad(field, f"an object of at most {MAX_PATTERNS} module patterns and their numbers")
        return {}

    def names(self, field: str) -> str | tuple[str, ...] | None:
        value = self.config.get(field)
        if value is None or (isinstance(value, str) and len(value) <= MAX_CHARS):
            return value
        if isinstance(value, list) and all(isinstance(item, str) for item in value) and _is_bounded(value):
            return tuple(value)
        self._bad(field, f"a name, a pattern or a list of at most {MAX_PATTERNS} names of {MAX_CHARS} characters")
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
        """Warn of unknown texts; any other unknown value may change the answer, so it is a problem."""
        warnings = []
        for field in sorted(set(self.config) - _HARMLESS - _READ - set(_SWITCHES)):
            if self.config[field] and not isinstance(self.config[field], str):
                self.problems.append(f"{field}: unknown field with a value; it may change the answer, so it must go.")
            elif self.config[field]:
                warnings.append(f"{field}: unknown field in adapter_config.json, ignored.")
        return warnings


def _are_token_ids(value: Any) -> bool:
    return isinstance(value, list) and all(_is_whole(one) and 0 <= one < _LARGEST_TOKEN for one in value)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_ALPHA


def _is_bounded(names: Collection[str]) -> bool:
    return len(names) <= MAX_PATTERNS and all(len(name) <= MAX_CHARS for name in names)


def _short(value: object) -> str:
    text = repr(value) if not _is_whole(value) or abs(value) <= _LARGEST_ALPHA else "a huge number"
    return text if len(text) <= 80 else f"{text[:80]}…"


def _as_tuple(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else (value or ())
