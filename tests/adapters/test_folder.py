"""AdapterFolder: damaged, missing and dangerous files are refused by name, quickly, and never executed."""

from __future__ import annotations

import contextlib
import shutil
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graftwork.adapters.files.safetensors_file import FileTensor
from graftwork.adapters.folder import AdapterFolder
from graftwork.errors import Refused
from support.fixtures import Tiny
from support.scale import times

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.adapter("a3"), tmp_path / "copy"))


def test_missing_folder_and_missing_config_are_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not a folder"):
        AdapterFolder.open(tmp_path / "nowhere")
    with pytest.raises(Refused, match=r"adapter_config\.json is missing"):
        AdapterFolder.open(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", "{'a': 1}", "[" * 100_000])
def test_a_config_that_is_no_object_is_refused(copy: Path, text: str) -> None:
    (copy / "adapter_config.json").write_text(text)
    with pytest.raises(Refused, match=r"adapter_config\.json"):
        AdapterFolder.open(copy)


@pytest.mark.parametrize("size", [0, 7, 8, 100, -1, -1000])
def test_truncated_weights_are_refused(copy: Path, size: int) -> None:
    data = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(data[:size])
    with pytest.raises(Refused, match="whole safetensors"):
        _ = AdapterFolder.open(copy).tensors


def test_a_huge_header_length_is_refused(copy: Path) -> None:
    (copy / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(Refused, match="whole safetensors"):
        _ = AdapterFolder.open(copy).tensors


def test_a_git_lfs_pointer_is_named(copy: Path) -> None:
    (copy / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(Refused, match="git lfs pull"):
        _ = AdapterFolder.open(copy).tensors


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 3.140625, 0.0], np.float32)
    (tmp_path / "x").write_bytes(b"pad!" + (values.view(np.uint32) >> 16).astype("<u2").tobytes())
    stored = FileTensor("x", "BF16", (2, 2), 8, tmp_path / "x", offset=4)
    assert (stored.float32() == values.reshape(2, 2)).all()


def test_values_are_read_one_tensor_at_a_time(copy: Path) -> None:
    """A file that matches nothing costs its header, however large it is."""
    size = 1 << 30
    header = b'{"x":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (size // 4, size)
    with (copy / WEIGHTS).open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)  # a hole: no disk, no bytes
    tracemalloc.start()
    tensors = AdapterFolder.open(copy).tensors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tensors["x"].nbytes == size and peak < 1 << 20


@settings(max_examples=times(150, 3000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 6000), flips=st.lists(st.tuples(st.integers(0, 6000), st.integers(1, 255)), max_size=3))
def test_any_damage_is_read_or_refused(copy: Path, tiny: Tiny, cut: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray((tiny.adapter("a3") / WEIGHTS).read_bytes())
    for place, mask in flips:
        data[place % len(data)] ^= mask
    (copy / WEIGHTS).write_bytes(data[: cut % len(data) or None])
    with contextlib.suppress(Refused):
        for tensor in AdapterFolder.open(copy).tensors.values():
            assert not tensor.is_float or tensor.float32().shape == tensor.shape
