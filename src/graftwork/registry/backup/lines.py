"""Lines: files of one JSON value a line, written and read with their digest, a line in memory at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from graftwork.artifacts.digest import PREFIX
from graftwork.errors import Damaged
from graftwork.registry.backup.summary import Lines


def write_lines(path: Path, values: Iterable[Any]) -> Lines:
    """Write the values and return what `read_lines` wants to know of them; they are on the disk when it returns."""
    seen, count = hashlib.sha256(), 0
    with path.open("wb") as file:
        for value in values:
            line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            seen.update(line)
            file.write(line)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return Lines(count, PREFIX + seen.hexdigest())


def read_lines(path: Path, expected: Lines) -> Iterator[Any]:
    """The values of a file; after the last one its digest is checked, so use none of them before all have come.

    Raises:
        Damaged: the file is missing or not what was written.
    """
    seen, count = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            for line in file:
                seen.update(line)
                count += 1
                yield json.loads(line)
    except (OSError, ValueError) as error:
        raise Damaged(f"The backup's {path.name} cannot be read: {error}. Take another backup.") from error
    if (count, PREFIX + seen.hexdigest()) != (expected.lines, expected.digest):
        raise Damaged(f"The backup's {path.name} is not what was written. Take another backup.")
