"""YAML is read as plain values with lines, by the words of YAML 1.2, and what would surprise is refused by its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.cli.yaml_documents import MAX_NODES, Fault, read_text
from graftwork.cli.yaml_text import write_text


def one(text: str) -> object:
    [found] = read_text(text.encode())
    return found.value


def test_documents_come_with_the_lines_of_their_parts() -> None:
    text = "# first\na: 1\n---\n---\nb:\n- c: x\n  d:\n    - y\n"
    first, second = read_text(text.encode())
    assert (first.value, first.line, first.line_of(("a",))) == ({"a": 1}, 2, 2)
    assert second.value == {"b": [{"c": "x", "d": ["y"]}]}
    assert [second.line_of(path) for path in ((), ("b",), ("b", 0, "c"), ("b", 0, "d", 0), ("b", 0, "e"))] == [
        *(5, 5, 6, 8),
        6,
    ]


def test_plain_words_mean_what_they_mean_in_yaml_1_2() -> None:
    text = "{a: off, b: yes, c: 12:30, d: 2026-01-31, e: 010, f: true, g: ~, h: , i: -1.5e3, j: '1', k: 1_0, l: .5}"
    assert one(text) == {
        **{"a": "off", "b": "yes", "c": "12:30", "d": "2026-01-31", "e": 10, "f": True, "g": None, "h": None},
        **{"i": -1500.0, "j": "1", "k": "1_0", "l": 0.5},
    }


def test_anchors_and_merges_are_read() -> None:
    text = "base: &b {x: 1, y: 2}\nsame: *b\nmore: {<<: *b, y: 3}\nmany: {<<: [*b, {z: 4}]}\n"
    found = one(text)
    assert found == {
        "base": {"x": 1, "y": 2},
        "same": {"x": 1, "y": 2},
        "more": {"x": 1, "y": 3},
        "many": {"x": 1, "y": 2, "z": 4},
    }


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
FAULTS = [
    (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
    (b"a: 1\nb: 2\na: 3\n", 3, "comes twice"),
    (b"a: 1\nb: [\n", 3, "expected"),
    (b"a: \x00\n", 1, "U+0000"),
    (b"a: !!python/object:os.system x\n", 1, "no value of the type"),
    (b"a: !ours x\n", 1, "no value of the type"),
    (b"? [a]\n: 1\n", 1, "a key must be a text"),
    (b"a: &a [*a]\n", 1, "more than 100 deep"),
    (b"a: *b\n", 1, "undefined alias"),
    (b"a: {<<: 3}\n", 1, "<< takes"),
    (BOMB.encode(), 1, f"more than {MAX_NODES} values"),
    (b"[" * 5000, 1, ""),
    (b"a: " + b"9" * 40, 1, "no value"),
    (b"a: 1e999", 1, "no value"),
    (b'a: 1\nb:\n  "c": "x\\0"\n', 3, "U+0000"),
    (b'a: 1\n"b\\0": 1\n', 2, "U+0000"),
]


@pytest.mark.parametrize(("raw", "line", "said"), FAULTS, ids=[str(fault[0][:16]) for fault in FAULTS])
def test_what_is_no_plain_yaml_is_told_by_its_line(raw: bytes, line: int, said: str) -> None:
    with pytest.raises(Fault) as caught:
        list(read_text(raw))
    assert said in str(caught.value)
    assert said == "" or caught.value.line == line


WORDS = st.sampled_from(
    ["010", "08", "1e5", "12:30", "off", "y", "~", "", "<<", "2026-01-31", "1_0", "0x1f", ".inf", "a\n b\n"]
)
PLAIN = st.recursive(
    WORDS
    | st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_whatever_is_exported_reads_back(value: object) -> None:
    text = write_text([{"v": value}])
    try:
        found = one(text)
    except Fault as fault:  # YAML has no words for these
        assert "may not stand here" in str(fault), text
    else:
        assert found == {"v": value}


@given(st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*<!\n #'\"|>?,", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_told_by_a_line(raw: bytes) -> None:
    try:
        list(read_text(raw))
    except Fault as fault:
        assert fault.line >= 1 and str(fault)
