"""Reads a JSON object from a file that a stranger wrote: bounded, and refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graftwork.errors import Refused

#: What PEFT calls the configuration of an adapter.
CONFIG_NAME = "adapter_config.json"


def read_object(file: Path, max_bytes: int) -> dict[str, Any] | None:
    """The object in `file`; None when there is no such file.

    Raises:
        Refused: too large, not JSON, or no object.
    """
    if not file.is_file():
        return None
    if file.stat().st_size > max_bytes:
        raise Refused(f"{file.name} is larger than {max_bytes} bytes.")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{file.name} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise Refused(f"{file.name} must hold a JSON object, not {type(content).__name__}.")
    return content
