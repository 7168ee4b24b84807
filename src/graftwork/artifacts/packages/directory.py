"""A directory of pieces: listed with no link that leads out of it, and written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from graftwork.artifacts.bundle import KEPT_DOT_NAMES, files_below
from graftwork.artifacts.packages.limits import checked
from graftwork.artifacts.packages.piece import Piece, Pieces

#: Where a package keeps what is none of the adapter's own files.
ASIDE: Final = ".graftwork"
_DOTS = KEPT_DOT_NAMES | {ASIDE}


def read_directory(folder: Path) -> Pieces:
    """The files in a folder and below; names that begin with a dot are left out, but for ours and `.eval_results`.

    Of the Hugging Face cache (`models--ORG--NAME/snapshots/REVISION`) links may lead to the blobs of that repository.

    Raises:
        InvalidRequest: there are no files or too many, or one has a name that is not allowed.
        Refused: something is neither file nor folder, or a link leads out.
    """
    root = folder.resolve()
    paths = files_below(root, root, within=_repository(root), dots=_DOTS)
    return checked(((path.relative_to(root).as_posix(), Piece.of_file(path)) for path in paths), str(folder))


def write_directory(pieces: Pieces, target: Path) -> None:
    """Make the folder `target`, where nothing lies."""
    target.mkdir()
    for name, piece in pieces.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.writelines(piece.chunks())


def _repository(root: Path) -> Path:
    snapshots, repository = root.parent, root.parent.parent
    is_cached = snapshots.name == "snapshots" and repository.name.startswith("models--")
    return repository / "blobs" if is_cached else root
