"""Paths inside a bundle: relative, plain, and the same file on every system."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.paths import check_path, check_together
from graftwork.errors import InvalidRequest


@pytest.mark.parametrize(
    "path", ["a", "adapter_model.safetensors", "a/b/c.json", "é.txt", "a b", "a..b", "...x", "100%"]
)
def test_ordinary_paths_are_taken_as_they_are(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            ".",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "/etc/passwd",
            "//proc/self/root",
            "a/",
            "/",
        ),
        *("a\\b", "..\\x", "C:/x", "C:x", "file:///etc", "a\0b", "a\nb", "a\x7fb", "a\x9fb", "\ud800"),
        *("..%2f", "%2e%2e%2f", "a%2Fb", "a%5cb", "a%00", "CON", "con.txt", "x/NUL", "com1", "LPT9.log"),
        *("a.", "a ", " a", "a /b", "a" * 256, "/".join(["a" * 200] * 6)),
    ],
)
def test_paths_that_lead_elsewhere_or_differ_by_system_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_path(path)
    assert caught.value.field == "path"
    assert caught.value.message.isascii()


@pytest.mark.parametrize("path", [None, 3, b"a", ["a"], Path("a")])
def test_a_path_is_text(path: object) -> None:
    with pytest.raises(InvalidRequest):
        check_path(path)


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "a", "", "%2e", "\\"]), max_size=5).map("/".join))
def test_an_allowed_path_stays_below_its_folder(text: str) -> None:
    try:
        path = check_path(text)
    except InvalidRequest:
        return
    assert PurePosixPath(path).as_posix() == path
    assert not PurePosixPath(path).is_absolute()
    assert ".." not in PurePosixPath(path).parts


@pytest.mark.parametrize(
    "paths",
    [["a", "a"], ["a", "A"], ["é", "e\u0301"], ["ß", "ss"], ["a", "a/b"], ["x/y/z", "X/Y"], ["a/b", "A"]],
)
def test_paths_that_would_collide_somewhere_are_refused(paths: list[str]) -> None:
    for order in (paths, paths[::-1]):
        with pytest.raises(InvalidRequest):
            check_together(order)


def test_paths_that_can_lie_side_by_side_may() -> None:
    check_together(["a", "b", "ab", "a.b/c", "a.b/d", "c/a"])
