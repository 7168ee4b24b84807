"""Described: what the files of a version say of it, for searches; what cannot be read says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graftwork.adapters.files.json_file import read_object
from graftwork.adapters.folder import CONFIG_NAME
from graftwork.errors import Refused

CARD_NAME = "README.md"
MAX_CONFIG_BYTES = 1 << 20
MAX_CARD_BYTES = 1 << 18  # what comes after them is not found


@dataclass(frozen=True)
class Described:
    """adapter_config.json, and the text of README.md."""

    config: Mapping[str, Any] = field(default_factory=dict)
    card: str = ""


NOTHING = Described()


def described_by(folder: Path) -> Described:
    """What the files in `folder` say; the push refuses for its own reasons what is wrong with them."""
    try:
        config = read_object(folder / CONFIG_NAME, MAX_CONFIG_BYTES)
    except (OSError, Refused):
        config = None
    try:
        with (folder / CARD_NAME).open("rb") as file:
            card = file.read(MAX_CARD_BYTES).decode(errors="replace")
    except OSError:
        card = ""
    return Described(config or {}, card)
