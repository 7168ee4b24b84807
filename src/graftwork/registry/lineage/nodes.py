"""Node: a thing that lineage speaks of, written `KIND:NAME[@DIGEST]`; and the grammar of that."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from graftwork.access.names import check_name
from graftwork.errors import InvalidRequest

#: Longest name in bytes of UTF-8; more would not fit into an index of PostgreSQL.
MAX_NAME_BYTES = 1024
DIRTY = "-dirty"
_DIGEST = re.compile(r"[a-z][a-z0-9]{1,15}:[0-9a-f]{8,128}", re.ASCII)
_COMMIT = re.compile(rf"[0-9a-f]{{7,64}}({DIRTY})?", re.ASCII)
_VERSION = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, order=True)
class Node:
    """One node; `str()` writes it as `parse_node` reads it."""

    kind: str
    name: str
    #: What pins the name to one content: a digest, of code the commit; "" where nothing does.
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}{f'@{self.digest}' if self.digest else ''}"

    @property
    def clean(self) -> Node | None:
        """Of code that was changed since its commit, the commit; None for all others."""
        if self.kind == "code" and self.digest.endswith(DIRTY):
            return Node(self.kind, self.name, self.digest.removesuffix(DIRTY))
        return None


def version_node(digest: str) -> Node:
    """A version by the digest of its manifest: the same bytes under two names are one node."""
    return Node("version", digest)


def parse_node(text: str) -> Node:
    """Read a node. Nothing is decoded, trimmed or folded: what does not fit the grammar is refused.

    Raises:
        InvalidRequest: saying the grammar.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        raise _wrong(text, f"a node begins with one of {', '.join(f'{known}:' for known in KINDS)}")
    try:
        return KINDS[kind](rest)
    except InvalidRequest as exc:
        raise _wrong(text, exc.message) from exc


def _with_digest(kind: str, digest: re.Pattern[str], *, is_name: bool = False) -> Callable[[str], Node]:
    """Reads `NAME[@DIGEST]`; an @ with anything else behind it is part of the name."""

    def read(text: str) -> Node:
        name, _, behind = text.rpartition("@")
        if not name or not digest.fullmatch(behind):
            name, behind = text, ""
        return Node(kind, check_name(name, what=kind) if is_name else _checked(name), behind)

    return read


def _version(text: str) -> Node:
    if not _VERSION.fullmatch(text):
        raise InvalidRequest("a version is sha256: and 64 lower-case hex digits")
    return version_node(text)


def _checked(name: str) -> str:
    """A name of somebody else's: a URI, a repository, words."""
    if not name or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidRequest(f"a name has 1 to {MAX_NAME_BYTES} bytes")
    # No control characters, no direction marks, no half of a surrogate pair, no blank but the space.
    if not name.isprintable() or name != name.strip() or not unicodedata.is_normalized("NFC", name):
        raise InvalidRequest("a name is printable text in Unicode's form NFC without blanks at its ends")
    if {".", ".."} & set(re.split(r"[/\\]", name)):
        raise InvalidRequest("a name has no '.' or '..' between slashes: write the whole path")
    return name


def _wrong(text: str, why: str) -> InvalidRequest:
    why = why.rstrip(".")
    return InvalidRequest(f"{text[:80]!a} names nothing in lineage: {why}. Write KIND:NAME[@DIGEST].", field="node")


#: By kind, how what follows its colon is read.
KINDS: dict[str, Callable[[str], Node]] = {
    "application": lambda text: Node("application", _checked(text)),
    "base": _with_digest("base", _VERSION, is_name=True),
    "code": _with_digest("code", _COMMIT),
    "dataset": _with_digest("dataset", _DIGEST),
    "preprocessing": _with_digest("preprocessing", _DIGEST),
    "route": lambda text: Node("route", check_name(text, what="route")),
    "version": _version,
}
