"""Packages: takes versions out of a registry with all that is kept with them, and brings them into another."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import digest_of_file, hex_of
from graftwork.artifacts.packages.directory import write_directory
from graftwork.artifacts.packages.package import Package, named_by
from graftwork.artifacts.packages.piece import Piece
from graftwork.artifacts.packages.tar import write_tar
from graftwork.client.documents import place_of
from graftwork.client.downloads import download
from graftwork.client.folders import is_free, partial, take_place
from graftwork.client.formats import format_of, written
from graftwork.client.importing import check_signatures, checked_kept, metadata_of, named
from graftwork.client.pushes import push_version
from graftwork.client.signatures import manifest_of
from graftwork.client.sources import opened
from graftwork.client.uploads import upload
from graftwork.client.wire import Json, Wire
from graftwork.errors import Conflict, GraftworkError, InvalidRequest, NotFound, Refused, Unavailable
from graftwork.protocol.canonical import canonical
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.protocol.packages import PackageRecord
from graftwork.protocol.registry import MAX_BLOBS


class Packages:
    """`client.packages`.

    >>> client.packages.export("sentiment:1.0.0", "sentiment.tar")  # doctest: +SKIP
    >>> other.packages.import_("sentiment.tar")  # doctest: +SKIP
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def export(self, reference: str, target: str | Path, *, format: str = "folder") -> Json:
        """Write a version to a new folder, or to a tar where `target` ends in `.tar`; the same state, the same bytes.

        What comes lies in a hidden folder beside it until all of it is there; after a broken connection the next call
        goes on from it. Returns the version with `target`, and of a tar with `target_digest`.

        Args:
            format: `folder`, `hub`, `oci` or `mlflow`.

        Raises:
            Conflict: something lies at `target`, or somebody else is writing there.
            Damaged: stored bytes are missing or wrong.
        """
        target, as_format = Path(target), format_of(format)
        if not is_free(target):
            raise Conflict(f"{target} is there already; choose another place.")
        version = self._wire.json("GET", "/api/v1/versions", params={"reference": reference})
        with _stage(target) as stage:
            package = self._gathered(version, stage)
            aside, made = _fresh(stage / "aside"), stage / "made"
            aside.mkdir()
            pieces = as_format.write(package, self._card(version), aside)
            (write_tar if target.suffix == ".tar" else write_directory)(pieces, _fresh(made))
            take_place(made, target)
        digest = {"target_digest": digest_of_file(target)} if target.is_file() else {}
        return {**version, "format": format, "target": str(target), **digest}

    def import_(self, source: str | Path, reference: str | None = None, *, public_key: bytes | None = None) -> Json:
        """Register what a folder, a tar, `hf://ORG/NAME[@REVISION]` or MLflow's `models:/…` and `runs:/…` hold.

        It is a push: the same checks, and the same bytes again change nothing. Its metadata say where it is from, under
        `labels.imported_from`. Then what was kept with it is added, as far as it is not there; where that breaks off,
        the next call goes on. Returns the version, with `created`, what was added, and `notes` of what could not be.

        Args:
            reference: `NAME[:SEMVER]`; what the package says where you say nothing.
            public_key: in PEM; refuse what has no valid signature of this key.

        Raises:
            InvalidRequest: the source cannot be read, or does not say what to call the version.
            Refused: it holds what is not taken, is for another base, has a signature that does not hold, or cannot be
                served rightly.
            Damaged: it is not whole.
        """
        with opened(str(source)) as (package, origin):
            name, semver = named(package, str(source), reference, self._is_here)
            self._check_base(package.record)
            check_signatures(package, public_key)
            evaluations = checked_kept(package)
            metadata, notes = Json(), list[str]()
            if not self._is_here(f"{name}@{package.record.digest}"):  # of what is here the metadata stay
                metadata, notes = metadata_of(package, origin, self._is_here)
            version = push_version(self._wire, name, package.manifest, package.files, version=semver, metadata=metadata)
            return {**version, **self._add_kept(version, package, evaluations), "notes": notes}

    # Out

    def _gathered(self, version: Json, stage: Path) -> Package:
        """The version with everything that is kept with it, on the disk below `stage`."""
        manifest, blobs = manifest_of(version), stage / "blobs"
        blobs.mkdir(exist_ok=True)
        evaluations = [self._kept_here(one["evaluation"], blobs) for one in self._evaluations(version)]
        signatures = self._wire.json("GET", f"{place_of(version)}/signatures")["signatures"]
        record = PackageRecord.model_validate(
            {
                "adapter": version["adapter"],
                "semver": version["semver"],
                "digest": version["digest"],
                "manifest": manifest.to_json(),
                "metadata": version["metadata"] or {},
                "base": {"name": version["base"], "weights_digest": version["base_digest"], **self._base(version)},
                "created_at": version["created_at"],
                "created_by": version["created_by"],
                "documents": [_content(one) for one in self._added(version)],
                "signatures": [{key: one[key] for key in ("bundle", "size", "public_key")} for one in signatures],
                "evaluations": [one for one, _ in evaluations],
                "evaluation_files": [file for _, files in evaluations for file in files],
            }
        )
        wanted = [*manifest.files, *named_by(record)]
        held = {file.digest: self._blob(file, blobs) for file in wanted}
        files = {file.path: held[file.digest] for file in manifest.files}
        return Package(record, files, {file.digest: held[file.digest] for file in named_by(record)})

    def _blob(self, file: BundleFile, blobs: Path) -> Piece:
        path = blobs / hex_of(file.digest)
        download(self._wire, path, file)
        return Piece(path, 0, file.size)

    def _evaluations(self, version: Json) -> list[Json]:
        """Those that count, in the order in which they were kept."""
        found = self._wire.pages(f"{place_of(version)}/evaluations", "evaluations")
        return [one for one in reversed(found) if one["superseded_by"] is None]

    def _kept_here(self, evaluation: Json, blobs: Path) -> tuple[Json, list[Json]]:
        """The file of an evaluation, and those that it names."""
        piece = written(blobs, "evaluation", text := _text(evaluation))
        piece.path.rename(blobs / hex_of(digest := piece.digest()))
        named = EvaluationBody.read(text.encode()).blobs()
        return {"digest": digest, "size": piece.size}, [{"digest": one, "size": self._size(one)} for _, one in named]

    def _size(self, digest: str) -> int:
        return int(self._wire.send("HEAD", f"/api/v1/blobs/{digest}").headers["x-graftwork-blob-size"])

    def _added(self, version: Json) -> list[Json]:
        found = self._wire.pages(f"{place_of(version)}/documents", "documents")
        return [one for one in found if one["source"] == "added"]

    def _card(self, version: Json) -> str:
        return self._wire.send("GET", f"{place_of(version)}/card").text

    def _base(self, version: Json) -> Mapping[str, str | None]:
        """What the registry knows of the version's base beside its name and digest."""
        try:
            params = {"digest": version["base_digest"]}
            base = self._wire.json("GET", f"/api/v1/bases/{version['base']}", params=params)
        except NotFound:
            base = {}
        return {key: base.get(key) for key in ("source", "revision", "architecture")}

    # In

    def _check_base(self, record: PackageRecord) -> None:
        """Before anything is sent; the server checks again, against the bytes."""
        if record.base is None:
            return
        here = self._wire.json("GET", "/api/v1/base")
        if here["weights_digest"] != record.base.weights_digest:
            raise Refused(
                f"The package is for the base {record.base.name} with the weights {record.base.weights_digest}; this "
                f"server has {here['name']} with {here['weights_digest']}. An adapter is bound to its base."
            )

    def _is_here(self, reference: str) -> bool:
        try:
            self._wire.json("GET", "/api/v1/versions", params={"reference": reference})
        except (NotFound, InvalidRequest):
            return False
        return True

    def _add_kept(self, version: Json, package: Package, evaluations: list[Json]) -> Json:
        """Add what is kept with a version, each only where it is not there; how much was added."""
        record, place = package.record, place_of(version)
        here = [_content(one) for one in self._wire.pages(f"{place}/documents", "documents", superseded="true")]
        measured = [one["evaluation"] for one in self._wire.pages(f"{place}/evaluations", "evaluations")]
        known = {_text(one) for one in measured}
        bodies = {
            "documents": [told for one in record.documents if (told := one.model_dump()) not in here],
            "signatures": [{"bundle": one.bundle, "public_key": one.public_key} for one in record.signatures],
            "evaluations": [one for one in evaluations if _text(one) not in known],
        }
        self._send(package, {one["digest"] for one in bodies["documents"]})
        self._send(package, {one.bundle for one in record.signatures} | {one.digest for one in record.evaluation_files})
        added = {door: [self._post(f"{place}/{door}", one) for one in found] for door, found in bodies.items()}
        return {"added": {door: sum(answers) for door, answers in added.items()}}

    def _send(self, package: Package, digests: Set[str]) -> None:
        """Send those of the pieces that are not there."""
        blobs = [{"digest": digest, "size": package.kept[digest].size} for digest in sorted(digests)]
        for begin in range(0, len(blobs), MAX_BLOBS):
            body = {"blobs": blobs[begin : begin + MAX_BLOBS]}
            for digest in self._wire.json("POST", "/api/v1/blobs/missing", json=body)["missing"]:
                piece = package.kept[digest]
                upload(self._wire, piece, BundleFile("kept", piece.size, digest))

    def _post(self, place: str, body: Mapping[str, Any]) -> bool:
        return self._wire.send("POST", place, json=body).status_code == 201


def _text(evaluation: Json) -> str:
    """An evaluation in its one form, without the number of one that it corrects, which means nothing elsewhere."""
    return canonical({key: value for key, value in evaluation.items() if key != "supersedes"}, what="evaluation")


def _content(document: Json) -> Json:
    return {key: document[key] for key in ("kind", "name", "media_type", "size", "digest", "note")}


@contextmanager
def _stage(target: Path) -> Iterator[Path]:
    """Where an export gathers; it stays only where the connection broke, or this process was killed."""
    with partial(target) as stage:
        try:
            yield stage
        except Unavailable:
            raise
        except (GraftworkError, OSError):
            shutil.rmtree(stage, ignore_errors=True)
            raise
        shutil.rmtree(stage, ignore_errors=True)


def _fresh(path: Path) -> Path:
    """The path, without what an earlier attempt left there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path
