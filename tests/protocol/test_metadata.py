"""Metadata: its schema, and what is said of what breaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidMetadata
from graftwork.protocol.metadata import Metadata, read_metadata

WHOLE = {
    "description": "Formal summaries.",
    "task": "summarize",
    "language": ["en"],
    "license": "apache-2.0",
    "author": "Ada",
    "parents": ["tone:1.0.0"],
    "merged_from": ["voice:2.0.0"],
    "preprocessing": [{"name": "clean-html", "digest": "sha256:ef"}],
    "base": {"id": "org/base", "revision": "main", "weights_digest": "sha256:ab"},
    "adapter": {"kind": "lora", "rank": 8, "alpha": 16.0, "target_modules": ["q_proj"], "peft_version": "0.18.0"},
    "datasets": [
        {
            "uri": "hf://datasets/org/notes",
            "digest": "sha256:cd",
            "name": "notes",
            "split": "train",
            "role": "evaluated_on",
        }
    ],
    "training": {"hyperparameters": {"learning_rate": 2e-4, "betas": [0.9, 0.99]}, "metrics": {"loss": 0.5}},
    "code": {"repo": "https://example.org/r.git", "commit": "abc", "dirty": False},
    "environment": {"python": "3.11", "platform": "Linux", "packages": {"torch": "2.6"}},
    "labels": {"team": "blue", "deep": {"er": [1, None]}},
}


def test_everything_that_can_be_said_reads_back_as_it_was_said() -> None:
    assert WHOLE.keys() == Metadata.model_fields.keys()
    assert read_metadata(json.dumps(WHOLE)) == WHOLE
    assert read_metadata("{}") == {}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"code": {"comit": "abc"}}, "metadata.code.comit"),
        ({"language": "en"}, "metadata.language"),
        ({"datasets": [{"url": "notes"}]}, "metadata.datasets.0.url"),
        ({"datasets": [{"uri": "notes", "role": "serves"}]}, "metadata.datasets.0.role"),
        ({"preprocessing": [{"digest": "sha256:ef"}]}, "metadata.preprocessing.0.name"),
        ({"training": {"metrics": {"loss": "low"}}}, "metadata.training.metrics.loss"),
        ({"author": "x" * 1025}, "metadata.author"),
        ({"adapter": {"rank": True}}, "metadata.adapter.rank"),
    ],
)
def test_what_breaks_the_schema_is_named(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMetadata, match=field) as caught:
        read_metadata(json.dumps(said))
    assert caught.value.field == field


def test_an_unknown_field_is_told_where_own_fields_go() -> None:
    with pytest.raises(InvalidMetadata, match=r"metadata\.labels\.team"):
        read_metadata('{"team": "blue"}')


@pytest.mark.parametrize("text", ['["a"]', '"a"', "{"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidMetadata, match="metadata"):
        read_metadata(text)
