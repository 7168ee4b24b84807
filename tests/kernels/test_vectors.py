"""Vectors of float32 as bfloat16: with the processor's own instruction and without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from numba import types

from graftwork.kernels import vectors
from graftwork.kernels.jit import intrinsic, jit
from graftwork.kernels.vectors import LANES, VECTOR, load, narrowed, store


@pytest.mark.parametrize("instruction", [pytest.param(True, marks=pytest.mark.pairs), False], ids=["own", "bits"])
def test_vectors_round_as_torch_rounds(instruction: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "has_pairs", lambda: instruction)

    @intrinsic
    def narrow(_context: Any, given: Any, to: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            store(builder, narrowed(builder, load(builder, args[0], VECTOR, 4)), args[1])

        return types.void(types.int64, types.int64), generate

    @jit
    def narrow_all(given: int, to: int, count: int) -> None:
        for first in range(0, count, LANES):
            narrow(given + 4 * first, to + 2 * first)

    bits = torch.randint(-(2**31), 2**31 - 1, (10_000 * LANES,), dtype=torch.int64).to(torch.int32)
    ends = torch.tensor([0, -(2**31), 0x7F800000, 0x7F7FFFFF, 0x3F808000, 0x3F818000, 1, 0x7F800001] * 2)
    given = torch.cat([bits, ends.to(torch.int32)]).view(torch.float32)
    got = torch.empty(len(given), dtype=torch.bfloat16)
    narrow_all(given.data_ptr(), got.data_ptr(), len(given))
    want = given.to(torch.bfloat16)
    if instruction:  # to it what is less than any normal number is zero
        want[given.abs() < torch.finfo(torch.bfloat16).smallest_normal] = 0
    assert torch.equal(got.isnan(), given.isnan())
    assert torch.equal(got[~got.isnan()], want[~got.isnan()])
