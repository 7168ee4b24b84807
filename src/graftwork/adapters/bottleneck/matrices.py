"""Matrices: the values of a bottleneck adapter in float32, Compacter's Kronecker products multiplied out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from graftwork.adapters.bottleneck.layout import Half, Layout, Module
from graftwork.adapters.folder import StoredTensor

Array = npt.NDArray[np.float32]


class Matrices:
    """Reads from tensors by their whole names in the layout; all of those must be there and have its shapes."""

    def __init__(self, layout: Layout, tensors: Mapping[str, StoredTensor]) -> None:
        self._layout, self._tensors = layout, tensors

    def value(self, name: str) -> Array:
        return self._tensors[name].float32()

    def down(self, module: Module) -> tuple[Array, Array]:
        """Weight [width, hidden] and bias [width]."""
        return self._linear(module, "down", self._layout.down)

    def up(self, module: Module) -> tuple[Array, Array]:
        """Weight [hidden, width] and bias [hidden], both with the scaling in them."""
        weight, bias = self._linear(module, "up", "adapter_up")
        scaling = self._layout.config.scaling
        scale = self.value(f"{module.path}.scaling") if isinstance(scaling, str) else np.array([scaling], np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return weight * scale[:, None], bias * scale

    def _linear(self, module: Module, half: Half, part: str) -> tuple[Array, Array]:
        path, phm = f"{module.path}.{part}", self._layout.config.phm
        if phm is None:
            return self.value(f"{path}.weight"), self.value(f"{path}.bias")
        shared = self._layout.shared
        factors = self._product(f"{shared}.W_{half}" if phm.shared else f"{path}.W", whole=phm.rank is None)
        rule = self._product(f"{shared if phm.shared_rule else path}.phm_rule", whole=not phm.factorized_rule)
        # H = Σₙ ruleₙ ⊗ Wₙ, [in, out], of y = x H + b
        with np.errstate(over="ignore", invalid="ignore"):
            dense = np.einsum("nij,nkl->jlik", rule, factors)
        out, into = dense.shape[0] * dense.shape[1], dense.shape[2] * dense.shape[3]
        bias = self.value(f"{path}.b") if phm.bias else np.zeros(out, np.float32)
        return dense.reshape(out, into).astype(np.float32), bias

    def _product(self, name: str, *, whole: bool) -> Array:
        """[dim, rows, columns], stored whole or as two factors."""
        if whole:
            return self.value(name)
        with np.errstate(over="ignore", invalid="ignore"):
            product: Array = self.value(f"{name}_left") @ self.value(f"{name}_right")
        return product
