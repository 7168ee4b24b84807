"""What the files of a version say of it, for searches; what cannot be read says nothing."""

from __future__ import annotations

from pathlib import Path

from graftwork.adapters.files.json_file import CONFIG_NAME, read_object
from graftwork.errors import Refused
from graftwork.registry.search.indexing import Described

CARD_NAME = "README.md"
MAX_CONFIG_BYTES = 1 << 20
MAX_CARD_BYTES = 1 << 18  # what comes after them is not found


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
