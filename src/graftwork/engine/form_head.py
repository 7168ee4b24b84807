"""FormHead: how the file of a serving form begins, which is read without torch.

8 bytes magic · 4 bytes CRC-32 of all that follows · 4 bytes length of the header · header, JSON, with its `key`
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

SUFFIX = ".form"
MAGIC = b"graftfrm"
HEAD = struct.Struct("<8sII")
#: Longer headers are damage.
MAX_HEADER_BYTES = 64 << 20


def key_in(path: Path) -> dict[str, Any]:
    """The key of the form in a file, unchecked: what it says that it was made of.

    Raises:
        OSError: it cannot be read. ValueError: it is no form.
    """
    with path.open("rb") as file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            raise ValueError("it is cut off")
        magic, _, length = HEAD.unpack(head)
        if magic != MAGIC or length > MAX_HEADER_BYTES:
            raise ValueError("it is no form")
        header = json.loads(file.read(length).rstrip(b"\0"))
    if not isinstance(header, dict) or not isinstance(header.get("key"), dict):
        raise ValueError("it has no key")
    key: dict[str, Any] = header["key"]
    return key
