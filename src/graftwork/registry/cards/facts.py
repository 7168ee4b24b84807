"""Facts: what the registry knows of a version, in one place; model card and bill of materials only write it down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graftwork.registry.versions import Version

#: PEFT's word for what an adapter was trained for, and the Hugging Face Hub's.
PIPELINES = {
    "CAUSAL_LM": "text-generation",
    "FEATURE_EXTRACTION": "feature-extraction",
    "QUESTION_ANS": "question-answering",
    "SEQ_2_SEQ_LM": "text2text-generation",
    "SEQ_CLS": "text-classification",
    "TOKEN_CLS": "token-classification",
}
#: Fields of the adapter's config that are hyper-parameters, and what they are called here.
_FROM_CONFIG = {
    "r": "rank",
    "lora_alpha": "alpha",
    "lora_dropout": "dropout",
    "target_modules": "target_modules",
    "use_rslora": "rslora",
    "use_dora": "dora",
}
_HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


@dataclass(frozen=True)
class Dataset:
    """What it was trained on."""

    name: str
    digest: str | None = None


@dataclass(frozen=True)
class Measured:
    """The newest numbers of one evaluation by name and split."""

    name: str
    split: str
    family: str
    source: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Facts:
    """A version with everything that is told of it; texts are as their authors wrote them."""

    version: Version
    base_model: str  #: the Hub's name of the base, where the adapter's config has one
    description: str | None
    license: str | None
    languages: tuple[str, ...]
    tags: tuple[str, ...]
    datasets: tuple[Dataset, ...]
    pipeline: str | None
    hyperparameters: Mapping[str, Any]
    measured: tuple[Measured, ...] = field(default=())


def facts_of(version: Version, config: Mapping[str, Any], measured: Sequence[Measured]) -> Facts:
    """The facts of a version that was read whole, of its adapter_config.json and of what was measured."""
    told: Mapping[str, Any] = version.metadata or {}
    trained = told.get("hyperparameters")
    hyperparameters = {name: config[key] for key, name in _FROM_CONFIG.items() if config.get(key) not in (None, False)}
    hyperparameters |= dict(trained) if isinstance(trained, Mapping) else {}
    said = config.get("base_model_name_or_path")
    is_hub_id = isinstance(said, str) and _HUB_ID.fullmatch(said)
    return Facts(
        version=version,
        base_model=str(said) if is_hub_id else version.base,
        description=_text(told.get("description")),
        license=_text(told.get("license")),
        languages=_texts(told.get("language")),
        tags=_texts(told.get("tags")),
        datasets=tuple(_datasets(told)),
        pipeline=_text(told.get("pipeline_tag")) or PIPELINES.get(str(config.get("task_type"))),
        hyperparameters=hyperparameters,
        measured=tuple(measured),
    )


def _datasets(told: Mapping[str, Any]) -> list[Dataset]:
    found: list[Dataset] = []
    for value in (told.get(key) for key in ("datasets", "dataset", "data")):
        entries = value if isinstance(value, list | tuple) else [value]
        found += [dataset for entry in entries if (dataset := _dataset(entry)) is not None]
    return list(dict.fromkeys(found))


def _dataset(entry: object) -> Dataset | None:
    if isinstance(entry, Mapping):
        name = next((text for key in ("name", "uri", "id") if (text := _text(entry.get(key)))), None)
        return Dataset(name, _text(entry.get("digest"))) if name else None
    name = _text(entry)
    return Dataset(name) if name else None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(text for one in values if (text := _text(one)))
