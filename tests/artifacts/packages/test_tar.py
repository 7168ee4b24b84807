"""Tars: the same bytes for the same files, no byte of one trusted, and nothing of it unpacked."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.packages.directory import read_directory, write_directory
from graftwork.artifacts.packages.limits import checked
from graftwork.artifacts.packages.piece import Piece
from graftwork.artifacts.packages.tar import read_tar, write_tar
from graftwork.errors import GraftworkError, InvalidRequest, Refused


def archive(
    path: Path, *members: tuple[str, bytes | None], change: Callable[[tarfile.TarInfo], None] | None = None
) -> Path:
    """A tar of our own making: files, folders where there are no bytes, and whatever `change` makes of the last."""
    with tarfile.open(path, "w") as tar:
        for number, (name, data) in enumerate(members, start=1):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            member.size = len(data or b"")
            if change is not None and number == len(members):
                change(member)
            tar.addfile(member, io.BytesIO(data or b""))
    return path


def contents(pieces: object) -> dict[str, bytes]:
    assert isinstance(pieces, dict)
    return {name: b"".join(piece.chunks()) for name, piece in pieces.items()}


def test_written_and_read_again(tmp_path: Path) -> None:
    files = {"b.txt": b"b", "deep/" + "x" * 200 + "/é.bin": bytes(3000), "empty": b""}
    for name, data in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    pieces = read_directory(tmp_path / "in")
    write_tar(pieces, tmp_path / "a.tar")
    os.utime(tmp_path / "in" / "b.txt", (1, 1))
    write_tar(dict(reversed(list(pieces.items()))), tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    assert contents(read_tar(tmp_path / "a.tar")) == files
    write_directory(read_tar(tmp_path / "a.tar"), tmp_path / "out")
    assert contents(read_directory(tmp_path / "out")) == files


def test_other_tools_read_it_and_what_they_write_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    write_tar(read_directory(tmp_path / "in"), tmp_path / "ours.tar")
    listed = subprocess.run(["tar", "-tf", tmp_path / "ours.tar"], capture_output=True, text=True, check=True)
    assert listed.stdout == "a.txt\n"
    for form in ("gnu", "ustar", "posix"):
        subprocess.run(["tar", f"--format={form}", "-cf", tmp_path / form, "-C", tmp_path / "in", "."], check=True)
        assert contents(read_tar(tmp_path / form)) == {"a.txt": b"a"}


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a\\b",
        "C:x",
        "a\nb",
        "..",
        "x" * 1100,
        "a%2e%2e/b",
        "con",
        " a",
        "a/./b",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="not allowed"):
        read_tar(archive(tmp_path / "a.tar", ("ok", b"1"), (name, b"2")))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "A"), ("a", "./a"), ("é", "e\u0301"), ("a", "a/b")])
def test_two_that_are_one_file_somewhere_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        read_tar(archive(tmp_path / "a.tar", *((name, b"1") for name in names)))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"9"],
)
def test_what_is_neither_file_nor_folder_is_refused(kind: bytes, tmp_path: Path) -> None:
    def change(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, "/etc/passwd"

    with pytest.raises(Refused, match="neither a file nor a folder"):
        read_tar(archive(tmp_path / "a.tar", ("ok", b"1"), ("link", b""), change=change))


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    def change(member: tarfile.TarInfo) -> None:
        member.pax_headers = {"GNU.sparse.size": "1000000000000", "GNU.sparse.map": "0,1"}

    with pytest.raises(GraftworkError):
        read_tar(archive(tmp_path / "a.tar", ("holes", b"1"), change=change))


def test_what_is_compressed_cut_off_damaged_or_no_tar_is_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path / "a.tar", ("a", b"x" * 5000), ("b", b"y" * 100)).read_bytes()
    second = 512 + 5120
    for wrong, message in (
        (gzip.compress(whole), "compressed"),
        (b"", "no tar"),
        (b"hello world" * 100, "no tar"),
        (whole[:100], "no tar"),
        (whole[:2000], "cut off|end"),
        (whole[: second + 512 + 50], "cut off|end"),
        (whole[:second], "cut off"),
        (whole[:second] + b"\1" + whole[second + 1 :], "damaged"),
    ):
        (tmp_path / "wrong.tar").write_bytes(wrong)
        with pytest.raises(InvalidRequest, match=message):
            read_tar(tmp_path / "wrong.tar")
    with pytest.raises(InvalidRequest, match="holds no files"):
        read_tar(archive(tmp_path / "folders.tar", ("a", None)))


def test_a_header_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 40 << 30
    with path.open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(41 << 30)  # which takes no room on the disk
    with pytest.raises(InvalidRequest, match="a header has more than"):
        read_tar(path)


def test_more_than_can_be_an_adapter_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("graftwork.artifacts.packages.limits.MAX_PIECES", 2)
    monkeypatch.setattr("graftwork.artifacts.packages.limits.MAX_BYTES", 10)
    piece = Piece(tmp_path, 0, 5)
    assert len(checked([("a", piece), ("b", piece)], "it")) == 2
    for found in ([("a", piece), ("b", piece), ("c", Piece(tmp_path, 0, 0))], [("a", Piece(tmp_path, 0, 11))]):
        with pytest.raises(InvalidRequest, match="more than"):
            checked(found, "it")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tar") / "whole.tar"
    return archive(path, ("a", b"x" * 700), ("folder", None), ("folder/" + "b" * 120, b"y" * 100))


@given(noise=st.binary(max_size=64), at=st.integers(0, 20000), cut=st.integers(0, 1 << 14))
def test_no_damage_is_anything_but_an_error_of_ours(whole: Path, noise: bytes, at: int, cut: int) -> None:
    data = bytearray(whole.read_bytes())
    data[at : at + len(noise)] = noise
    noisy = whole.with_name("noisy.tar")
    noisy.write_bytes(bytes(data[: max(0, len(data) - cut)]))
    try:
        found = read_tar(noisy)
    except GraftworkError:
        return
    for name, piece in found.items():
        assert not name.startswith(("/", "..")) and len(b"".join(piece.chunks())) == piece.size


def test_a_link_in_a_folder_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    (tmp_path / "in" / "inside").symlink_to("a")
    assert set(read_directory(tmp_path / "in")) == {"a", "inside"}
    (tmp_path / "in" / "outside").symlink_to("../secret")
    with pytest.raises(Refused, match="link out"):
        read_directory(tmp_path / "in")


def test_the_hubs_cache_links_to_its_own_blobs_and_to_nothing_else(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "1").write_text("one")
    (tmp_path / "secret").write_text("secret")
    (snapshot / "a").symlink_to("../../blobs/1")
    assert contents(read_directory(snapshot)) == {"a": b"one"}
    (snapshot / "b").symlink_to("../../../secret")
    with pytest.raises(Refused, match="link out"):
        read_directory(snapshot)
