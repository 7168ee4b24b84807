"""References: every form that people write, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.access.names import is_name
from graftwork.errors import InvalidRequest
from graftwork.registry.reference import (
    Alias,
    Digest,
    Newest,
    Reference,
    Selector,
    Semver,
    Sequence,
    parse_reference,
)

HEX = "0123456789abcdef" * 4

NAMES = st.from_regex(r"[a-z0-9]{1,5}((\.|_|__|-{1,3})[a-z0-9]{1,4}){0,3}", fullmatch=True).filter(is_name)
SELECTORS: st.SearchStrategy[Selector] = st.one_of(
    st.just(Newest()),
    st.builds("{}.{}.{}{}".format, *[st.integers(0, 99)] * 3, st.sampled_from(["", "-rc.1", "+b", "-0a"])).map(Semver),
    NAMES.map(Alias),
    st.text("0123456789abcdef", min_size=12, max_size=64).map(lambda text: Digest(f"sha256:{text}")),
    st.integers(1, 10**17).map(Sequence),
)
REFERENCES = st.builds(Reference, st.none() | NAMES, NAMES, SELECTORS)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("tone", Reference(None, "tone", Newest())),
        ("acme/tone", Reference("acme", "tone", Newest())),
        ("tone:1.4.0", Reference(None, "tone", Semver("1.4.0"))),
        ("tone:1.2", Reference(None, "tone", Semver("1.2.0"))),
        ("tone:v1.2", Reference(None, "tone", Semver("1.2.0"))),
        ("acme/tone:2.0.0-rc.1", Reference("acme", "tone", Semver("2.0.0-rc.1"))),
        ("tone@production", Reference(None, "tone", Alias("production"))),
        ("a.b@x.y", Reference(None, "a.b", Alias("x.y"))),
        ("tone@sha256", Reference(None, "tone", Alias("sha256"))),
        (f"tone@sha256:{HEX}", Reference(None, "tone", Digest(f"sha256:{HEX}"))),
        ("tone@sha256:0123456789ab", Reference(None, "tone", Digest("sha256:0123456789ab"))),
        ("adapters:/tone", Reference(None, "tone", Newest())),
        ("adapters:/tone/3", Reference(None, "tone", Sequence(3))),
        ("adapters:/acme/tone/3", Reference("acme", "tone", Sequence(3))),
        ("adapters:/acme/tone", Reference("acme", "tone", Newest())),
        ("models:/tone@champion", Reference(None, "tone", Alias("champion"))),
        ("models:/tone/3", Reference(None, "tone", Sequence(3))),
        ("adapters:/acme/3:1.0.0", Reference("acme", "3", Semver("1.0.0"))),
        ("adapters:/3", Reference(None, "3", Newest())),
        ("acme/3", Reference("acme", "3", Newest())),
    ],
)
def test_every_documented_form_is_read(text: str, reference: Reference) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            " tone",
            "tone ",
            "tone\n",
            "Tone",
            "a/b/c",
            "/tone",
            "tone/",
            "a//b",
            "é",
            "e\u0301",
            "😀",
        ),
        *(
            "tone:",
            "tone@",
            ":1.0.0",
            "@x",
            "tone:1",
            "tone:latest",
            "tone@latest",
            "tone@v1",
            "latest",
            "v1",
        ),
        *("tone:1.0.0@x", "tone@x:1.0.0", "tone@x@y", "tone:1:2", "tone:1.0.0 ", "tone:01.0.0"),
        *("tone@sha256:", "tone@sha256:0123456789a", f"tone@sha256:{HEX}0", f"tone@sha256:{HEX.upper()}"),
        *("tone@sha256:0123456789ag", f"tone@md5:{HEX}", f"tone:sha256:{HEX}", f"sha256:{HEX}"),
        *(
            "adapters:/",
            "adapters://tone",
            "adapters:tone",
            "models:/tone/latest",
            "models:/tone/0",
            "models:/tone/007",
        ),
        *("models:/tone/-1", "models:/a/b/c/3", "models:/tone/٣", "files:/tone", "models:/a/b/tone"),
        *("models:/tone/9999999999999999999", "tone/3/4", "adapters:/tone/3@x/y"),
        *(
            "../x",
            "..",
            "a/../../b",
            "..\\x",
            "%2e%2e%2f",
            "a%2Fb",
            "a%252Fb",
            "tone\0",
            "a b",
            "a#b",
            "a?b",
            "a|b",
        ),
        *("x" * 129, "x" * 600, "tone:" + "1" * 100 + ".0.0"),
    ],
)
def test_malformed_references_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_reference(text)
    assert caught.value.field == "reference"
    assert caught.value.message.isascii()


@pytest.mark.parametrize("text", [None, 3, b"tone", ["tone"]])
def test_a_reference_is_text(text: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_reference(text)  # type: ignore[arg-type]


@given(REFERENCES)
def test_a_written_reference_reads_back_as_itself(reference: Reference) -> None:
    assert parse_reference(str(reference)) == reference


@given(st.text("ab1:/@.-v", max_size=14) | st.text(max_size=30))
def test_any_text_is_read_or_refused_and_what_is_read_round_trips(text: str) -> None:
    try:
        reference = parse_reference(text)
    except InvalidRequest:
        return
    assert parse_reference(str(reference)) == reference
    assert text.isascii() and ".." not in text and "\\" not in text
