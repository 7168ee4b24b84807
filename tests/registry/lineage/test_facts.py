"""What metadata say of a version's origin, and what is refused of it by field."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.registry.frozen import freeze
from graftwork.registry.lineage.facts import MAX_ENTRIES, edges_of

DIGEST = "sha256:" + "a1" * 32


def test_every_field_is_read() -> None:
    metadata = {
        "author": "ada",
        "datasets": [{"uri": "s3://c/eu", "digest": DIGEST}, {"uri": "s3://c/test", "role": "evaluated_on"}],
        "code": {"repo": "https://x.org/r", "commit": "0f3c2a1", "dirty": True},
        "preprocessing": [{"name": "clean"}],
        "parents": ["tone:1.0.0"],
        "merged_from": [f"voice@{DIGEST}"],
    }
    claims = [(claim.role, str(claim.target)) for claim in edges_of(freeze(metadata))]
    assert claims == [
        ("trained_on", f"dataset:s3://c/eu@{DIGEST}"),
        ("evaluated_on", "dataset:s3://c/test"),
        ("built_with", "code:https://x.org/r@0f3c2a1-dirty"),
        ("preprocessed_by", "preprocessing:clean"),
        ("derived_from", "tone:1.0.0"),
        ("merged_from", f"voice@{DIGEST}"),
    ]


def test_what_names_nothing_is_no_fact() -> None:
    assert edges_of({}) == edges_of({"data": "snippets-2026", "parents": [], "datasets": ()}) == []
    assert edges_of({"datasets": [{"digest": DIGEST}], "code": {"repo": "r", "dirty": True}}) == []


def test_a_librarys_fingerprint_is_no_digest() -> None:
    (claim,) = edges_of({"datasets": [{"name": "corpus", "digest": "4f1c"}]})
    assert str(claim.target) == "dataset:corpus"


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"datasets": "s3://c/eu"}, "datasets"),
        ({"datasets": [{}] * (MAX_ENTRIES + 1)}, "datasets"),
        ({"datasets": ["s3://c/eu"]}, "datasets.0"),
        ({"datasets": [{"uri": 3}]}, "datasets.0.uri"),
        ({"datasets": [{"uri": "../x"}]}, "datasets.0"),
        ({"datasets": [{"uri": "a", "digest": 3}]}, "datasets.0.digest"),
        ({"datasets": [{"uri": "a", "role": "derived_from"}]}, "datasets.0.role"),
        ({"code": "https://x.org/r"}, "code"),
        ({"code": {"repo": "r", "commit": "main"}}, "code.commit"),
        ({"preprocessing": {"name": "x"}}, "preprocessing"),
        ({"parents": [{}]}, "parents.0"),
        ({"parents": ["A B"]}, "parents.0"),
        ({"merged_from": "tone"}, "merged_from"),
    ],
)
def test_another_form_is_refused_by_its_field(metadata: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        edges_of(metadata)
    assert refused.value.field == f"metadata.{field}"
