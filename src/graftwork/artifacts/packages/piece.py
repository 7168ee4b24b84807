"""Piece: bytes that lie in a file, whole or within another, such as a tar."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graftwork.artifacts.digest import CHUNK_BYTES, PREFIX
from graftwork.errors import InvalidRequest


@dataclass(frozen=True)
class Piece:
    """`size` bytes of the file at `path`, from byte `start` on."""

    path: Path
    start: int
    size: int

    @classmethod
    def of_file(cls, path: Path) -> Piece:
        return cls(path, 0, path.stat().st_size)

    def chunks(self) -> Iterator[bytes]:
        """The bytes; raises InvalidRequest where the file became shorter since it was looked at."""
        left = self.size
        with self.path.open("rb") as file:
            file.seek(self.start)
            while left:
                if not (chunk := _read(file, min(left, CHUNK_BYTES))):
                    raise InvalidRequest(f"{self.path} has become shorter while it was read.", field="source")
                left -= len(chunk)
                yield chunk

    def after(self, offset: int) -> Piece:
        """What comes after its first `offset` bytes."""
        return Piece(self.path, self.start + offset, self.size - offset)

    def digest(self) -> str:
        """`sha256:<hex>` of the bytes."""
        seen = hashlib.sha256()
        for chunk in self.chunks():
            seen.update(chunk)
        return PREFIX + seen.hexdigest()

    def read(self, what: str, most: int) -> bytes:
        """All of it; raises InvalidRequest, naming `what`, where there is more than `most` bytes."""
        if self.size > most:
            raise InvalidRequest(f"{what} has {self.size} bytes; at most {most} are read.", field="source")
        return b"".join(self.chunks())


def _read(file: BinaryIO, size: int) -> bytes:
    return file.read(size)


#: By relative path, each allowed by `check_path` and beside all others by `check_together`.
Pieces = Mapping[str, Piece]
