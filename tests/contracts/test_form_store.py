"""Every kind's serving form comes back from disk as it was, bit for bit, with every feature that the kind serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from contracts.bench import Bench
from contracts.kinds import KindCase, all_cases
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.kinds import kind_of
from graftwork.adapters.serving_form import Part, Weights
from graftwork.engine.form_image import VECTORS, image_of, weights_within
from graftwork.engine.form_store import FormStore


def plain_fields(part: Part) -> dict[str, object]:
    return {name: value for name, value in vars(part).items() if not isinstance(value, Weights)}


@pytest.mark.parametrize("case", all_cases(), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
async def test_a_form_comes_back_from_disk_bit_for_bit(
    case: KindCase, dtype: torch.dtype, bench: Bench, tmp_path: Path
) -> None:
    folder = AdapterFolder.open(bench.adapter(case))
    base = (await bench.engine(str(dtype).removeprefix("torch.")))._model
    image = image_of(kind_of(folder.config).serving_form(folder, base.outline, dtype, base), dtype)
    assert FormStore(tmp_path, 1 << 30, base.outline, dtype, 64).write("local", "it", image)
    back = FormStore(tmp_path, 1 << 30, base.outline, dtype, 64).read("local", "it")
    assert back is not None and torch.equal(back.data, image.data)
    assert (back.dtype, back.traits, back.pieces) == (image.dtype, image.traits, image.pieces)
    assert np.array_equal(back.slices, image.slices)
    assert all(np.array_equal(back.vectors[name], image.vectors[name]) for name in VECTORS)
    assert len(back.parts) == len(image.parts)
    weights = weights_within(back.data, back.pieces)
    for (part, pieces), (same, own) in zip(image.parts, back.parts, strict=True):
        assert type(same) is type(part) and pieces == own and plain_fields(same) == plain_fields(part)
        assert same.site == part.site and same.width == part.width
        for name, given in part.weights().items():
            matrix = weights[own[name]].matrix
            assert torch.equal(matrix.view(torch.uint8), given.matrix.view(torch.uint8))
            assert torch.equal(same.weights()[name].matrix.view(torch.uint8), matrix.view(torch.uint8))
