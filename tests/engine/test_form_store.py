"""FormStore: what is read is what was written for exactly this version, base and dtype, or nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graftwork.adapters.bottleneck.config import Sums
from graftwork.adapters.bottleneck.layer import BottleneckPart
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.serving_form import Affine, LowRankSlice, Part, ServingForm, Site, Traits, Weights
from graftwork.artifacts.partial import PARTIAL
from graftwork.engine import form_blob, form_store
from graftwork.engine.form_files import NOBODYS, FormFiles
from graftwork.engine.form_image import FormImage, image_of
from graftwork.engine.form_store import FormStore
from graftwork.errors import InvalidRequest

SITES = (LinearSite("x", 48, 32, False), LinearSite("y", 32, 64, False))
OUTLINE = Outline("b", "X", "sha256:0", "float32", 8, 4, 1, 1, 1, 2, 512, SITES, (), (), "b")
SUMS = Sums("sum", None, True, -1)


def image(fill: float = 1.0, rank: int = 3) -> FormImage:
    down, up = Weights.of(torch.full((2, 4), fill)), Weights.of(torch.full((4, 2), fill))
    part = BottleneckPart(Site("mlp", 0), down, Weights.of(torch.ones(2)), up, Weights.of(torch.ones(4)), "relu", SUMS)
    return image_of(
        ServingForm(
            (LowRankSlice(1, torch.full((rank, 32), fill), torch.full((rank, 64), -fill)),),
            (Affine(0, scale_out=torch.full((32,), fill)),),
            (part,),
            Traits(virtual_tokens=2, invocation=(1, 2), labels=("a", "b")),
        ),
        torch.float32,
    )


def store_in(root: Path, max_bytes: int = 1 << 20, outline: Outline = OUTLINE, rank: int = 64) -> FormStore:
    return FormStore(root, max_bytes, outline, torch.float32, rank)


def blobs(root: Path) -> list[Path]:
    return sorted(root.glob("*/*.form"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store, given = store_in(tmp_path), image(2.0)
    assert store.read("local", "a") is None
    assert store.write("local", "a", given)
    back = store_in(tmp_path).read("local", "a")
    assert back is not None and torch.equal(back.data, given.data) and back.traits == given.traits
    (part, pieces), (want, same) = back.parts[0], given.parts[0]
    assert isinstance(part, BottleneckPart) and isinstance(want, BottleneckPart)
    assert (part.sums, part.non_linearity, part.after_bias, pieces) == (SUMS, "relu", None, same)
    assert torch.equal(part.down.matrix, want.down.matrix)


def test_a_form_of_another_version_tenant_base_dtype_rank_or_number_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_in(tmp_path).write("local", "a", image())
    assert store_in(tmp_path).read("local", "b") is None
    assert store_in(tmp_path).read("other", "a") is None
    assert store_in(tmp_path, outline=replace(OUTLINE, weights_digest="sha256:1")).read("local", "a") is None
    assert store_in(tmp_path, outline=replace(OUTLINE, vocab_size=9)).read("local", "a") is None
    assert store_in(tmp_path, rank=63).read("local", "a") is None
    assert FormStore(tmp_path, 1 << 20, OUTLINE, torch.bfloat16, 64).read("local", "a") is None
    assert store_in(tmp_path, outline=replace(OUTLINE, base="another name for it")).read("local", "a") is not None
    monkeypatch.setattr(form_store, "FORM_FORMAT", form_blob.FORM_FORMAT + 1)
    assert store_in(tmp_path).read("local", "a") is None


def test_all_forms_of_a_version_can_be_found_and_removed_without_its_base(tmp_path: Path) -> None:
    for rank in (63, 64):
        assert store_in(tmp_path, rank=rank).write("local", "a", image())
    store_in(tmp_path).write("local", "b", image())
    store_in(tmp_path).write("other", "a", image())
    (tmp_path / "local" / "cut.form").write_bytes(b"graft")
    files = FormFiles(tmp_path)
    assert sorted(one.digest for one in files.held("local")) == ["a", "a", "b", NOBODYS]
    assert files.remove("local", "a") and files.remove("local", NOBODYS)
    assert [one.digest for one in files.held("local")] == ["b"]
    assert store_in(tmp_path).read("other", "a") is not None


def test_a_blob_under_the_name_of_another_version_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_in(tmp_path)
    store.write("local", "a", image(1.0))
    (blob,) = blobs(tmp_path)
    content = blob.read_bytes()
    store.write("local", "b", image(2.0))
    next(path for path in blobs(tmp_path) if path != blob).write_bytes(content)
    assert store.read("local", "b") is None and "something else" in caplog.text
    assert store.read("local", "a") is not None


@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_one_changed_byte_anywhere_is_damage(tmp_path_factory: pytest.TempPathFactory, place: int, flip: int) -> None:
    root = tmp_path_factory.mktemp("forms", numbered=True)
    store = store_in(root)
    store.write("local", "a", image())
    (blob,) = blobs(root)
    content = bytearray(blob.read_bytes())
    content[place % len(content)] ^= flip
    blob.write_bytes(content)
    assert store.read("local", "a") is None


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 200, -1])
def test_a_blob_that_is_cut_off_is_damage_and_is_replaced(tmp_path: Path, length: int) -> None:
    store = store_in(tmp_path)
    store.write("local", "a", image())
    (blob,) = blobs(tmp_path)
    blob.write_bytes(blob.read_bytes()[:length])
    assert store.read("local", "a") is None
    assert store.write("local", "a", image(3.0))
    back = store.read("local", "a")
    assert back is not None and torch.equal(back.data, image(3.0).data)


def test_tables_that_point_outside_are_not_believed_even_with_a_right_checksum(tmp_path: Path) -> None:
    good = image()
    outside = good.slices.copy()
    outside[2] = len(good.data) - 64
    store = store_in(tmp_path)
    store.write("local", "a", replace(good, slices=outside))
    assert store.read("local", "a") is None
    negative = good.slices.copy()
    negative[3] = -64
    store.write("local", "b", replace(good, slices=negative))
    assert store.read("local", "b") is None
    store.write("local", "c", replace(good, pieces=tuple(replace(one, offset=len(good.data)) for one in good.pieces)))
    assert store.read("local", "c") is None


def test_a_blob_whose_time_may_not_be_set_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_in(tmp_path).write("local", "a", image())

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    assert store_in(tmp_path).read("local", "a") is not None


@dataclass(frozen=True)
class Foreign(Part):
    """A part of no kind of the package."""


@dataclass(frozen=True)
class _Odd(BottleneckPart):
    """A part with a field that is no plain value."""

    odd: object = None


def test_a_part_that_cannot_be_described_is_not_kept(tmp_path: Path) -> None:
    for part in (Foreign(Site("mlp")), _Odd(*vars(image().parts[0][0]).values())):
        made = image_of(ServingForm(parts=(part,)), torch.float32)
        assert not store_in(tmp_path).write("local", "a", made)
    assert blobs(tmp_path) == []


def test_those_not_read_for_longest_go_when_the_folder_is_full(tmp_path: Path) -> None:
    store_in(tmp_path).write("local", "0", image())
    (one,) = blobs(tmp_path)
    size = one.stat().st_size
    store = store_in(tmp_path, max_bytes=7 * size // 2)
    for age, digest in enumerate(("0", "1", "2")):
        store.write("local", digest, image())
        os.utime(store._path("local", digest), (age, age))
    assert store.read("local", "0") is not None  # now the most recent
    store.write("other", "3", image())
    assert [store.read("local", digest) is not None for digest in ("0", "1", "2")] == [True, False, True]
    assert store.read("other", "3") is not None
    assert not store_in(tmp_path, max_bytes=size - 1).write("local", "4", image())


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "forms").write_text("a file in its place")
    store = store_in(tmp_path / "forms")
    assert not store.write("local", "a", image()) and "cannot be written" in caplog.text
    assert store.read("local", "a") is None


def test_a_crash_while_writing_leaves_no_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)

    def crash(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        store.write("local", "a", image())
    monkeypatch.undo()
    assert store.read("local", "a") is None and blobs(tmp_path) == [] and list((tmp_path / PARTIAL).iterdir()) == []


def test_a_tenant_is_a_name_and_no_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        store_in(tmp_path).read("../elsewhere", "a")


def test_what_cannot_be_removed_goes_on_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object, **__: object) -> None:
        raise PermissionError("it is another user's")

    path = tmp_path / "a.form"
    path.write_bytes(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", locked)
        assert not form_store._removed(path)
    assert form_store._removed(path) and form_store._removed(path), "gone, and gone already"
