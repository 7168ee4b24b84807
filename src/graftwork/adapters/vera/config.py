"""VeraConfig: the fields of a PEFT VeRA config that change the answer.

Fields: https://huggingface.co/docs/peft/package_reference/vera#peft.VeraConfig
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.outline import Outline
from graftwork.adapters.targeting import Targets, read_targets

#: PEFT resets `fan_in_fan_out` to what the layer is; the others are of training.
_IGNORED = ("d_initial", "fan_in_fan_out", "init_weights", "vera_dropout")
#: The paper goes up to 1024. The random matrices may not be stored, so that only this bounds their size.
_LARGEST_RANK = 8192
_LARGEST_KEY = (1 << 63) - 1


@dataclass(frozen=True)
class VeraConfig:
    """Checked values; `fields` knows what was wrong with them."""

    fields: ConfigFields
    targets: Targets
    rank: int
    #: Whether the random matrices are stored; else they are drawn again with this seed.
    stored: bool
    seed: int

    def shapes(self, outline: Outline) -> dict[str, tuple[int, int]]:
        """The random matrices: as wide as the widest input and output of the targets.

        Rule: `peft.tuners.vera.VeraModel._find_dim`.
        """
        targets = self.targets.sites(outline)
        sites = [site for site in outline.linears if site.path in targets]
        return {
            "vera_A": (self.rank, max((site.in_features for site in sites), default=0)),
            "vera_B": (max((site.out_features for site in sites), default=0), self.rank),
        }


def read_vera_config(config: Mapping[str, Any]) -> VeraConfig:
    """The config, to be served only when its `fields` have no problems."""
    fields = ConfigFields(config, _IGNORED)
    fields.refused("bias", "biases of the base that training changed", "none")
    fields.refused("modules_to_save", "whole replaced modules beside VeRA")
    fields.refused(
        "exclude_modules", "PEFT's VeRA has no such field, and the random matrices are as wide as its targets"
    )
    return VeraConfig(
        fields,
        targets=read_targets(fields),
        rank=fields.whole("r", most=_LARGEST_RANK),
        stored=fields.flag("save_projection", default=True),
        seed=fields.whole("projection_prng_key", least=0, most=_LARGEST_KEY, default=0),
    )
