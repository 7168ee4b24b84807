"""A tar of pieces: the same files give the same bytes, and one that is read is never unpacked.

Format: POSIX pax (IEEE Std 1003.1). An archive that is not compressed holds each file as it is, so that pieces of it
are read where they lie: nothing is written anywhere, and no small archive can be a large folder.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO, Final

from graftwork.artifacts.packages.limits import MAX_PIECES, checked
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.errors import InvalidRequest, Refused

#: Names of files are all that a header of ours holds; `tarfile` would read one of any size into memory.
_MAX_HEADER_BYTES: Final = 1 << 16
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7z": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK": "zip"}


def read_tar(path: Path, *, of: Piece | None = None) -> Pieces:
    """The files in an archive, which may itself be a piece of one; folders in it say nothing.

    Raises:
        InvalidRequest: it is no tar, is compressed, cut off, or holds what `checked` does not allow.
        Refused: it holds a link, a device, or anything else that is neither file nor folder.
    """
    whole = of or Piece.of_file(path)
    with path.open("rb") as file:
        file.seek(whole.start)
        _check_plain(path, file.read(4))
        try:
            with tarfile.open(mode="r:", fileobj=_Bounded(file, whole)) as archive:
                return checked(_members(archive, path, whole), str(path))
        except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
            raise InvalidRequest(f"{path} is no tar that can be read: {error}.", field="source") from error


def write_tar(pieces: Pieces, target: Path) -> None:
    """Write the archive to `target`, where nothing lies: sorted by path, with no times and nobody's name in it."""
    with target.open("xb") as file, tarfile.open(mode="w", fileobj=file, format=tarfile.PAX_FORMAT) as archive:
        for name, piece in sorted(pieces.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = piece.size, 0o644, 0
            with piece.path.open("rb") as data:
                data.seek(piece.start)
                archive.addfile(member, data)


def _members(archive: tarfile.TarFile, path: Path, whole: Piece) -> Iterator[tuple[str, Piece]]:
    for number, member in enumerate(archive):
        if number > 2 * MAX_PIECES:
            raise InvalidRequest(f"{path} has more than {2 * MAX_PIECES} entries; that is no adapter.", field="source")
        name = member.name.removeprefix("./")
        if member.type == tarfile.DIRTYPE:
            continue
        if member.type not in _FILES or member.issparse():
            raise Refused(f"{path} holds {name[:200]!a}, which is neither a file nor a folder: nothing of it is read.")
        if not 0 <= member.size <= whole.size - member.offset_data:
            raise InvalidRequest(f"{path} ends within {name[:200]!a}; it was cut off.", field="source")
        yield name, Piece(path, whole.start + member.offset_data, member.size)
    end = Piece(path, whole.start + archive.offset, min(tarfile.BLOCKSIZE, whole.size - archive.offset))
    if b"".join(end.chunks()) != tarfile.NUL * tarfile.BLOCKSIZE:  # `tarfile` ends as well where a header is damaged
        raise InvalidRequest(f"{path} is damaged, or was cut off: it has no end as a tar has.", field="source")


def _check_plain(path: Path, first: bytes) -> None:
    packed = next((name for magic, name in _PACKED.items() if first.startswith(magic)), None)
    if packed is not None:
        raise InvalidRequest(f"{path} is compressed ({packed}); unpack it to a plain tar first.", field="source")


class _Bounded(RawIOBase):
    """What `tarfile` may read: only that piece, and never much of it at once."""

    def __init__(self, file: BinaryIO, piece: Piece) -> None:
        self._file, self._piece, self._at = file, piece, 0

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header has more than {_MAX_HEADER_BYTES} bytes")
        self._file.seek(self._piece.start + self._at)
        data = self._file.read(max(0, min(size, self._piece.size - self._at)))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, (0, self._at, self._piece.size)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at
