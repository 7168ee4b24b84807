"""Digests: `sha256:` and 64 lower-case hex digits, the name of a piece of content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from graftwork.errors import Damaged, InvalidRequest

PREFIX = "sha256:"
GRAMMAR = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
CHUNK_BYTES = 1 << 20


def is_digest(text: object) -> bool:
    """Whether this is a whole digest."""
    return isinstance(text, str) and GRAMMAR.fullmatch(text) is not None


def check_digest(text: object) -> str:
    """`text` itself, when it is a whole digest.

    Raises:
        InvalidRequest: it is not.
    """
    if isinstance(text, str) and GRAMMAR.fullmatch(text):
        return text
    raise InvalidRequest(
        f"The digest {ascii(text)[:100]} is not 'sha256:' followed by 64 lower-case hex digits.",
        field="digest",
    )


def digest_named(name: str) -> str | None:
    """The digest that a file's name is the hex digits of; None where it is none."""
    digest = PREFIX + name
    return digest if GRAMMAR.fullmatch(digest) else None


def hex_of(digest: str) -> str:
    return digest.removeprefix(PREFIX)


def digest_of_file(path: Path) -> str:
    """`sha256:<hex>` of a file's bytes."""
    with path.open("rb") as file:
        return PREFIX + hashlib.file_digest(file, "sha256").hexdigest()


def arrives(chunks: Iterable[bytes]) -> bool:
    """Whether all of what `verified` gives out comes."""
    try:
        for _ in chunks:
            pass
    except Damaged:
        return False
    return True


def verified(chunks: Iterable[bytes], digest: str, *, what: str) -> Iterator[bytes]:
    """The same chunks; the last one is given out only when all of them together match `digest`.

    Raises:
        Damaged: naming `what`, when they do not.
    """
    seen, held = hashlib.sha256(), b""
    for chunk in chunks:
        if held:
            yield held
        seen.update(chunk)
        held = bytes(chunk)
    actual = PREFIX + seen.hexdigest()
    if actual != digest:
        raise Damaged(f"{what}: the bytes have the digest {actual}, not {digest}. Upload the right bytes again.")
    if held:
        yield held
