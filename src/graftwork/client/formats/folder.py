"""The format `folder`: exactly the adapter's files, as PEFT reads them, and everything else in `.graftwork`."""

from __future__ import annotations

from pathlib import Path

from graftwork.artifacts.packages.package import RECORD, Package, laid_out, recorded
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.client.formats import written


def write(package: Package, card: str, aside: Path) -> dict[str, Piece]:
    return {**laid_out(package), RECORD: written(aside, RECORD, package.text())}


def read(pieces: Pieces) -> Package | None:
    return recorded(pieces)
