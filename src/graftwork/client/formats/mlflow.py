"""The format `mlflow`: a model directory as `mlflow.transformers` writes it of a PEFT model.

Format: `MLmodel` in YAML, whose `transformers` flavor names the base as `source_model_name` and the adapter's folder as
`peft_adaptor` (mlflow/transformers/flavor_config.py). Nothing of MLflow is needed to read or to write it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from graftwork.adapters.files.json_file import CONFIG_NAME
from graftwork.artifacts.digest import hex_of
from graftwork.artifacts.packages.package import BELOW, RECORD, Package, laid_out, plain
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.client.formats import written
from graftwork.errors import Refused
from graftwork.registry.cards.facts import PIPELINES
from graftwork.registry.documents.front_matter import read_mapping

MODEL: Final = "MLmodel"
_MAX_BYTES: Final = 1 << 20
#: What an imported version is said to come from, by MLflow's own names.
_ORIGIN = ("run_id", "model_id", "model_uuid", "mlflow_version", "utc_time_created")


def write(package: Package, card: str, aside: Path) -> dict[str, Piece]:
    model = yaml.safe_dump(_model(package), sort_keys=True, allow_unicode=True)
    new = {MODEL: model, RECORD: package.text()}
    return {**laid_out(package, below=BELOW), **{name: written(aside, name, text) for name, text in new.items()}}


def read(pieces: Pieces) -> Package | None:
    if MODEL not in pieces:
        return None
    model = read_mapping(pieces[MODEL].read(MODEL, _MAX_BYTES).decode(errors="replace"), what=MODEL)
    below = _below(model, pieces)
    files = {path.removeprefix(below): piece for path, piece in pieces.items() if path.startswith(below)}
    return plain(files, origin={key: str(model[key])[:1024] for key in _ORIGIN if model.get(key)}, metadata={})


def _below(model: Mapping[str, Any], pieces: Pieces) -> str:
    """Where the adapter's files are; no path is made of it, so that it can lead nowhere."""
    flavors = _mapping(model.get("flavors"))
    named = _mapping(flavors.get("transformers")).get("peft_adaptor")
    if isinstance(named, str) and f"{named}/{CONFIG_NAME}" in pieces:
        return f"{named}/"
    found = [path.removesuffix(CONFIG_NAME) for path in pieces if f"/{path}".endswith(f"/{CONFIG_NAME}")]
    if len(found) != 1:
        raise Refused(f"The MLflow model holds {len(found)} adapters ({CONFIG_NAME}); one is imported at a time.")
    return found[0]


def _model(package: Package) -> dict[str, Any]:
    record, config = package.record, _config(package)
    base = _mapping(record.metadata.get("base"))
    task = PIPELINES.get(str(config.get("task_type")), "text-generation")
    transformers = {
        "task": task,
        "instance_type": "".join(part.capitalize() for part in task.split("-")) + "Pipeline",
        "pipeline_model_type": record.base.architecture if record.base else None,
        "source_model_name": base.get("id"),
        "source_model_revision": base.get("revision") or "main",
        "peft_adaptor": BELOW.rstrip("/"),
        "components": ["tokenizer"],
        "tokenizer_type": "AutoTokenizer",
        "tokenizer_name": base.get("id"),
        "tokenizer_revision": base.get("revision") or "main",
    }
    model = {
        "flavors": {"transformers": {key: value for key, value in transformers.items() if value}},
        "metadata": {"graftwork": f"{record.adapter}:{record.semver}", "graftwork_digest": record.digest},
        "model_uuid": hex_of(record.digest)[:32],
        "utc_time_created": (record.created_at or "").replace("T", " ").removesuffix("Z"),
    }
    return {key: value for key, value in model.items() if value}


def _config(package: Package) -> Mapping[str, Any]:
    piece = package.files.get(CONFIG_NAME)
    return _mapping(json.loads(piece.read(CONFIG_NAME, _MAX_BYTES))) if piece is not None else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
