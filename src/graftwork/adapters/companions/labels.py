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
    found = _config(folder).get("id2label")
    if isinstance(found, dict) and len(found) == count:
        names = [found.get(str(number)) for number in range(count)]
        texts = [name for name in names if isinstance(name, str) and is_text(name)]
        if len(texts) == count:
            return tuple(texts)
    return tuple(f"LABEL_{number}" for number in range(count))


def label_problems(folder: Path) -> list[str]:
    """Why the head's logits are not those of classes that exclude one another."""
    kind = _config(folder).get("problem_type")
    if kind is None or kind == _SERVED:
        return []
    return [f"{_NAME}: problem_type is {str(kind)[:80]!r}; a classification head is served as {_SERVED} only."]


def _config(folder: Path) -> Mapping[str, Any]:
    """The adapter's own config.json; what cannot be read names nothing."""
    try:
        return read_object(folder / _NAME, _MAX_BYTES) or {}
    except Refused:
        return {}
