"""What may be a document: names that are files everywhere, kinds and types that are known, sizes with an end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graftwork.artifacts.bundle import BundleFile
from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import sha256
from graftwork.registry.documents.document import MAX_BYTES, MAX_CARD_BYTES, Content, bundled, check_content

GOOD = Content("other", "report.md", "text/markdown", 1, sha256("x"), "a note")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\\b", "c:x", "a\0", "a\n", "con", "a\u202eb", "x" * 256]
)
def test_names_that_lead_elsewhere_or_cannot_be_seen_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_content(replace(GOOD, name=name))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "weights"}, {"kind": ""}, {"media_type": "text"}, {"media_type": "text/html; charset=x"},
        {"media_type": "Text/Plain"}, {"media_type": "a/b\r\nx: y"}, {"digest": "sha256:0"}, {"size": -1},
        {"size": MAX_BYTES + 1}, {"kind": "model_card", "size": MAX_CARD_BYTES + 1}, {"note": "x" * 2049},
        {"note": "\0"},
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_by_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_content(replace(GOOD, **wrong))
    assert caught.value.field in wrong


@pytest.mark.parametrize(
    "right", [{}, {"size": 0}, {"size": MAX_BYTES}, {"name": "Größe 1.md"}, {"media_type": "image/svg+xml"}]
)
def test_what_is_allowed_is_left_as_it_is(right: dict[str, Any]) -> None:
    content = replace(GOOD, **right)
    assert check_content(content) is content


def test_of_a_bundle_only_companions_are_documents() -> None:
    paths = ("README.md", "x/README.md", "adapter_config.json", "adapter_model.safetensors", ".eval_results/a/b.yaml")
    found = {path: bundled(BundleFile(path, 1, sha256(path))) for path in paths}
    assert {path: (one.kind, one.name) for path, one in found.items() if one is not None} == {
        "README.md": ("model_card", "README.md"),
        ".eval_results/a/b.yaml": ("evaluation_report", "b.yaml"),
    }
