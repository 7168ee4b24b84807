"""What the classes of a classification adapter are called, and whether they exclude one another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graftwork.adapters.files.json_file import read_object
from graftwork.adapters.plain_text import is_text
from graftwork.errors import Refused

_NAME = "config.json"
_MAX_BYTES = 1 << 20
#: The one sort of head whose logits a softmax turns into probabilities; transformers writes it, or nothing.
_SERVED = "single_label_classification"


def class_labels(folder: Path, count: int) -> tuple[str, ...]:
    """`id2label` of the adapter's config.json if it names so many classes, else transformers' LABEL_0, LABEL_1, …"""
    return _names(_config(folder), count) or tuple(f"LABEL_{number}" for number in range(count))


def label_warnings(folder: Path, count: int) -> list[str]:
    """What to say when the adapter names classes, and not as many as its head has."""
    config = _config(folder)
    if config.get("id2label") is None or _names(config, count):
        return []
    return [f"{_NAME}: id2label does not name each of the {count} classes; they are called LABEL_0, LABEL_1 and so on."]


def label_problems(folder: Path) -> list[str]:
    """Why the head's logits are not those of classes that exclude one another, as far as the adapter says."""
    try:
        kind = (read_object(folder / _NAME, _MAX_BYTES) or {}).get("problem_type")
    except Refused as refusal:
        return [refusal.message]
    if kind is None or kind == _SERVED:
        return []
    return [f"{_NAME}: problem_type is {str(kind)[:80]!r}; a classification head is served as {_SERVED} only."]


def _names(config: Mapping[str, Any], count: int) -> tuple[str, ...] | None:
    found = config.get("id2label")
    if not isinstance(found, dict) or len(found) != count:
        return None
    names = [found.get(str(number)) for number in range(count)]
    texts = tuple(name for name in names if isinstance(name, str) and is_text(name))
    return texts if len(texts) == count else None


def _config(folder: Path) -> Mapping[str, Any]:
    """The adapter's own config.json; one that cannot be read is a problem already."""
    try:
        return read_object(folder / _NAME, _MAX_BYTES) or {}
    except Refused:
        return {}
