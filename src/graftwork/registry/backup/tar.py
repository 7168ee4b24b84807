"""Backups as one tar file: the same folder, packed and unpacked."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from graftwork.errors import Damaged, GraftworkError


def is_tar(path: Path) -> bool:
    return path.suffix == ".tar"


def pack(folder: Path, target: Path) -> None:
    """Write `folder` as the tar file `target`, which is there whole or not at all."""
    partial = target.with_name(f".{target.name}.packing")
    try:
        with partial.open("wb") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                tar.add(folder, arcname=".")
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of a backup; of a tar file's, one beside it that is gone afterwards.

    What is wrong with what lies there is told of the tar file.

    Raises:
        Damaged: it is no whole tar file, or one that would write elsewhere.
    """
    if not path.is_file():
        yield path
        return
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        try:
            with tarfile.open(path, mode="r:") as tar:
                tar.extractall(folder, filter="data")
        except (tarfile.TarError, ValueError) as error:
            raise Damaged(f"{path} is not a whole backup: {error}.") from error
        try:
            yield Path(folder)
        except GraftworkError as error:
            error.args = (error.message.replace(folder, str(path)), *error.args[1:])
            raise
