"""Partial: what is still being written lies aside, below `<root>/.partial`, until it gets its name."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

#: Below a root; begins with a dot, as no tenant can. What a crash leaves here is garbage.
PARTIAL = ".partial"
#: No writer is silent for so long; one that is finds its file gone, fails, and has made nothing visible.
GARBAGE_AFTER_S = 24 * 60 * 60


def partial_folder(root: Path) -> Path:
    """The folder to write in, made where it is missing."""
    folder = root / PARTIAL
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sweep(root: Path) -> None:
    """Remove what nobody has written to for a day; what cannot be read or removed stays."""
    oldest = time.time() - GARBAGE_AFTER_S
    with suppress(OSError):
        for path in (root / PARTIAL).iterdir():
            _remove_older(path, oldest)


def _remove_older(path: Path, oldest: float) -> None:
    with suppress(OSError):  # its writer finished or another process sweeps
        if max(entry.lstat().st_mtime for entry in (path, *path.rglob("*"))) >= oldest:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
