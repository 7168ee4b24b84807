"""Package: one version outside of any registry: its files, its record, and what was kept with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.digest import hex_of
from graftwork.artifacts.packages.directory import ASIDE
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.errors import Damaged, InvalidRequest
from graftwork.protocol.canonical import canonical
from graftwork.protocol.packages import PackageRecord

Json = dict[str, Any]
RECORD: Final = f"{ASIDE}/record.json"
BLOBS: Final = f"{ASIDE}/blobs"
#: Where the adapter's own files lie, beside the top: in the folder that MLflow has for them.
BELOW: Final = "peft/"
_MAX_RECORD_BYTES: Final = 16 << 20
_MAX_EVALUATION_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Package:
    """What travels. Nothing in it was trusted: the pieces are those that the record names, by their bytes."""

    record: PackageRecord
    files: Pieces  #: those of the manifest, by path
    kept: Mapping[str, Piece] = field(default_factory=dict)  #: documents, signatures, evaluations, by digest
    measured: Sequence[Json] = ()  #: evaluations that another tool wrote down, read from its files
    origin: Mapping[str, Any] = field(default_factory=dict)  #: what the format says of where it is from

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest.from_json(self.record.manifest)

    def evaluations(self) -> Iterator[Json]:
        """Each as the body that was kept; raises InvalidRequest where one is no JSON object."""
        for one in self.record.evaluations:
            yield _object(self.kept[one.digest].read("An evaluation", _MAX_EVALUATION_BYTES))
        yield from self.measured

    def text(self) -> str:
        """The record, in the one form that it has."""
        return canonical(self.record.model_dump(mode="json", exclude_none=True), what="record")


def named_by(record: PackageRecord) -> list[BundleFile]:
    """Everything that lies beside the record, each digest once; raises InvalidRequest for what is no digest."""
    told = [(one.digest, one.size) for one in (*record.evaluations, *record.evaluation_files)]
    told += [(one.digest, one.size) for one in record.documents]
    told += [(one.bundle, one.size) for one in record.signatures]
    return [BundleFile(f"{BLOBS}/{hex_of(digest)}", size, digest) for digest, size in sorted(set(told))]


def laid_out(package: Package, *, below: str = "", taken: str = "") -> dict[str, Piece]:
    """The package's pieces by path: its files below `below`; what else there is, and a file at `taken`, aside.

    The record itself is still to be added.
    """
    pieces = {f"{BLOBS}/{hex_of(digest)}": piece for digest, piece in package.kept.items()}
    for file in package.manifest.files:
        path = below + file.path
        is_free = path.casefold() != taken.casefold() and path.split("/")[0].casefold() != ASIDE
        pieces[path if is_free else f"{BLOBS}/{hex_of(file.digest)}"] = package.files[file.path]
    return pieces


def recorded(pieces: Pieces) -> Package | None:
    """The package that pieces with a record are, every byte of it checked; None where there is no record.

    Raises:
        InvalidRequest: the record cannot be read. Damaged: it or other bytes are missing, or not those that it names.
    """
    if RECORD not in pieces:
        if any(path.startswith(f"{ASIDE}/") for path in pieces):
            raise Damaged(f"The package is not whole: {RECORD} is missing. Export it again.")
        return None
    try:
        record = PackageRecord.read(pieces[RECORD].read(RECORD, _MAX_RECORD_BYTES))
    except InvalidRequest as error:
        raise InvalidRequest(f"{RECORD} cannot be read: {error.message}", field="source") from error
    manifest = Manifest.from_json(record.manifest)
    if manifest.digest() != record.digest:
        raise Damaged(f"{RECORD} contradicts itself: its files are not those of the version {record.digest[:80]}.")
    files = {file.path: _found(pieces, file) for file in manifest.files}
    return Package(record, files, {file.digest: _found(pieces, file) for file in named_by(record)})


def plain(pieces: Pieces, *, origin: Mapping[str, Any], metadata: Json, measured: Sequence[Json] = ()) -> Package:
    """The package that an adapter's files make, where nothing is recorded of it."""
    manifest = Manifest(tuple(BundleFile(path, piece.size, piece.digest()) for path, piece in pieces.items()))
    record = PackageRecord(digest=manifest.digest(), manifest=manifest.to_json(), metadata=metadata)
    return Package(record, pieces, measured=measured, origin=origin)


def _found(pieces: Pieces, file: BundleFile) -> Piece:
    """Where the bytes of `file` lie: under its own name, or aside."""
    names = (file.path, BELOW + file.path, f"{BLOBS}/{hex_of(file.digest)}")
    for name in names:
        piece = pieces.get(name)
        if piece is not None and piece.size == file.size and piece.digest() == file.digest:
            return piece
    what = "has other bytes than its record says" if any(name in pieces for name in names) else "is missing"
    raise Damaged(f"The package is not whole: {file.path} {what}. Export it again.")


def _object(raw: bytes) -> Json:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"An evaluation in the package is no JSON: {error}.", field="source") from error
    if not isinstance(value, dict):
        raise InvalidRequest("An evaluation in the package is no JSON object.", field="source")
    return value
