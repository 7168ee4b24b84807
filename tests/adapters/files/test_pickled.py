"""A torch file is read as data or refused by name; nothing in it is ever run."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from graftwork.adapters.account import account_folder
from graftwork.adapters.files.pickled import read_pickled
from graftwork.adapters.folder import AdapterFolder
from graftwork.errors import Refused
from support.fixtures import Tiny
from support.scale import times

WEIGHTS = "adapter_model.safetensors"
FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "copy"))


class _Call:
    """Unpickles to a call of `function`."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.call


def saved(content: object, file: Path, *, zipped: bool = True) -> Path:
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file


def refusal(file: Path) -> str:
    with pytest.raises(Refused) as caught:
        list(read_pickled(file))
    return caught.value.message


@FORMATS
@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt"])
def test_a_plain_one_gives_the_same_account_as_safetensors(copy: Path, tiny: Tiny, name: str, zipped: bool) -> None:
    whole = account_folder(copy, tiny.outline, max_rank=64)
    saved(load_file(copy / WEIGHTS), copy / name, zipped=zipped)
    before = {key: tensor.float32() for key, tensor in AdapterFolder.open(copy).tensors.items()}
    (copy / WEIGHTS).unlink()
    assert account_folder(copy, tiny.outline, max_rank=64) == whole
    after = AdapterFolder.open(copy).tensors
    assert list(after) == list(before)
    assert all((after[key].float32() == before[key]).all() for key in before)


def test_beside_safetensors_it_is_not_read_and_said_so(copy: Path, tiny: Tiny) -> None:
    want = account_folder(copy, tiny.outline, max_rank=64)
    saved({key: value * 2 for key, value in load_file(copy / WEIGHTS).items()}, copy / "adapter_model.bin")
    made = account_folder(copy, tiny.outline, max_rank=64)
    assert made.tensors == want.tensors
    assert [warning for warning in made.warnings if "adapter_model.bin is there as well" in warning]


@pytest.mark.parametrize("wrap", ["pickle", "zip", "legacy", "inside a state dict"])
def test_one_that_would_run_code_is_refused_and_not_run(tiny: Tiny, copy: Path, tmp_path: Path, wrap: str) -> None:
    marker, file = tmp_path / "ran", copy / "adapter_model.bin"
    evil: Any = _Call(Path.touch, marker)
    (copy / WEIGHTS).unlink()
    if wrap == "pickle":
        file.write_bytes(pickle.dumps(evil))
    else:
        content = {"weight": torch.ones(2), "more": evil} if wrap == "inside a state dict" else evil
        saved(content, file, zipped=wrap != "legacy")
    made = account_folder(copy, tiny.outline, max_rank=64)
    assert not made.ok and "adapter_model.bin" in made.problems[0]
    assert not marker.exists()


@FORMATS
@pytest.mark.parametrize("function", [bytearray, eval, print, io.BytesIO, torch.load, set])
def test_every_name_but_those_of_tensors_is_refused(tmp_path: Path, function: Any, zipped: bool) -> None:
    message = refusal(saved({"x": _Call(function, ())}, tmp_path / "x.bin", zipped=zipped))
    assert function.__name__ in message and "not run" in message


@FORMATS
def test_values_are_right_however_they_are_stored(tmp_path: Path, zipped: bool) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    content = OrderedDict(
        plain=base, transposed=base.T, strided=base[:, ::2], shared=base[1:], half=base.half(), none=torch.empty(0, 3),
        bfloat16=base.bfloat16(), double=base.double(), parameter=torch.nn.Parameter(base), scalar=torch.tensor(2.5),
    )  # fmt: skip
    read = {tensor.name: tensor for tensor in read_pickled(saved(content, tmp_path / "x.bin", zipped=zipped))}
    assert list(read) == list(content)
    for name, want in content.items():
        assert read[name].shape == tuple(want.shape)
        assert (read[name].float32() == want.detach().float().numpy()).all(), name
    words = {"half": "F16", "bfloat16": "BF16", "double": "F64", "plain": "F32"}
    assert {name: read[name].dtype for name in words} == words
    assert read["transposed"].nbytes == 96 and all(read[name].is_float for name in words)


