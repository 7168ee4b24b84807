"""Folders: what comes from a server gathers in a hidden folder beside its place, and gets its name when it is whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import hex_of
from graftwork.client.downloads import download
from graftwork.client.wire import Wire
from graftwork.errors import Conflict, InvalidRequest, Refused


def bring(wire: Wire, manifest: Manifest, target: Path) -> None:
    """Bring the files of a manifest into a new folder, every byte checked; where they lie there already, do nothing.

    What has come lies in a hidden folder beside it until all of it is there, and the next call goes on from it.

    Raises:
        Conflict: something else lies at `target`, or somebody else is fetching there.
        Damaged: stored bytes are missing or wrong.
    """
    if _holds(target, manifest):
        return
    with partial(target, manifest) as folder:
        for file in manifest.files:
            download(wire, folder / file.path, file)
        take_place(folder, target)


def is_free(target: Path) -> bool:
    """Whether something new may be written there: nothing lies there, or an empty folder."""
    return not os.path.lexists(target) or (target.is_dir() and not target.is_symlink() and not any(target.iterdir()))


def take_place(made: Path, target: Path) -> None:
    """Give what is whole its name; raises Conflict where something lies there."""
    if is_free(target):
        try:
            if not made.is_dir() and target.is_dir():
                target.rmdir()
            made.rename(target)
            return
        except OSError as error:
            if is_free(target):
                raise
            raise _taken(target) from error
    raise _taken(target)


@contextmanager
def partial(target: Path, manifest: Manifest | None = None) -> Iterator[Path]:
    """The folder where things gather until all have come, those of a manifest apart; nobody else writes there then.

    Raises:
        Conflict: somebody else does.
    """
    target, mark = target.absolute(), "" if manifest is None else f".{hex_of(manifest.digest())[:12]}"
    folder = target.parent / f".{target.name}{mark}.partial"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"Somebody else is writing {target}; wait until they are done.") from error
        if not folder.is_dir() or not os.path.samestat(os.fstat(descriptor), folder.lstat()):
            raise Conflict(f"Somebody else has just written {target}.")
        yield folder
    finally:
        os.close(descriptor)


def _holds(target: Path, manifest: Manifest) -> bool:
    """Whether the files are there already; raises Conflict where others are."""
    if is_free(target):
        return False
    try:
        there = Manifest.of_folder(target) == manifest
    except (InvalidRequest, Refused):
        there = False
    if not there:
        raise _taken(target)
    return True


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} is there already and holds something else; choose another place.")
