"""LoraConfig: the fields of a PEFT LoRA config that change the answer; what we cannot honour is a problem, by name.

Fields: https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graftwork.adapters.config_fields import ConfigFields, are_token_ids, is_number, is_rank
from graftwork.adapters.targeting import Targets, read_targets

#: Stands for the base's input embedding, whatever its path is.
INPUT_EMBEDDING = ""

#: Fields that are of training only; PEFT sets `fan_in_fan_out` to what the layer is.
_IGNORED = (
    "corda_config", "eva_config", "fan_in_fan_out", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core",
    "qalora_group_size",
)  # fmt: skip
#: Initialisations after which the saved A and B belong to a *changed* base unless they were converted on saving.
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")
#: Initialisations that leave the base as it is; `true` and `false` do as well.
_KEEPS_BASE = ("gaussian", "orthogonal", "eva")
#: Fields that change the answer and are not served, with what each would need.
_REFUSED = {
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


@dataclass(frozen=True)
class LoraConfig:
    """Checked values; `fields` knows what was wrong with them. Of patterns the first key that matches wins."""

    fields: ConfigFields
    targets: Targets
    rank: int
    alpha: float
    use_rslora: bool
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    use_dora: bool
    bias: str
    lora_bias: bool
    modules_to_save: tuple[str, ...]
    #: Token ids by the module they are trained in; INPUT_EMBEDDING where the config gives a plain list.
    trainable_tokens: Mapping[str, tuple[int, ...]]
    ensure_weight_tying: bool
    invocation: tuple[int, ...] | None
    task_type: str

    @property
    def classifies(self) -> bool:
        return self.task_type == "SEQ_CLS"

    def rank_of(self, module: str) -> int:
        key = self.targets.matcher.first_key(self.rank_pattern, module)
        return self.rank if key is None else self.rank_pattern[key]

    def scale_of(self, module: str) -> float:
        """alpha / r, or alpha / sqrt(r) for rsLoRA (https://arxiv.org/abs/2312.03732)."""
        key = self.targets.matcher.first_key(self.alpha_pattern, module)
        alpha, rank = self.alpha if key is None else self.alpha_pattern[key], self.rank_of(module)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank

    def saves(self, path: str) -> bool:
        """Whether `modules_to_save` names the module at `path`, wholly or by its end."""
        return any(path == name or path.endswith(f".{name}") for name in self.modules_to_save)


def read_lora_config(config: Mapping[str, Any]) -> LoraConfig:
    """The config, to be served only when its `fields` have no problems."""
    fields = ConfigFields(config, _IGNORED)
    saved = fields.names("modules_to_save")
    made = LoraConfig(
        fields=fields,
        targets=read_targets(fields),
        rank=fields.whole("r"),
        alpha=fields.number("lora_alpha"),
        use_rslora=fields.flag("use_rslora"),
        rank_pattern=fields.pattern("rank_pattern", is_rank, "ranks"),
        alpha_pattern=fields.pattern("alpha_pattern", is_number, "numbers"),
        use_dora=fields.flag("use_dora"),
        bias=fields.choice("bias", ("none", "all", "lora_only")),
        lora_bias=fields.flag("lora_bias"),
        modules_to_save=(saved,) if isinstance(saved, str) else (saved or ()),
        trainable_tokens=_trainable_tokens(fields),
        ensure_weight_tying=fields.flag("ensure_weight_tying"),
        invocation=fields.token_ids("alora_invocation_tokens"),
        task_type=str(fields.value("task_type"))[:40],
    )
    _check_initialisation(fields)
    for field, why in sorted(_REFUSED.items()):
        fields.refused(field, why)
    _check_together(made)
    return made


def _trainable_tokens(fields: ConfigFields) -> dict[str, tuple[int, ...]]:
    value = fields.value("trainable_token_indices") or {}
    by_module = value if isinstance(value, dict) else {INPUT_EMBEDDING: value}
    if all(are_token_ids(ids) and len(set(ids)) == len(ids) for ids in by_module.values()):
        return {str(name): tuple(ids) for name, ids in by_module.items()}
    fields.bad("trainable_token_indices", "a list of different token ids, or an object of such lists by module")
    return {}


def _check_initialisation(fields: ConfigFields) -> None:
    init = fields.value("init_lora_weights")
    if isinstance(init, str) and init.lower().startswith(_CHANGES_BASE):
        fields.problem(
            f"init_lora_weights: {init[:80]!r} trains against a changed base. Convert it to a plain LoRA first: "
            "save_pretrained(..., path_initial_model_for_weight_conversion=...), which sets this field to true."
        )
    elif not (init is None or isinstance(init, bool) or init in _KEEPS_BASE):
        fields.problem(f"init_lora_weights: {str(init)[:80]!r} is not known, so what it did to the base is not either.")


def _check_together(made: LoraConfig) -> None:
    """Fields that PEFT does not take together, or whose sum has no served form."""
    if made.lora_bias and made.use_dora:
        made.fields.problem("lora_bias and use_dora are both true; PEFT has no such adapter.")
    others = {
        "use_dora": made.use_dora,
        "bias": made.bias != "none",
        "modules_to_save": bool(made.modules_to_save),
        "trainable_token_indices": bool(made.trainable_tokens),
    }
    if made.invocation is not None and made.task_type != "CAUSAL_LM":
        made.fields.problem(
            f"task_type: {made.task_type} with alora_invocation_tokens; PEFT looks for them in CAUSAL_LM adapters only."
        )
    for field in [field for field, there in others.items() if there and made.invocation is not None]:
        made.fields.problem(
            f"{field}: not served together with alora_invocation_tokens, as it would not wait for the invocation."
        )