def test_float64_beyond_float32_becomes_infinite_for_the_account_to_find(tmp_path: Path) -> None:
    (tensor,) = read_pickled(saved({"x": torch.tensor([1e300, 1.0], dtype=torch.float64)}, tmp_path / "x.bin"))
    assert np.isinf(tensor.float32()).tolist() == [True, False]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([torch.ones(2)], ["state dict", "list"]),
        (torch.ones(2), ["state dict", "Tensor"]),
        ({7: torch.ones(2)}, ["'7'", "no name"]),
        ({"a": torch.ones(2), "epoch": 3}, ["epoch", "int"]),
        ({"state_dict": {"a": torch.ones(2)}}, ["state_dict", "Save that dict by itself"]),
        ({"a": torch.ones(1).expand(1 << 40)}, ["a repeats its values", "contiguous"]),
        ({"a": torch.ones(2, 2).to_sparse()}, ["_rebuild_sparse_tensor"]),
        ({"a": torch.ones(2, device="meta")}, ["_rebuild_meta_tensor_no_storage"]),
    ],
)  # fmt: skip
def test_what_is_no_plain_tensor_is_refused_by_its_name(tmp_path: Path, content: Any, words: list[str]) -> None:
    message = refusal(saved(content, tmp_path / "x.bin"))
    assert all(word in message for word in ["x.bin", *words])


@pytest.mark.parametrize(
    ("dtype", "word"), [(torch.int64, "I64"), (torch.float8_e4m3fn, "float8_e4m3fn"), (torch.bool, "BOOL")]
)
def test_other_dtypes_are_read_as_no_weights(tmp_path: Path, dtype: torch.dtype, word: str) -> None:
    (tensor,) = read_pickled(saved({"x": torch.ones(3).to(dtype)}, tmp_path / "x.bin"))
    assert tensor.dtype == word and not tensor.is_float


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    """torch would take the compressed bytes for values."""
    plain, packed = saved({"x": torch.zeros(1000)}, tmp_path / "plain.bin"), tmp_path / "packed.bin"
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for record in source.infolist():
            target.writestr(record.filename, source.read(record), zipfile.ZIP_DEFLATED)
    assert "compressed" in refusal(packed)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.bin", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "not one that torch.save writes" in refusal(tmp_path / "x.bin")


@FORMATS
@pytest.mark.parametrize("size", [0, 1, 7, 100, -1, -1000, -3000])
def test_a_truncated_one_is_refused(copy: Path, zipped: bool, size: int) -> None:
    file = saved(load_file(copy / WEIGHTS), copy / "adapter_model.bin", zipped=zipped)
    file.write_bytes(file.read_bytes()[:size])
    assert "adapter_model.bin" in refusal(file)


@settings(max_examples=times(150, 3000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    zipped=st.booleans(),
    cut=st.none() | st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=3),
)
def test_any_damage_is_read_or_refused(
    tmp_path: Path, zipped: bool, cut: float | None, flips: list[tuple[float, int]]
) -> None:
    content = {f"layer.{number}": torch.ones(2, 3) for number in range(3)}
    file = saved(content, tmp_path / "x.bin", zipped=zipped)
    data = bytearray(file.read_bytes())
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    file.write_bytes(data if cut is None else data[: int(cut * len(data))])
    with contextlib.suppress(Refused):
        for tensor in read_pickled(file):
            assert not tensor.is_float or tensor.float32().shape == tensor.shape


def test_only_a_pickle_makes_the_account_import_torch(copy: Path, tiny: Tiny) -> None:
    program = (
        "import sys, pathlib; from graftwork.adapters.account import account_folder as a; "
        "from graftwork.adapters.outline import Outline; "
        "assert a(pathlib.Path(sys.argv[1]), Outline.load(pathlib.Path(sys.argv[2])), max_rank=64).ok; "
        "print('torch' in sys.modules)"
    )
    tiny.outline.save(copy.parent)
    command = [sys.executable, "-c", program, str(copy), str(copy.parent)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"
    assert json.loads((copy / "adapter_config.json").read_text())["peft_type"] == "LORA"
