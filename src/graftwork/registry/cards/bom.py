"""bom: a version as a bill of materials for machine learning, in CycloneDX 1.6 (cyclonedx.org/docs/1.6/json)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import GRAMMAR, hex_of
from graftwork.registry.cards.facts import Dataset, Facts
from graftwork.registry.documents.document import Document
from graftwork.version import __version__

MEDIA_TYPE: Final = "application/vnd.cyclonedx+json"
#: SPDX's name of the licences that the Hugging Face Hub writes in lower case; others are told by name.
SPDX: Final = {
    name.lower(): name
    for name in (
        "Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0",
        "CC-BY-NC-SA-4.0", "CC-BY-NC-ND-4.0", "ISC", "MPL-2.0", "Unlicense", "WTFPL", "Zlib",
    )
}  # fmt: skip
#: What the standard calls documents of our kinds.
_REFERENCES: Final = {
    "model_card": "model-card",
    "training_log": "log",
    "evaluation_report": "evidence",
    "compliance": "certification-report",
    "data_schema": "documentation",
}


def bill_of_materials(facts: Facts, documents: Sequence[Document], changes: int) -> dict[str, Any]:
    """The bill of a version, its files, its base, its data and its documents.

    The same version has the same serial number; `changes`, the number of facts that were added after its push, counts
    the bill's own version. Nothing in it depends on when or where it is written.
    """
    version = facts.version
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'graftwork:{version.label}:{version.digest}')}",
        "version": 1 + changes,
        "metadata": {
            "timestamp": version.created_at,
            "tools": {"components": [{"type": "application", "name": "graftwork", "version": __version__}]},
            "component": _adapter(facts, documents),
        },
        "components": [_base(facts), *map(_data, facts.datasets)],
        "dependencies": [
            {"ref": version.digest, "dependsOn": [version.base_digest, *map(_reference, facts.datasets)]},
            {"ref": version.base_digest},
        ],
    }


def _adapter(facts: Facts, documents: Sequence[Document]) -> dict[str, Any]:
    version = facts.version
    found = {
        "type": "machine-learning-model",
        "bom-ref": version.digest,
        "name": version.adapter,
        "version": version.semver,
        "authors": [{"name": facts.author}] if facts.author else [],
        "description": facts.description,
        "hashes": [{"alg": "SHA-256", "content": hex_of(version.digest)}],
        "licenses": _licenses(facts.license),
        # Its own reference differs from that of the component beside it: every one is unique in a bill.
        "pedigree": {"ancestors": [_base(facts) | {"bom-ref": f"{version.digest}#ancestor"}]},
        "externalReferences": [_document(one) for one in documents],
        "properties": _properties({"kind": version.kind, "rank": version.rank, "code": facts.code, **_flat(facts)}),
        "components": [_file(version.digest, file) for file in version.manifest.files],
        "modelCard": _model_card(facts),
    }
    return {key: value for key, value in found.items() if value}


def _base(facts: Facts) -> dict[str, Any]:
    version = facts.version
    return {
        "type": "machine-learning-model",
        "bom-ref": version.base_digest,
        "name": facts.base_model,
        "properties": _properties({"base": version.base, "weights_digest": version.base_digest}),
    }


def _file(digest: str, file: BundleFile) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"{digest}/{file.path}",
        "name": file.path,
        "hashes": [{"alg": "SHA-256", "content": hex_of(file.digest)}],
        "properties": _properties({"size": file.size}),
    }


def _data(dataset: Dataset) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "data",
        "bom-ref": _reference(dataset),
        "name": dataset.name,
        "data": [{"type": "dataset", "name": dataset.name}],
    }
    if dataset.digest is not None:
        is_sha256 = GRAMMAR.fullmatch(dataset.digest)
        hashes = {"hashes": [{"alg": "SHA-256", "content": hex_of(dataset.digest)}]}
        found |= hashes if is_sha256 else {"properties": _properties({"digest": dataset.digest})}
    return found


def _reference(dataset: Dataset) -> str:
    return f"data:{dataset.name}" + (f"@{dataset.digest}" if dataset.digest else "")


def _document(document: Document) -> dict[str, Any]:
    content = document.content
    return {
        "type": _REFERENCES.get(content.kind, "other"),
        "url": f"documents/{document.id}/content",
        "comment": f"{content.kind}: {content.name}",
        "hashes": [{"alg": "SHA-256", "content": hex_of(content.digest)}],
    }


def _model_card(facts: Facts) -> dict[str, Any]:
    parameters = {
        "approach": {"type": "supervised"},
        "task": facts.task or facts.pipeline,
        "architectureFamily": "transformer",
        "modelArchitecture": f"{facts.version.kind} adapter of {facts.base_model}",
        "datasets": [{"ref": _reference(dataset)} for dataset in facts.datasets],
    }
    performance = [
        {"type": name, "value": repr(value), "slice": " ".join(filter(None, (one.name, one.split)))}
        for one in facts.measured
        for name, value in sorted(one.metrics.items())
    ]
    card: dict[str, Any] = {"modelParameters": {key: value for key, value in parameters.items() if value}}
    return card | ({"quantitativeAnalysis": {"performanceMetrics": performance}} if performance else {})


def _flat(facts: Facts) -> dict[str, object]:
    return {f"hyperparameter:{name}": value for name, value in facts.hyperparameters.items()}


def _properties(values: dict[str, object]) -> list[dict[str, str]]:
    told = ((name, value) for name, value in values.items() if value is not None)
    return [{"name": f"graftwork:{name}", "value": _text(value)} for name, value in told]


def _text(value: object) -> str:
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _licenses(name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    known = SPDX.get(name.lower())
    return [{"license": {"id": known} if known else {"name": name}}]
