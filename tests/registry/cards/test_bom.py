"""Bills of materials: valid by the official schema, with every file's digest, and the same for the same version."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from graftwork.protocol.canonical import sha256
from graftwork.registry.cards.bom import bill_of_materials
from graftwork.registry.cards.facts import Facts
from graftwork.registry.documents.document import KINDS, Content, Document

DOCUMENTS = [
    Document(str(number), "added", Content(kind, f"{kind} 1.md", "text/markdown", 1, sha256(kind)), 1, False, "", "me")
    for number, kind in enumerate(KINDS, start=1)
]


@pytest.fixture(scope="module")
def validator() -> JsonStrictValidator:
    return JsonStrictValidator(SchemaVersion.V1_6)


def checked(validator: JsonStrictValidator, bill: dict[str, Any]) -> dict[str, Any]:
    assert validator.validate_str(json.dumps(bill)) is None
    return bill


def test_it_is_valid_and_tells_everything(facts: Facts, validator: JsonStrictValidator) -> None:
    bill = checked(validator, bill_of_materials(facts, DOCUMENTS, len(DOCUMENTS)))
    adapter = bill["metadata"]["component"]
    assert adapter["authors"] == [{"name": "ada"}]
    assert adapter["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    hashes = {file["name"]: file["hashes"][0]["content"] for file in adapter["components"]}
    assert hashes == {file.path: file.digest.removeprefix("sha256:") for file in facts.version.manifest.files}
    assert adapter["pedigree"]["ancestors"][0]["name"] == facts.base_model
    assert [one["hashes"][0]["content"] for one in adapter["externalReferences"]] == [
        document.content.digest.removeprefix("sha256:") for document in DOCUMENTS
    ]
    data = {one["bom-ref"] for one in bill["components"] if one["type"] == "data"}
    parameters = adapter["modelCard"]["modelParameters"]
    assert data == {one["ref"] for one in parameters["datasets"]}
    assert bill["dependencies"][0]["dependsOn"] == [facts.version.base_digest, *sorted(data, reverse=True)]
    metrics = adapter["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert {"type": "accuracy", "value": "0.875", "slice": "tickets test"} in metrics


def test_little_is_enough(few_facts: Facts, validator: JsonStrictValidator) -> None:
    checked(validator, bill_of_materials(few_facts, [], 0))


def test_a_licence_that_spdx_does_not_know_is_told_by_name(facts: Facts, validator: JsonStrictValidator) -> None:
    bill = checked(validator, bill_of_materials(replace(facts, license="llama3.2"), [], 0))
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"name": "llama3.2"}}]


def test_the_same_version_has_the_same_bill_and_additions_count_its_version(facts: Facts) -> None:
    first, again, later = (bill_of_materials(facts, [], changes) for changes in (0, 0, 2))
    assert json.dumps(first) == json.dumps(again)
    assert (first["serialNumber"], first["version"]) == (later["serialNumber"], later["version"] - 2)
    other = replace(facts, version=replace(facts.version, digest=sha256("other")))
    assert bill_of_materials(other, [], 0)["serialNumber"] != first["serialNumber"]


def test_every_reference_of_a_bill_is_its_own(facts: Facts) -> None:
    found = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            found.extend([value["bom-ref"]] if "bom-ref" in value else [])
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                walk(item)

    walk(bill_of_materials(facts, DOCUMENTS, 0))
    assert len(found) == len(set(found)) > 4
