"""Summary: what a backup holds, in its `backup.json`; written last, so that a backup without it is none.

backup.json          this
tables/NAME.jsonl    a row of the table NAME in each line
blobs.jsonl          tenant and digest of a blob in each line
blobs/               an artifact store of those blobs, sealed where the registry's store is
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graftwork.errors import Damaged, Unavailable

NAME = "backup.json"
FORMAT = 1
_WORD = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Lines:
    """A file of lines: how many, and the digest of its bytes."""

    lines: int
    digest: str


@dataclass(frozen=True)
class Summary:
    """What a backup holds."""

    graftwork: str  #: the version that wrote it
    schema: str  #: revision of its tables
    created_at: str
    events: int
    head: str  #: hash of the last event
    tables: dict[str, Lines]  #: each after those that it refers to
    blobs: Lines

    def write(self, folder: Path) -> None:
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"
        (folder / NAME).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Summary:
        """The summary of the backup in `folder`.

        Raises:
            Damaged: there is none, or it cannot be read.
            Unavailable: a newer Graftwork wrote it.
        """
        try:
            found: dict[str, Any] = json.loads((folder / NAME).read_bytes())
            if found.pop("format") != FORMAT:
                raise Unavailable(f"{folder} was written by a newer Graftwork. Upgrade, and restore it again.")
            tables = {name: Lines(**lines) for name, lines in found.pop("tables").items()}
            summary = cls(**found | {"tables": tables, "blobs": Lines(**found.pop("blobs"))})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(f"{folder} is not a whole backup: its {NAME} is missing or damaged.") from error
        if not all(_WORD.fullmatch(name) for name in tables):  # they name files and tables
            raise Damaged(f"{folder} is not a whole backup: its {NAME} names tables that cannot be.")
        return summary
