"""From stored tensors to torch: what serving forms are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.serving_form import Weights


def tensor_of(tensor: StoredTensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The values of a stored tensor in a dtype."""
    return torch.from_numpy(tensor.float32()).to(dtype)


def weights_of(tensor: StoredTensor, dtype: torch.dtype, scale: float = 1.0) -> Weights:
    """A stored matrix, or a vector as one row, times a number."""
    values = tensor_of(tensor)
    return Weights.of((values * scale if scale != 1.0 else values).to(dtype))
