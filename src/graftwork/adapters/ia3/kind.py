"""Ia3: a learned vector per linear layer, which scales its output, or its input where it is a feed-forward layer.

Paper: https://arxiv.org/abs/2205.05638. Format: `peft.tuners.ia3`; tensors are called `<module>.ia3_l`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.ia3.config import Ia3Config, read_ia3_config
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import Finding, SiteTensors, account_sites, finding, match_sites
from graftwork.adapters.tensor_entry import TensorEntry

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

_PARTS = ("ia3_l",)


class Ia3:
    """The kind `IA3`: nothing is added to a layer's output, it is multiplied, bias included."""

    name = "ia3"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "scaled outputs": "served",
            "scaled inputs (feedforward_modules)": "served",
            "the output head or other modules as targets": "refused",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config = read_ia3_config(folder.config)
        look = partial(_look, config)
        return account_sites(folder, outline, config.fields, config.targets, folder.tensors.values(), _PARTS, look)

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.serving_form import Affine, ServingForm
        from graftwork.adapters.stored_weights import tensor_of

        config = read_ia3_config(folder.config)
        affines = []
        for stored in match_sites(folder.tensors.values(), _PARTS, outline)[0]:
            vector = tensor_of(stored.parts["ia3_l"]).ravel()
            if config.scales_input(stored.path):
                affines.append(Affine(stored.index, scale_in=vector))
            else:
                affines.append(Affine(stored.index, scale_out=vector))
        return ServingForm(affines=tuple(affines))


def _look(config: Ia3Config, stored: SiteTensors, site: LinearSite) -> Finding:
    inward = config.scales_input(site.path)
    shape = (1, site.in_features) if inward else (site.out_features, 1)
    problems = stored.problems(
        {"ia3_l": shape}, f"feedforward_modules, as it scales its {'in' if inward else 'out'}put"
    )
    if problems:
        return Finding(problems)
    return finding(site.path, float(np.linalg.norm(stored.parts["ia3_l"].float32() - 1)))  # ones change nothing
