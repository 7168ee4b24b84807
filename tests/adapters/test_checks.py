"""Checks of single tensors: what could not be served in one of the two dtypes is found, by the tensor's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from graftwork.adapters.checks import shape_problem, value_problem
from graftwork.adapters.files.safetensors_file import read_safetensors
from graftwork.adapters.files.stored_tensor import StoredTensor


def stored(folder: Path, values: object, dtype: str) -> StoredTensor:
    save_file({"x": np.array(values, dtype)}, folder / "x.safetensors")
    (tensor,) = read_safetensors(folder / "x.safetensors")
    return tensor


@pytest.mark.parametrize(
    ("values", "dtype", "bad"),
    [
        ([1.0, -2.0, 0.0], "float32", 0),
        ([np.nan, 1.0, np.inf, -np.inf], "float32", 3),
        ([65504.0, -65504.0], "float16", 0),
        ([1e38, -3.38e38], "float32", 0),
        ([3.4e38, 1.0], "float32", 1),
        ([-3.4e38, 3.4e38], "float64", 2),
        ([1e300, 1e39, 1e38], "float64", 2),
    ],
)
def test_values_that_either_serving_dtype_cannot_hold_are_counted(
    tmp_path: Path, values: list[float], dtype: str, bad: int
) -> None:
    tensor = stored(tmp_path, values, dtype)
    problem = value_problem(tensor)
    assert (problem is None) == (bad == 0)
    if problem:
        assert f"x: {bad} of {len(values)}" in problem
    else:
        assert torch.from_numpy(tensor.float32()).to(torch.bfloat16).isfinite().all()


def test_a_dtype_that_is_not_served_is_named(tmp_path: Path) -> None:
    assert shape_problem(stored(tmp_path, [1.0], "float32"), (1,), "it") is None
    assert "I32" in str(shape_problem(stored(tmp_path, [1], "int32"), (1,), "it"))
    assert "F8_E4M3" in str(shape_problem(StoredTensor("x", "F8_E4M3", (1,), 1), (1,), "it"))
