"""read_object: an object of names and values from a YAML or JSON file, for verbs that take one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graftwork.errors import InvalidRequest


def read_object(file: Path, *, field: str) -> dict[str, Any]:
    """What the file holds; JSON is YAML.

    Raises:
        InvalidRequest: with `field`, when that is no object.
        OSError: it cannot be read.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"{file} is neither JSON nor YAML: {' '.join(str(error).split())}.", field=field
        ) from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{file} must hold an object of names and values.", field=field)
    return found
