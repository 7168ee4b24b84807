"""What metadata say of a version's origin, and what is refused of it by field."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.registry.frozen import freeze
from graftwork.registry.lineage.facts import MAX_ENTRIES, edges_of
from graftwork.registry.lineage.nodes import Node
from graftwork.registry.reference import Reference

DIGEST = "sha256:" + "a1" * 32


def test_every_field_is_read() -> None:
    metadata = {
        "author": "ada",
        "datasets": [{"uri": "s3://c/eu", "digest": DIGEST}, {"uri": "s3://c/test", "role": "evaluated_on"}],
        "code": {"repo": "https://x.org/r", "commit": "0f3c2a1", "dirty": True},
        "preprocessing": [{"name": "clean"}],
        "parents": [{"reference": "tone:1.0.0"}, {"digest": DIGEST, "role": "merged_from"}],
    }
    claims = [(claim.role, str(claim.target)) for claim in edges_of(freeze(metadata))]
    assert claims == [
        ("trained_on", f"dataset:s3://c/eu@{DIGEST}"),
        ("evaluated_on", "dataset:s3://c/test"),
        ("built_with", "code:https://x.org/r@0f3c2a1-dirty"),
        ("preprocessed_by", "preprocessing:clean"),
        ("derived_from", "tone:1.0.0"),
        ("merged_from", f"version:{DIGEST}"),
    ]
    assert isinstance(edges_of(metadata)[4].target, Reference) and isinstance(edges_of(metadata)[5].target, Node)


def test_metadata_without_them_say_nothing() -> None:
    assert edges_of({}) == edges_of({"data": "snippets-2026", "parents": [], "datasets": ()}) == []


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"datasets": "s3://c/eu"}, "datasets"),
        ({"datasets": [{}] * (MAX_ENTRIES + 1)}, "datasets"),
        ({"datasets": ["s3://c/eu"]}, "datasets.0"),
        ({"datasets": [{"uri": "a"}, {"digest": DIGEST}]}, "datasets.1.uri"),
        ({"datasets": [{"uri": "../x"}]}, "datasets.0"),
        ({"datasets": [{"uri": "a", "digest": "abc"}]}, "datasets.0.digest"),
        ({"datasets": [{"uri": "a", "digest": 3}]}, "datasets.0.digest"),
        ({"datasets": [{"uri": "a", "role": "derived_from"}]}, "datasets.0.role"),
        ({"datasets": [{"uri": "a", "hash": "b"}]}, "datasets.0.hash"),
        ({"code": "https://x.org/r"}, "code"),
        ({"code": {"repo": "r"}}, "code.commit"),
        ({"code": {"repo": "r", "commit": "main"}}, "code.commit"),
        ({"code": {"repo": "r", "commit": "0f3c2a1", "dirty": "yes"}}, "code.dirty"),
        ({"preprocessing": {"name": "x"}}, "preprocessing"),
        ({"parents": [{}]}, "parents.0"),
        ({"parents": [{"reference": "a", "digest": DIGEST}]}, "parents.0"),
        ({"parents": [{"reference": "A B"}]}, "parents.0"),
        ({"parents": [{"digest": "sha256:abc"}]}, "parents.0"),
        ({"parents": [{"reference": "a", "role": "trained_on"}]}, "parents.0.role"),
    ],
)
def test_another_form_is_refused_by_its_field(metadata: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        edges_of(metadata)
    assert refused.value.field == f"metadata.{field}"
