"""AdaloraConfig: the fields of a PEFT AdaLoRA config that change the answer.

Fields: https://huggingface.co/docs/peft/package_reference/adalora#peft.AdaLoraConfig; of those that it inherits from
LoRA, `r`, `use_rslora` and `alpha_pattern` have no effect there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.module_names import find_module
from graftwork.adapters.outline import Outline
from graftwork.adapters.targeting import Targets, read_targets

#: PEFT resets `fan_in_fan_out` to what the layer is.
_IGNORED = (
    "alpha_pattern", "beta1", "beta2", "corda_config", "deltaT", "ensure_weight_tying", "eva_config", "fan_in_fan_out",
    "init_lora_weights", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core", "orth_reg_weight",
    "qalora_group_size", "r", "target_r", "tfinal", "tinit", "total_step", "use_rslora",
)  # fmt: skip
#: Added to the rank in PEFT's scale.
_EPSILON = 1e-5


@dataclass(frozen=True)
class AdaloraConfig:
    """Checked values; `fields` knows what was wrong with them."""

    fields: ConfigFields
    targets: Targets
    first_rank: int
    alpha: float
    #: Module path to the rank that training left it; all others kept the first.
    ranks: Mapping[str, int]

    def rank_of(self, path: str) -> int:
        return self.ranks.get(path, self.first_rank)

    def scale_of(self, path: str) -> float:
        """alpha over the *first* rank, whatever training left. Rule: `peft.tuners.adalora.layer.SVDLinear`."""
        return (self.alpha if self.alpha > 0 else float(self.rank_of(path))) / (self.first_rank + _EPSILON)


def read_adalora_config(config: Mapping[str, Any], outline: Outline) -> AdaloraConfig:
    """The config, to be served only when its `fields` have no problems."""
    fields = ConfigFields(config, _IGNORED)
    fields.refused("bias", "biases of the base that training changed", "none")
    fields.refused("modules_to_save", "whole replaced modules beside AdaLoRA")
    fields.refused("trainable_token_indices", "replaced embedding rows beside AdaLoRA")
    first_rank = fields.whole("init_r")
    return AdaloraConfig(
        fields,
        targets=read_targets(fields),
        first_rank=first_rank,
        alpha=fields.number("lora_alpha"),
        ranks=_read_ranks(fields, first_rank, outline),
    )


def _read_ranks(fields: ConfigFields, first_rank: int, outline: Outline) -> dict[str, int]:
    """`rank_pattern` as training writes it: for each `<module>.lora_E` which of its first ranks were kept."""

    def is_mask(value: Any) -> bool:
        return isinstance(value, list) and len(value) == first_rank and all(isinstance(kept, bool) for kept in value)

    ranks = {}
    for name, kept in fields.pattern("rank_pattern", is_mask, f"masks of {first_rank} ranks").items():
        module = name.removesuffix(".default").removesuffix(".lora_E")
        path = find_module(module, outline.site_of)
        if path is None:
            fields.bad("rank_pattern", f"of modules that the base has, and it has no linear layer {module[:80]!r}")
        else:
            ranks[path] = sum(kept)
    return ranks
