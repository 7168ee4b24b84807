"""Facts: what the registry knows of a version, in one place; model card and bill of materials only write it down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    task: str | None  #: in their words
    license: str | None
    languages: tuple[str, ...]
    author: str | None
    code: str | None  #: repository and commit
    datasets: tuple[Dataset, ...]
    pipeline: str | None  #: the task in the Hub's words
    hyperparameters: Mapping[str, Any]
    measured: tuple[Measured, ...] = field(default=())


def facts_of(version: Version, config: Mapping[str, Any], measured: Sequence[Measured]) -> Facts:
    """The facts of a version that was read whole, of its adapter_config.json and of what was measured."""
    told: Mapping[str, Any] = version.metadata or {}
    hyperparameters = {name: config[key] for key, name in _FROM_CONFIG.items() if config.get(key) not in (None, False)}
    code = _mapping(told.get("code"))
    said = (_text(_mapping(told.get("base")).get("id")), _text(config.get("base_model_name_or_path")))
    return Facts(
        version=version,
        base_model=next((name for name in said if name and _HUB_ID.fullmatch(name)), version.base),
        description=_text(told.get("description")),
        task=_text(told.get("task")),
        license=_text(told.get("license")),
        languages=_texts(told.get("language")),
        author=_text(told.get("author")),
        code=" ".join(filter(None, (_text(code.get("repo")), _text(code.get("commit"))))) or None,
        datasets=tuple(dict.fromkeys(_datasets(told.get("datasets")))),
        pipeline=PIPELINES.get(str(config.get("task_type"))),
        hyperparameters={**hyperparameters, **_mapping(_mapping(told.get("training")).get("hyperparameters"))},
        measured=tuple(measured),
    )


def _datasets(told: object) -> Iterator[Dataset]:
    for entry in told if isinstance(told, list | tuple) else [told]:
        said = entry if isinstance(entry, Mapping) else {"name": entry}
        if said.get("role") == "evaluated_on":  # nothing was trained on it
            continue
        name = _text(said.get("name")) or _text(said.get("uri"))
        if name is not None:
            yield Dataset(name, _text(said.get("digest")))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(text for one in values if (text := _text(one)))
