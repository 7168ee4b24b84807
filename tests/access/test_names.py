"""Names: what may name an adapter, a tenant, a route or an alias."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.access.names import check_name, is_name
from graftwork.access.tenants import LOCAL, check_tenant
from graftwork.errors import InvalidRequest

ALPHABET = "abcxyz0189._-"


@pytest.mark.parametrize(
    "name", ["a", "0", "a.b", "a_b", "a__b", "a---b", "support-tone", "x" * 128, "v", "v1a", "1v1"]
)
def test_names_of_the_grammar_are_taken_as_they_are(name: str) -> None:
    assert check_name(name, what="adapter") == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            " a",
            "a ",
            "a\n",
            "\na",
            "A",
            "aB",
            "a b",
            "a..b",
            "a___b",
            "a._b",
            ".a",
            "a.",
            "-a",
            "a-",
            "_a",
        ),
        *(
            "a/b",
            "../x",
            "/etc",
            "a/../../b",
            "%2e%2e%2f",
            "..\\x",
            "a\\b",
            "a@v2",
            "a:b",
            "a#b",
            "a%b",
            "a+b",
            "a|b",
        ),
        *(
            "a\0b",
            "é",
            "e\u0301",
            "ａ",
            "a\u200b",
            "😀",
            "١",
            "x" * 129,
            "x" * 300,
            "a'b",
            'a"b',
            "a`b",
            "' OR 1=1",
        ),
    ],
)
def test_everything_else_is_refused_with_the_grammar(name: str) -> None:
    with pytest.raises(InvalidRequest, match="lower-case") as caught:
        check_name(name, what="adapter")
    assert caught.value.field == "adapter"
    assert caught.value.message.isascii()


@pytest.mark.parametrize("name", ["latest", "v1", "v007", "v2026"])
def test_reserved_words_are_refused_as_reserved(name: str) -> None:
    with pytest.raises(InvalidRequest, match="reserved"):
        check_name(name, what="alias")


def test_default_is_reserved_for_adapters_with_the_reason() -> None:
    with pytest.raises(InvalidRequest, match="reserved: as a model it means the base"):
        check_name("default", what="adapter")
    assert check_name("default", what="tenant") == "default"


@given(st.text(ALPHABET, max_size=12))
def test_a_name_is_words_joined_by_single_joints(text: str) -> None:
    words = re.split(r"__|-+|[._]", text)
    whole = all(re.fullmatch("[a-z0-9]+", word) for word in words)
    assert is_name(text) == (whole and not re.fullmatch("latest|v[0-9]+", text))


@given(st.text(max_size=20))
def test_no_two_names_differ_only_in_case_or_unicode_form(text: str) -> None:
    if is_name(text):
        assert text == text.casefold() == unicodedata.normalize("NFKC", text) == unicodedata.normalize("NFD", text)


@pytest.mark.parametrize("name", [None, 3, b"a", ["a"]])
def test_what_is_not_text_is_refused(name: object) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name, what="adapter")  # type: ignore[arg-type]


def test_the_local_tenant_is_a_name() -> None:
    assert check_tenant(LOCAL) == "local"
