"""Weights under every name and in shards: complete and free of contradictions, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from graftwork.adapters.account import account_folder
from graftwork.adapters.files.weight_files import WEIGHT_NAMES, find_weights
from graftwork.adapters.folder import AdapterFolder
from graftwork.errors import Refused
from support.fixtures import Tiny
from support.scale import times

INDEX = "adapter_model.safetensors.index.json"
ONE, TWO = "adapter_model-00001-of-00002.safetensors", "adapter_model-00002-of-00002.safetensors"


def write(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    (save_file if file.suffix == ".safetensors" else torch.save)(tensors, file)


@pytest.fixture
def sharded(tiny: Tiny, tmp_path: Path) -> Path:
    """The adapter a1 cut in two, with an index."""
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "sharded"))
    tensors = load_file(folder / "adapter_model.safetensors")
    (folder / "adapter_model.safetensors").unlink()
    names = sorted(tensors)
    parts = {ONE: names[: len(names) // 2], TWO: names[len(names) // 2 :]}
    for file, mine in parts.items():
        save_file({name: tensors[name] for name in mine}, folder / file)
    weight_map = {name: file for file, mine in parts.items() for name in mine}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return folder


def edit_index(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / INDEX).read_text())
    edit(content["weight_map"])
    (folder / INDEX).write_text(json.dumps(content))


def refusal(folder: Path) -> str:
    with pytest.raises(Refused) as caught:
        _ = AdapterFolder.open(folder).tensors
    return caught.value.message


@pytest.mark.parametrize("name", WEIGHT_NAMES)
def test_every_name_of_the_table_is_read_and_the_first_wins(tmp_path: Path, name: str) -> None:
    for other in WEIGHT_NAMES[WEIGHT_NAMES.index(name) :]:
        write(tmp_path / other, {other: torch.ones(2)})
    found = find_weights(tmp_path)
    assert list(found.tensors()) == [name]
    assert list(found.unread) == list(WEIGHT_NAMES[WEIGHT_NAMES.index(name) + 1 :])


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_shards_are_one_adapter(sharded: Path, tiny: Tiny, indexed: bool, ending: str) -> None:
    whole = account_folder(tiny.adapter("a1"), tiny.outline, max_rank=64)
    if ending == "bin":
        for name in (ONE, TWO):
            torch.save(load_file(sharded / name), sharded / name.replace("safetensors", "bin"))
            (sharded / name).unlink()
        text = (sharded / INDEX).read_text().replace(".safetensors", ".bin")
        (sharded / INDEX).unlink()
        (sharded / "adapter_model.bin.index.json").write_text(text)
    if not indexed:
        for file in sharded.glob("*.index.json"):
            file.unlink()
    assert account_folder(sharded, tiny.outline, max_rank=64) == whole


def test_a_whole_file_beside_shards_is_read_and_said_so(sharded: Path, tiny: Tiny) -> None:
    shutil.copy(tiny.adapter("a1") / "adapter_model.safetensors", sharded)
    made = account_folder(sharded, tiny.outline, max_rank=64)
    assert made.ok and [warning for warning in made.warnings if INDEX in warning]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("missing", [ONE, TWO])
def test_a_missing_shard_is_refused(sharded: Path, indexed: bool, missing: str) -> None:
    (sharded / missing).unlink()
    if not indexed:
        (sharded / INDEX).unlink()
    assert (missing if indexed else "not complete") in refusal(sharded)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_tensor_in_two_shards_is_refused_by_name(sharded: Path, indexed: bool) -> None:
    first = load_file(sharded / ONE)
    name = sorted(first)[0]
    save_file(load_file(sharded / TWO) | {name: first[name]}, sharded / TWO)
    if not indexed:
        (sharded / INDEX).unlink()
    message = refusal(sharded)
    assert name in message and ONE in message and TWO in message


def test_an_index_that_contradicts_the_shards_is_refused_by_the_tensor(sharded: Path) -> None:
    original = (sharded / INDEX).read_text()
    first, *_, last = sorted(json.loads(original)["weight_map"])
    edits: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (lambda weights: weights.pop(first), first),
        (lambda weights: weights.update({"ghost": ONE}), "ghost"),
        (lambda weights: weights.update({first: TWO}), first),
        (lambda weights: weights.update({last: ONE}), last),
    ]
    for edit, name in edits:
        (sharded / INDEX).write_text(original)
        edit_index(sharded, edit)
        assert name in refusal(sharded)


def test_a_shard_that_the_index_does_not_name_is_refused(sharded: Path) -> None:
    name = "adapter_model-00003-of-00003.safetensors"
    save_file({"x": torch.ones(1)}, sharded / name)
    assert name in refusal(sharded)


@pytest.mark.parametrize(
    "place",
    ["../other.safetensors", "/etc/passwd", "sub/x.safetensors", "a\\x.safetensors", "..", "x.bin", "", 7, None, ["a"],
     "x\0.safetensors", "é.safetensors", ".safetensors", "adapter_config.json"],
)  # fmt: skip
def test_an_index_that_leads_elsewhere_is_refused(sharded: Path, place: object) -> None:
    save_file({"x": torch.ones(1)}, sharded.parent / "other.safetensors")
    edit_index(sharded, lambda weights: weights.update({"elsewhere": place}))
    assert "elsewhere" in refusal(sharded) and "file of this folder" in refusal(sharded)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', "[" * 100_000])
def test_a_damaged_index_is_refused(sharded: Path, text: str) -> None:
    (sharded / INDEX).write_text(text)
    assert INDEX in refusal(sharded)


def test_a_git_lfs_pointer_is_named_in_every_format(sharded: Path) -> None:
    (sharded / TWO).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert TWO in refusal(sharded) and "git lfs pull" in refusal(sharded)
    for file in sharded.glob("adapter_model*"):
        file.unlink()
    (sharded / "adapter_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in refusal(sharded)


def test_no_weights_at_all_are_refused(sharded: Path) -> None:
    for file in sharded.glob("adapter_model*"):
        file.unlink()
    assert "adapter_model.safetensors is missing" in refusal(sharded)


@settings(max_examples=times(100, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.none() | st.floats(0, 1), flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=3))
def test_any_damage_of_an_index_is_refused_or_harmless(
    sharded: Path, cut: float | None, flips: list[tuple[float, int]]
) -> None:
    whole = (sharded / INDEX).read_bytes()
    names = sorted(json.loads(whole)["weight_map"])
    data = bytearray(whole)
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    (sharded / INDEX).write_bytes(data if cut is None else data[: int(cut * len(data))])
    try:
        assert list(AdapterFolder.open(sharded).tensors) == names
    except Refused:
        pass
    finally:
        (sharded / INDEX).write_bytes(whole)
