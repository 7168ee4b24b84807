"""Paths: which relative file names a bundle may hold (OMS §6, and what unpacks the same on every system)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from graftwork.errors import InvalidRequest

MAX_PATH_BYTES = 1024
MAX_PART_BYTES = 255
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII | re.IGNORECASE)
ESCAPED = re.compile(r"%(2e|2f|5c|00)", re.ASCII | re.IGNORECASE)


def check_path(path: object) -> str:
    """`path` itself, when a bundle may hold a file of that name.

    Raises:
        InvalidRequest: saying which rule it breaks.
    """
    if not isinstance(path, str):
        raise InvalidRequest(f"A path must be a string, not {type(path).__name__}.", field="path")
    if wrong := _what_is_wrong(path):
        raise InvalidRequest(f"The path {path[:200]!a} is not allowed in a bundle: {wrong}.", field="path")
    return path


def check_together(paths: Iterable[str]) -> None:
    """Check that paths, each allowed alone, can lie side by side.

    Raises:
        InvalidRequest: two are the same file on some system, or one would be a folder and a file.
    """
    files: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if (twin := files.get(folded)) is not None:
            raise InvalidRequest(
                f"The paths {twin!a} and {path!a} would be one file on some systems; rename one.",
                field="path",
            )
        files[folded] = path
    for folded, path in files.items():
        parts = folded.split("/")
        for end in range(1, len(parts)):
            if (file := files.get("/".join(parts[:end]))) is not None:
                raise InvalidRequest(f"{file!a} cannot be a file and a folder (of {path!a}) at once.", field="path")


def _what_is_wrong(path: str) -> str | None:
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not path or len(encoded) > MAX_PATH_BYTES:
        return f"it must have 1 to {MAX_PATH_BYTES} bytes"
    if "\\" in path or ":" in path:
        return "it holds a backslash or a colon"
    if any(unicodedata.category(char) == "Cc" for char in path):
        return "it holds a control character"
    if ESCAPED.search(path):
        return "it holds a percent-encoded dot or separator"
    return next((wrong for part in path.split("/") if (wrong := _what_is_wrong_in(part))), None)


def _what_is_wrong_in(part: str) -> str | None:
    if part in ("", ".", ".."):
        return "it must be relative, with '/' between its parts and no '.', '..' or empty part"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"one part is longer than {MAX_PART_BYTES} bytes"
    if part[-1] in " ." or part[0] == " ":
        return "a part begins or ends with a blank or ends with a dot"
    if DEVICES.fullmatch(part):
        return f"{part!r} is a device on some systems"
    return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
