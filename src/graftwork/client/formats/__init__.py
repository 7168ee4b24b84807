"""Formats: how a package is laid out for others to read; the contract of one and the table of all."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from graftwork.artifacts.packages.package import Package
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.errors import InvalidRequest, Refused

#: In the order in which a source is tried: what has a record of ours, what marks itself, and what any PEFT folder is.
FORMATS: Final = {
    "folder": "graftwork.client.formats.folder",
    "oci": "graftwork.client.formats.oci",
    "mlflow": "graftwork.client.formats.mlflow",
    "hub": "graftwork.client.formats.hub",
}


class Format(Protocol):
    """A module with these functions; the bytes of an adapter's files are never changed."""

    def write(self, package: Package, card: str, aside: Path) -> dict[str, Piece]:
        """Every file of the format by its path, the record among them; what is new is written to the folder `aside`.

        Args:
            card: the version's model card, for formats that have one.
        """
        ...

    def read(self, pieces: Pieces) -> Package | None:
        """The package in these files; None where they are of another format.

        Raises:
            InvalidRequest: they are of this format, and something in it cannot be read.
            Refused: they hold what is not taken. Damaged: bytes are not those that the format names.
        """
        ...


def format_of(name: str) -> Format:
    """The format called so; raises InvalidRequest."""
    if name not in FORMATS:
        raise InvalidRequest(f"The format {name[:80]!a} is none of {', '.join(sorted(FORMATS))}.", field="format")
    return cast(Format, import_module(FORMATS[name]))


def read_package(pieces: Pieces, source: str) -> tuple[Package, str]:
    """The package in files, and the name of its format; raises as `Format.read`."""
    for name in FORMATS:
        if (package := format_of(name).read(pieces)) is not None:
            return package, name
    raise Refused(
        f"{source} holds no adapter: no adapter_config.json, no MLmodel, no oci-layout and no package of ours."
    )


def written(aside: Path, name: str, text: str) -> Piece:
    """A new file of a format, as a piece."""
    path = aside / name.replace("/", "_")
    path.write_bytes(text.encode())
    return Piece.of_file(path)
