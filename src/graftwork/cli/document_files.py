"""DocumentFiles: the documents of the files that a verb was given, and where in them each stands."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from graftwork.access.names import is_name
from graftwork.cli.yaml_documents import MAX_DIGITS, Fault, Located, check_text, read_text
from graftwork.errors import GraftworkError, InvalidRequest

STDIN: Final = "-"
MAX_BYTES: Final = 4 << 20
#: What JSON that can be read has in it, but for words and signs.
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:[0-9][0-9.eE+-]*|Infinity)|NaN')
_ENDINGS: Final = (".yaml", ".yml", ".json")
#: What a set is called that nobody named, and whose folder has no name that could be one.
DEFAULT_SET: Final = "default"


@dataclass(frozen=True)
class Place:
    """Where a document stands."""

    file: str
    number: int  #: in its file, from 1
    of: int  #: how many that file has
    found: Located

    @property
    def label(self) -> str:
        """`Route/support`, by what the document says of itself."""
        kind, metadata = self.found.value.get("kind"), self.found.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"{kind}/{name}" if name else str(kind)

    def at(self, path: tuple[str | int, ...] = ()) -> str:
        """`routes.yaml:12`, and which document that is in, where there are several."""
        which = f" (document {self.number})" if self.of > 1 else ""
        return f"{self.file}:{self.found.line_of(path)}{which}"


@dataclass(frozen=True)
class DocumentFiles:
    """In the order in which they were given, those of a folder by name."""

    documents: tuple[Mapping[str, Any], ...]
    places: tuple[Place, ...] = field(repr=False)

    def place_of(self, said: str | None) -> str | None:
        """Where a field stands that the server calls `documents.3.spec.…`; None where it is of no document."""
        parts = (said or "").split(".")
        if parts[0] != "documents" or len(parts) < 2 or not parts[1].isdecimal() or int(parts[1]) >= len(self.places):
            return None
        return self.places[int(parts[1])].at(tuple(int(one) if one.isdecimal() else one for one in parts[2:]))

    @contextmanager
    def told(self) -> Iterator[None]:
        """What is wrong with a document is told with its file and line."""
        try:
            yield
        except GraftworkError as error:
            place = self.place_of(getattr(error, "field", None)) or self._place_named(error.message)
            if place is not None:
                error.args = (f"{place}: {error.message}",)
            raise

    def _place_named(self, message: str) -> str | None:
        """Of the document that a message begins with, as in `Route/support: …`."""
        label = message.partition(": ")[0]
        return next((place.at() for place in self.places if place.label == label), None)


def read_documents(named: Sequence[str]) -> DocumentFiles:
    """The documents of files, folders and, by `-`, of stdin.

    Raises:
        InvalidRequest: one cannot be read, by its file and line, or there are none.
    """
    places: list[Place] = []
    for name in named:
        for file in _files(name):
            places += _places(file)
    if not places:
        raise InvalidRequest(f"There is no document in {', '.join(named)}.", field="settings")
    return DocumentFiles(tuple(place.found.value for place in places), tuple(places))


def set_of(given: str | None, named: Sequence[str], *, pruned: bool) -> tuple[str, bool]:
    """What the documents are called together, and whether nobody said so: then as the folder or the file that they are
    in.

    Raises:
        InvalidRequest: something is to be taken away, and it is not clear of which set.
    """
    if given is not None:
        return given, False
    only = Path(named[0]) if len(named) == 1 and named[0] != STDIN else None
    name = "" if only is None else (only.absolute().name if only.is_dir() else only.stem)
    if is_name(name):
        return name, True
    if pruned:
        raise InvalidRequest("--prune takes away what the same set had before: name it with --set.", field="settings")
    return DEFAULT_SET, True


def _files(name: str) -> Iterator[str]:
    path = Path(name)
    if name != STDIN and not path.exists():
        raise InvalidRequest(f"There is no file or folder {name}.", field="settings")
    if name == STDIN or not path.is_dir():
        yield name
        return
    found = [one for one in path.rglob("*") if one.suffix in _ENDINGS and one.is_file()]
    yield from (str(one) for one in sorted(found) if not _hidden(one.relative_to(path)))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _places(file: str) -> list[Place]:
    raw = sys.stdin.buffer.read(MAX_BYTES + 1) if file == STDIN else _read(Path(file))
    shown = "stdin" if file == STDIN else file
    if len(raw) > MAX_BYTES:
        raise InvalidRequest(f"{shown} has more than {MAX_BYTES >> 20} MiB; split it.", field="file")
    try:
        found = list(_of_json(raw) if file.endswith(".json") else read_text(raw))
        for one in found:
            if not isinstance(one.value, dict):
                raise Fault(one.line, "this is no document of names and values")
    except Fault as fault:
        raise InvalidRequest(f"{shown}:{fault.line}: {fault}.", field="file") from fault
    return [Place(shown, number, len(found), one) for number, one in enumerate(found, 1)]


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise InvalidRequest(f"{path} is no file or folder; what comes from a pipe is read with -f -.", field="file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _of_json(raw: bytes) -> Iterator[Located]:
    """One document, a list of them, or what `export` answers with; JSON has no lines but in its faults."""
    try:
        text = raw.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_once, parse_int=_whole)
        _check_tokens(text)
    except UnicodeDecodeError as error:
        raise Fault(raw[: error.start].count(b"\n") + 1, f"this is not UTF-8 text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise Fault(error.lineno, f"this is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise Fault(1, "lists and mappings lie too deep in one another") from error
    if isinstance(value, dict) and "kind" not in value and isinstance(value.get("documents"), list):
        value = value["documents"]
    for one in value if isinstance(value, list) else [value]:
        yield Located(one, 1, {})


def _whole(text: str) -> int | float:
    return int(text) if len(text) <= MAX_DIGITS else math.inf


def _check_tokens(text: str) -> None:
    """Raises Fault for texts and numbers that Python reads, and that JSON cannot say or no server takes."""
    line, end = 1, 0
    for token in _TOKENS.finditer(text):
        line, end = line + text.count("\n", end, token.start()), token.start()
        value = json.loads(token[0], parse_int=_whole)
        if isinstance(value, str):
            check_text(value, line)
        elif not math.isfinite(value):
            raise Fault(line, f"{token[0][:40]} is no number that can be kept")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Fault(1, f"the key {twice[:80]!a} comes twice in one object")
    return found
