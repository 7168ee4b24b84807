"""Bundle: the files of a version with their manifest, whose digest is the version's identity."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from graftwork.artifacts.digest import check_digest, digest_of_file
from graftwork.artifacts.paths import check_path, check_together
from graftwork.errors import InvalidRequest, Refused
from graftwork.protocol.canonical import canonical, sha256

MAX_FILES = 4096
MAX_FILE_BYTES = 1 << 50
#: The one name with a leading dot that belongs to a bundle (Hugging Face keeps evaluation results there).
KEPT_DOT_NAMES = frozenset({".eval_results"})


@dataclass(frozen=True)
class BundleFile:
    """One file: its relative path, its size in bytes, its `sha256:` digest."""

    path: str
    size: int
    digest: str

    def __post_init__(self) -> None:
        check_path(self.path)
        check_digest(self.digest)
        if type(self.size) is not int or not 0 <= self.size <= MAX_FILE_BYTES:
            raise InvalidRequest(f"The size {self.size!r} of {self.path!r} is not a number of bytes.", field="size")

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "digest": self.digest}


@dataclass(frozen=True)
class Manifest:
    """The files of a bundle, sorted by path (by code point); equal manifests have equal digests.

    Raises:
        InvalidRequest: no files or too many, or two that cannot lie side by side.
    """

    files: tuple[BundleFile, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.files) <= MAX_FILES:
            raise InvalidRequest(f"A bundle has 1 to {MAX_FILES} files, not {len(self.files)}.", field="files")
        object.__setattr__(self, "files", tuple(sorted(self.files, key=lambda file: file.path)))
        check_together(file.path for file in self.files)

    @cached_property
    def _digest(self) -> str:
        return sha256(canonical(self.to_json(), what="manifest"))

    def digest(self) -> str:
        """`sha256:<hex>` of the manifest's canonical JSON (RFC 8785)."""
        return self._digest

    @property
    def bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return {"files": [file.to_json() for file in self.files]}

    @classmethod
    def from_json(cls, data: object) -> Manifest:
        """Read `{"files": [{"path", "size", "digest"}]}`.

        Raises:
            InvalidRequest: naming the field that is missing, of a wrong type, or not allowed.
        """
        files = data.get("files") if isinstance(data, Mapping) else None
        if not isinstance(files, list | tuple):
            raise InvalidRequest('A manifest is {"files": [{"path", "size", "digest"}, …]}.', field="files")
        return cls(tuple(_file_from_json(entry) for entry in files))

    @classmethod
    def of_folder(cls, folder: Path, *, keep: Callable[[str], bool] = lambda path: True) -> Manifest:
        """The manifest of the files in a folder and the folders below it, of those whose path is to be kept.

        Names that begin with a dot (`.git`, `.DS_Store`, `.env`) are left out, except `.eval_results`. A link
        to a file inside the folder counts as that file.

        Raises:
            InvalidRequest: it is not a folder, has no files, or one with a name that is not allowed.
            Refused: it holds a link that leads out of it or to a folder, or something that is neither file
                nor folder.
        """
        root = folder.resolve()
        if not root.is_dir():
            raise InvalidRequest(f"{folder} is not a folder.", field="folder")
        paths = [path for path in files_below(root, root) if keep(path.relative_to(root).as_posix())]
        if not paths:
            raise InvalidRequest(f"{folder} holds no files.", field="folder")
        return cls(tuple(_file_on_disk(root, path) for path in paths))


def _file_from_json(entry: object) -> BundleFile:
    if not isinstance(entry, Mapping) or set(entry) != {"path", "size", "digest"}:
        raise InvalidRequest("Each file of a manifest has exactly the fields path, size and digest.", field="files")
    return BundleFile(entry["path"], entry["size"], entry["digest"])


def _file_on_disk(root: Path, path: Path) -> BundleFile:
    name = path.relative_to(root).as_posix()
    check_path(name)
    return BundleFile(name, path.stat().st_size, digest_of_file(path))


def files_below(
    root: Path, folder: Path, *, within: Path | None = None, dots: frozenset[str] = KEPT_DOT_NAMES
) -> Iterator[Path]:
    """The files of a folder below `root`, but for names with a leading dot that are none of `dots`.

    Raises:
        Refused: a link leads out of `root`, or of `within`, or to a folder; something is neither file nor folder.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.name.startswith(".") and entry.name not in dots:
            continue
        if entry.is_symlink():
            _check_link(within or root, path)
            yield path
        elif entry.is_dir():
            yield from files_below(root, path, within=within, dots=dots)
        elif stat.S_ISREG(entry.stat().st_mode):
            yield path
        else:
            raise Refused(f"{path} is neither a file nor a folder; take it out of the bundle.")


def _check_link(root: Path, path: Path) -> None:
    target = Path(os.path.realpath(path))  # unlike resolve(), it does not raise for a link to itself
    if not target.is_relative_to(root):
        raise Refused(f"{path} is a link out of the folder; copy it with its links resolved first (cp -rL).")
    if not target.is_file():
        raise Refused(f"{path} is a link to something that is not a file; replace it by what it links to.")
