"""Semantic versions: how they are read and counted on."""

from __future__ import annotations

import pytest
import semver
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.registry.semantic_version import next_semver, parse_semver

NUMBERS = st.integers(0, 99)
RELEASES = st.builds("{}.{}.{}".format, NUMBERS, NUMBERS, NUMBERS)
VERSIONS = st.builds("{}{}".format, RELEASES, st.sampled_from(["", "", "-rc.1", "-alpha", "+build.7", "-rc.2+b"]))


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("1.4.0", "1.4.0"),
        ("v1.4.0", "1.4.0"),
        ("1.2", "1.2.0"),
        ("v1.2", "1.2.0"),
        ("0.0.0", "0.0.0"),
        ("2.0.0-rc.1", "2.0.0-rc.1"),
        ("2.0-rc.1", "2.0.0-rc.1"),
        ("1.0.0+build.5", "1.0.0+build.5"),
        ("1.0.0-a+b", "1.0.0-a+b"),
    ],
)
def test_a_version_is_read_in_its_full_form(text: str, full: str) -> None:
    assert parse_semver(text) == full


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "1",
            "v1",
            "3",
            "latest",
            "1.",
            "1.2.",
            "1.2.3.4",
            "01.2.3",
            "1.02.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
        ),
        *(
            " 1.2.3",
            "1.2.3 ",
            "1.2.3\n",
            "V1.2.3",
            "vv1.2.3",
            "1.2.3-é",
            "١.2.3",
            "1,2,3",
            "-1.2.3",
            "1.2.-3",
        ),
        *("1.2.3" + "0" * 64, "1.2.3-" + "a" * 64, None, 1.2, 1, b"1.2.3"),
    ],
)
def test_what_is_not_a_semantic_version_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest, match=r"1\.4\.0") as caught:
        parse_semver(text)
    assert caught.value.field == "version"


@given(VERSIONS)
def test_a_full_version_reads_as_itself(text: str) -> None:
    assert parse_semver(text) == text == parse_semver(f"v{text}")


@given(st.text("0123456789v.-+ab", max_size=16))
def test_whatever_is_read_is_a_version_that_reads_as_itself(text: str) -> None:
    try:
        full = parse_semver(text)
    except InvalidRequest:
        return
    assert parse_semver(full) == full
    assert semver.Version.is_valid(full)


@pytest.mark.parametrize(
    ("taken", "next_"),
    [
        ([], "1.0.0"),
        (["1.0.0"], "1.0.1"),
        (["1.0.9", "1.0.10"], "1.0.11"),
        (["2.0.0", "1.9.9"], "2.0.1"),
        (["0.3.0"], "0.3.1"),
        (["2.0.0-rc.1"], "1.0.0"),
        (["1.0.0", "2.0.0-rc.1"], "1.0.1"),
        (["1.0.0+build.5"], "1.0.1"),
    ],
)
def test_the_next_version_is_the_highest_release_plus_one(taken: list[str], next_: str) -> None:
    assert next_semver(taken) == next_


@given(st.lists(VERSIONS, max_size=8))
def test_the_next_version_is_free_and_above_every_release(taken: list[str]) -> None:
    chosen = next_semver(taken)
    assert chosen not in taken
    parsed = [semver.Version.parse(text) for text in taken]
    assert all(semver.Version.parse(chosen) > version for version in parsed if version.prerelease is None)
