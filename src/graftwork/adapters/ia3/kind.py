"""Ia3: a learned vector per linear layer, which scales its output, or its input where it is a feed-forward layer.

Paper: https://arxiv.org/abs/2205.05638. Format: `peft.tuners.ia3`; tensors are called `<module>.ia3_l`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graftwork.adapters.checks import shape_problem, value_problem
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.ia3.config import Ia3Config, read_ia3_config
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import SiteTensors, account_sites, match_sites
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
        one = partial(_account_vector, config)
        return account_sites(folder, outline, config.fields, config.targets, folder.tensors.values(), _PARTS, one)

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        import torch

        from graftwork.adapters.serving_form import Affine, ServingForm

        config = read_ia3_config(folder.config)
        affines = []
        for stored in match_sites(folder.tensors.values(), _PARTS, outline)[0]:
            vector = torch.from_numpy(stored.parts["ia3_l"].float32().ravel())
            if config.scales_input(stored.path):
                affines.append(Affine(stored.index, scale_in=vector))
            else:
                affines.append(Affine(stored.index, scale_out=vector))
        return ServingForm(affines=tuple(affines))


def _account_vector(config: Ia3Config, stored: SiteTensors, site: LinearSite) -> tuple[list[TensorEntry], list[str]]:
    vector = stored.parts["ia3_l"]
    inward = config.scales_input(site.path)
    shape = (1, site.in_features) if inward else (site.out_features, 1)
    problem = shape_problem(vector, shape, f"the {'input' if inward else 'output'} of {site.path}")
    problem = problem or value_problem(vector)
    problems = [problem] if problem else []
    effect = None if problem else float(np.linalg.norm(vector.float32() - 1))  # a vector of ones changes nothing
    return stored.entries(problems, norm=effect), problems
