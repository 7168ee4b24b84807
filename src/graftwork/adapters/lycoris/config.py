"""LycorisConfig: the fields that PEFT's LoHa and LoKr configs share.

Fields: https://huggingface.co/docs/peft/package_reference/loha and https://huggingface.co/docs/peft/package_reference/lokr
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graftwork.adapters.config_fields import ConfigFields, is_number, is_rank
from graftwork.adapters.targeting import Targets, read_targets

#: Of training, or of convolutions, whose tensors no linear layer has.
IGNORED = ("init_weights", "module_dropout", "rank_dropout", "rank_dropout_scale", "use_effective_conv2d")


@dataclass(frozen=True)
class LycorisConfig:
    """Checked values; `fields` knows what was wrong with them. PEFT's pattern rule: the first key that matches wins."""

    fields: ConfigFields
    targets: Targets
    rank: int
    alpha: float
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]

    def rank_of(self, path: str) -> int:
        key = self.targets.matcher.first_key(self.rank_pattern, path)
        return self.rank if key is None else self.rank_pattern[key]

    def scale_of(self, path: str) -> float:
        """alpha / rank."""
        key = self.targets.matcher.first_key(self.alpha_pattern, path)
        return (self.alpha if key is None else self.alpha_pattern[key]) / self.rank_of(path)


def read_lycoris_config(fields: ConfigFields) -> LycorisConfig:
    """The config, to be served only when its `fields` have no problems."""
    fields.refused("modules_to_save", "whole replaced modules beside the deltas")
    return LycorisConfig(
        fields,
        targets=read_targets(fields),
        rank=fields.whole("r"),
        alpha=fields.number("alpha"),
        rank_pattern=fields.pattern("rank_pattern", is_rank, "ranks"),
        alpha_pattern=fields.pattern("alpha_pattern", is_number, "alphas"),
    )
