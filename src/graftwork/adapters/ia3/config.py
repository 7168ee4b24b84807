"""Ia3Config: the fields of a PEFT IA3 config that change the answer.

Fields: https://huggingface.co/docs/peft/package_reference/ia3#peft.IA3Config
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.targeting import Targets, read_targets

#: PEFT resets `fan_in_fan_out` to what the layer is; `init_ia3_weights` is of training only.
_IGNORED = ("fan_in_fan_out", "init_ia3_weights")


@dataclass(frozen=True)
class Ia3Config:
    """Checked values; `fields` knows what was wrong with them."""

    fields: ConfigFields
    targets: Targets
    feedforward: str | tuple[str, ...]

    def scales_input(self, path: str) -> bool:
        """Whether a target is a feed-forward layer, by PEFT's rule: here an end of the path needs no dot before it.

        Rule: `peft.tuners.ia3.IA3Model._check_target_module_feedforward`.
        """
        if isinstance(self.feedforward, str):
            return self.targets.matcher.matches(self.feedforward, path)
        return path.endswith(self.feedforward)


def read_ia3_config(config: Mapping[str, Any]) -> Ia3Config:
    """The config, to be served only when its `fields` have no problems."""
    fields = ConfigFields(config, _IGNORED)
    targets = read_targets(fields)
    feedforward = fields.names("feedforward_modules", needed=True)
    fields.refused("modules_to_save", "whole replaced modules beside IA3")
    return Ia3Config(fields, targets, feedforward or ())
