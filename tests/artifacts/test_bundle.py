"""Manifests: the identity of a version."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.bundle import MAX_FILES, BundleFile, Manifest
from graftwork.errors import GraftworkError, InvalidRequest, Refused

DIGEST = "sha256:" + "0" * 64
WORDS = st.text("abcd", min_size=1, max_size=3)
FILES = st.dictionaries(WORDS, st.tuples(st.integers(0, 10**12), st.binary(max_size=2)), min_size=1, max_size=6)


def manifest_of(files: dict[str, tuple[int, bytes]]) -> Manifest:
    return Manifest(
        tuple(BundleFile(p, size, "sha256:" + hashlib.sha256(d).hexdigest()) for p, (size, d) in files.items())
    )


def entry(**changes: Any) -> dict[str, Any]:
    return {"path": "a", "size": 1, "digest": DIGEST} | changes


@given(FILES)
def test_a_manifest_reads_back_from_its_json(files: dict[str, tuple[int, bytes]]) -> None:
    manifest = manifest_of(files)
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


@given(FILES)
def test_the_order_of_files_does_not_matter(files: dict[str, tuple[int, bytes]]) -> None:
    assert manifest_of(dict(reversed(files.items()))).digest() == manifest_of(files).digest()


@given(FILES, FILES)
def test_other_content_is_another_digest(
    files: dict[str, tuple[int, bytes]], others: dict[str, tuple[int, bytes]]
) -> None:
    same = manifest_of(files) == manifest_of(others)
    assert (manifest_of(files).digest() == manifest_of(others).digest()) == same


def test_the_digest_is_that_of_the_canonical_json() -> None:
    manifest = Manifest((BundleFile("b", 2, DIGEST), BundleFile("a", 1, DIGEST)))
    first, second = (f'{{"digest":"{DIGEST}","path":"{path}","size":{size}}}' for path, size in (("a", 1), ("b", 2)))
    text = f'{{"files":[{first},{second}]}}'
    assert manifest.digest() == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert manifest.bytes == 3


@pytest.mark.parametrize(
    "data",
    [
        *(
            None,
            [],
            "x",
            {},
            {"files": None},
            {"files": {}},
            {"files": "abc"},
            {"files": []},
            {"files": [None]},
        ),
        *({"files": [{}]}, {"files": [entry(extra=1)]}, {"files": [{"path": "a", "size": 1}]}),
        *({"files": [entry(size=size)]} for size in (-1, 1.0, "1", None, True, 1 << 60)),
        *({"files": [entry(digest=digest)]} for digest in ("", None, DIGEST.upper(), DIGEST[:-1], 5)),
        *({"files": [entry(path=path)]} for path in ("", "../x", "/x", "a\\b", "a\0b", None, 3)),
        {"files": [entry(), entry()]},
        {"files": [entry(), entry(path="A")]},
        {"files": [entry(path=str(number)) for number in range(MAX_FILES + 1)]},
    ],
)
def test_a_manifest_that_is_not_right_is_refused(data: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Manifest.from_json(data)
    assert caught.value.field in ("files", "path", "size", "digest")


def test_a_folder_is_read_with_its_subfolders_and_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.bin", "sub/deep/c", ".env", ".git/config", "sub/.DS_Store", ".eval_results/scores.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    manifest = Manifest.of_folder(tmp_path)
    assert [file.path for file in manifest.files] == [".eval_results/scores.yaml", "b.bin", "sub/deep/c"]
    assert manifest.files[1] == BundleFile("b.bin", 5, "sha256:" + hashlib.sha256(b"b.bin").hexdigest())


def test_a_link_inside_the_folder_counts_as_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").symlink_to("a")
    first, second = Manifest.of_folder(tmp_path).files
    assert (first.digest, first.size) == (second.digest, second.size)


def outside(folder: Path) -> None:
    (folder.parent / "secret").write_text("secret")
    (folder / "link").symlink_to("../secret")


def to_folder(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")


def dangling(folder: Path) -> None:
    (folder / "link").symlink_to("nothing")


def around(folder: Path) -> None:
    (folder / "link").symlink_to("link")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def bad_name(folder: Path) -> None:
    (folder / "a\nb").write_text("x")


@pytest.mark.parametrize("make", [outside, to_folder, dangling, around, pipe, bad_name])
def test_a_folder_with_something_that_cannot_be_kept_is_refused_by_name(tmp_path: Path, make: Any) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "a").write_text("x")
    make(folder)
    with pytest.raises(InvalidRequest if make is bad_name else Refused, match=r"link|pipe|a.*b"):
        Manifest.of_folder(folder)


def test_a_folder_that_is_not_there_or_has_no_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty" / "sub").mkdir(parents=True)
    for name in ("missing", "file", "empty"):
        with pytest.raises(GraftworkError, match=name):
            Manifest.of_folder(tmp_path / name)
