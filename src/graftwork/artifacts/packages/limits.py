"""checked: what holds of every set of files that comes from outside, whatever held it: names, number, bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graftwork.artifacts.bundle import MAX_FILES
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.artifacts.paths import check_path, check_together
from graftwork.errors import InvalidRequest

#: A bundle's own files, its evaluations, documents and signatures, and what a format adds.
MAX_PIECES: Final = 8 * MAX_FILES
#: A bundle has 8 GiB where nobody says otherwise, and may be carried by a format with the model beside it.
MAX_BYTES: Final = 64 << 30


def checked(found: Iterable[tuple[str, Piece]], source: str) -> Pieces:
    """The pieces by path, sorted; nothing of them is read.

    Raises:
        InvalidRequest: a path is not allowed, two are one on some system, or there are none, too many or too large.
    """
    pieces: dict[str, Piece] = {}
    total = 0
    for path, piece in found:
        if check_path(path) in pieces:
            raise InvalidRequest(f"{source} holds {path!a} twice.", field="source")
        pieces[path] = piece
        total += piece.size
        if len(pieces) > MAX_PIECES or total > MAX_BYTES:
            raise InvalidRequest(
                f"{source} holds more than {MAX_PIECES} files or {MAX_BYTES} bytes; that is no adapter.", field="source"
            )
    if not pieces:
        raise InvalidRequest(f"{source} holds no files.", field="source")
    check_together(pieces)
    return dict(sorted(pieces.items()))
