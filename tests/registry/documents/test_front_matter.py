"""Front matter: what the Hub reads is read, and nothing that could harm."""

from __future__ import annotations

import pytest
from huggingface_hub import ModelCard

from graftwork.errors import InvalidRequest
from graftwork.registry.documents.front_matter import MAX_BYTES, read_card, write_card

CARDS = [
    "",
    "text",
    "---\nlicense: mit\n---\n# Title\n",
    "---\r\na: [1, x]\r\n---\r\nbelow",
    "\n---\n\n---\nx",
    "--- a\n",
]


@pytest.mark.parametrize("card", CARDS)
def test_a_card_is_read_as_the_hub_reads_it(card: str) -> None:
    matter, text = read_card(card.encode())
    theirs = ModelCard(card)
    assert (matter, text) == (theirs.data.to_dict(), theirs.text)
    assert read_card(write_card(matter, text).encode()) == (matter, text)


def test_the_line_that_is_wrong_is_counted_from_the_head_of_the_card() -> None:
    with pytest.raises(InvalidRequest, match=r"is not YAML: line 3: mapping values are not allowed "):
        read_card(b"---\na: 1\nb: c: d\n---\ntext")


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff",
        b"---\n[]\n---\n",
        b"---\n1: 2\n---\n",
        b"---\n\tx\n---\n",
        b"---\na: &b [1]\nc: *b\n---\n",
        b"---\n!!python/object/apply:os.system [x]\n---\n",
        b"---\n" + b"[" * 5000 + b"\n---\n",
        b"---\na: 2026-13-45\n---\n",
        b"---\na: !!int ''\n---\n",
        b"---\na: !!bool foo\n---\n",
        b"---\na: !!timestamp foo\n---\n",
        b"---\na: 0x" + b"f" * 5000 + b"\n---\n",
        b"---\na: " + b"x" * MAX_BYTES + b"\n---\n",
    ],
)
def test_what_is_no_mapping_of_plain_values_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="model card"):
        read_card(raw)
