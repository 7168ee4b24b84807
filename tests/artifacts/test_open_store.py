"""open_store: a URL names a place and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from graftwork.artifacts.stores import open_store
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.stores.object import ObjectStore
from graftwork.errors import GraftworkError, InvalidRequest
from graftwork.settings import Settings

OF_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_each_scheme_has_its_store(tmp_path: Path) -> None:
    assert isinstance(open_store(tmp_path.as_uri()), LocalStore)
    assert isinstance(open_store("memory://"), MemoryStore)
    assert isinstance(open_store("s3://bucket/prefix"), ObjectStore)


@pytest.mark.parametrize("name", ["artifacts", "with space", "ünicode", "100%25"])
def test_a_folder_is_the_one_that_its_url_says(tmp_path: Path, name: str) -> None:
    open_store((tmp_path / name).as_uri()).put("local", OF_NOTHING, [])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_without_a_url_it_lies_in_the_home(tmp_path: Path) -> None:
    open_store(Settings(home=tmp_path / "a b").artifacts).put("local", OF_NOTHING, [])
    assert (tmp_path / "a b" / "artifacts" / "local").is_dir()


@pytest.mark.parametrize("url", ["", "bucket", "/tmp/x", "ftp://host/x", "http://host/x", "s3:", "file://[x"])
def test_what_is_no_url_of_a_store_is_refused_with_those_there_are(url: str) -> None:
    with pytest.raises(GraftworkError, match="s3://" if url != "s3:" else "s3:"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        *("s3://b/#/../..", "s3://b/../c", "s3://b/./c", "s3://b?versionId=1", "s3://key:s3cr3t@b/c"),
        *("file:///a/../b", "file:///a#b", "file:///a?b", "file://host/a", "file://", "file:///"),
    ],
)
def test_a_url_with_more_than_a_place_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_store(url)
    assert "s3cr3t" not in caught.value.message
