"""Names of the classes that a classification adapter tells apart."""

from __future__ import annotations

import json
from pathlib import Path

_MAX_BYTES = 1 << 20


def class_labels(folder: Path, count: int) -> tuple[str, ...]:
    """`id2label` of the adapter's config.json if it names so many classes, else transformers' LABEL_0, LABEL_1, …"""
    try:
        file = folder / "config.json"
        found = json.loads(file.read_text(encoding="utf-8"))["id2label"] if file.stat().st_size <= _MAX_BYTES else {}
        names = tuple(found[str(number)] for number in range(count))
        if len(found) == count and all(isinstance(name, str) for name in names):
            return names
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return tuple(f"LABEL_{number}" for number in range(count))
