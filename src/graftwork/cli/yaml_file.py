"""A YAML file that a verb is given: one mapping, or a message that says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graftwork.errors import InvalidRequest


def read_mapping(file: Path, *, field: str) -> dict[str, Any]:
    """What the file holds, in YAML or JSON.

    Raises:
        InvalidRequest: it is neither, or something else than names and values.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also a date that is none, lists without end
        raise InvalidRequest(
            f"{file} is neither YAML nor JSON: {' '.join(str(error).split())}.", field=field
        ) from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{file} holds no document of names and values.", field=field)
    return found
