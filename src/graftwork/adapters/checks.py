"""Checks that every kind makes of its stored tensors, and the account's lines that come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graftwork.adapters.files.stored_tensor import StoredTensor
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry

NO_EFFECT = "This adapter has no effect: every delta is zero."
_SHOWN = 5
#: bfloat16's; float32 ends a little later, at 3.403e38.
LARGEST = np.float32(3.3895314e38)


def entry(tensor: StoredTensor, *, used: bool, reason: str, **facts: Any) -> TensorEntry:
    """The account's line for a stored tensor; `facts` are further fields of TensorEntry."""
    return TensorEntry(
        name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, bytes=tensor.nbytes, used=used, reason=reason, **facts
    )


def shape_problem(tensor: StoredTensor, shape: Sequence[int], what: str) -> str | None:
    """Why a tensor has not the dtype and shape that it must have; `what` says who needs that shape."""
    if not tensor.is_float:
        return f"{tensor.name}: dtype {tensor.dtype} is not served; save it as float32, float16 or bfloat16."
    if tuple(tensor.shape) != tuple(shape):
        return f"{tensor.name}: shape {list(tensor.shape)}, but {what} needs {list(shape)}."
    return None


def value_problem(tensor: StoredTensor) -> str | None:
    """Why the values of a tensor cannot be served in either dtype: NaN, infinite, or beyond float32 or bfloat16."""
    values = tensor.float32()
    bad = values.size - int(np.count_nonzero(np.abs(values) <= LARGEST))  # NaN is not
    return f"{tensor.name}: {bad} of {values.size} values are NaN, infinite or too large to serve." if bad else None


def above_max_rank(rank: int, max_rank: int) -> str:
    """Of a module whose rank is over the limit: both numbers, and what to do."""
    return f"rank {rank} is above max_rank {max_rank}; raise that setting (GRAFTWORK_MAX_RANK) to serve it."


def unmatched_problems(names: Sequence[str]) -> list[str]:
    """One problem for all tensors that nothing uses, with the first few by name and reason."""
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} tensors are not used by this base: {'; '.join(names[:_SHOWN])}{more}."]


def base_warnings(config: Mapping[str, Any], outline: Outline, *, field: str = "base_model_name_or_path") -> list[str]:
    """What to say when the config names another base, or none: the shapes decide; nothing is fetched by that name."""
    claimed = config.get(field)
    if not isinstance(claimed, str) or not claimed:
        return [f"{field} is empty; the shapes fit this base."]
    own = {outline.base, outline.source.lower().split("/")[-1]}
    if not own & set(claimed.lower().replace("\\", "/").split("/")):  # a prepared base lies in a folder of its name
        return [f"{field} is {claimed!r}, served on {outline.base!r}; the shapes fit."]
    return []
