"""Form: how a blob's bytes lie in a store: as they are, or sealed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

#: Where below its tenant damaged bytes are set aside.
QUARANTINE: Final = "quarantine"
#: Where below its tenant the note lies.
NOTE: Final = "note"
#: Where there are blobs of any form: a store that is sealed from now on still has what was plain.
FOLDERS: Final = ("sha256", "sealed")


class Form(Protocol):
    """Turns a blob into what is stored and back; the digest is always that of the blob."""

    @property
    def folder(self) -> str:
        """Where below its tenant a blob in this form lies, so that one form is never read as another."""
        ...

    def stored(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """What is stored for the blob `chunks`; ends with an error where `chunks` do."""
        ...

    def plain(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The blob of what was stored.

        Raises:
            Damaged: while iterating, when the stored bytes are not what `stored` made for this blob.
            Unavailable: the key is not there.
        """
        ...

    def plain_size(self, size: int) -> int:
        """The blob's size, of what was stored; for bytes that nobody sealed, any number."""
        ...


class Plain:
    """The blob itself."""

    folder: Final = "sha256"

    def stored(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        return iter(chunks)

    def plain(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        return iter(chunks)

    def plain_size(self, size: int) -> int:
        return size


PLAIN: Final = Plain()


def pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of `size`, the last one shorter or equal; none where there are no bytes."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) > size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
