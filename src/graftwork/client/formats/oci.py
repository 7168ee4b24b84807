"""The format `oci`: an OCI image layout with one artifact, by the media types of CNCF ModelPack.

Formats: OCI image-spec 1.1 (image-layout.md, manifest.md, annotations.md) and modelpack/model-spec. Each file is a
`raw` layer, so that its blob has the digest that it has here; its path is an annotation. Layers that are plain tars are
read too; compressed ones are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from graftwork.artifacts.digest import PREFIX, check_digest, hex_of
from graftwork.artifacts.packages.directory import ASIDE
from graftwork.artifacts.packages.limits import checked
from graftwork.artifacts.packages.package import RECORD, Json, Package
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.artifacts.packages.tar import read_tar
from graftwork.client.formats import folder, read_package, written
from graftwork.errors import Damaged, InvalidRequest, Refused
from graftwork.protocol.canonical import canonical

LAYOUT: Final = "oci-layout"
INDEX: Final = "index.json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT_TYPE: Final = "application/vnd.cncf.model.manifest.v1+json"
CONFIG_TYPE: Final = "application/vnd.cncf.model.config.v1+json"
#: ModelPack's key for a layer's path, and the one that ORAS unpacks by.
PATHS: Final = ("org.cncf.model.filepath", "org.opencontainers.image.title")
_IMAGE: Final = "org.opencontainers.image"
_VERSION: Final = "1.0.0"
_MAX_BYTES: Final = 16 << 20


def write(package: Package, card: str, aside: Path) -> dict[str, Piece]:
    files = sorted(folder.write(package, card, aside).items(), key=lambda one: (_kind(one[0]) != "weight", one[0]))
    layers = [_layer(path, piece) for path, piece in files]
    blobs = {hex_of(layer["digest"]): piece for layer, (_, piece) in zip(layers, files, strict=True)}
    config = _blob(blobs, aside, _config(package, [layer["digest"] for layer in layers]), CONFIG_TYPE)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": config,
        "layers": layers,
        "annotations": _annotations(package),
    }
    listed = _blob(blobs, aside, manifest, MANIFEST_TYPE) | {"artifactType": ARTIFACT_TYPE}
    if package.record.semver:
        listed["annotations"] = {f"{_IMAGE}.ref.name": package.record.semver}
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [listed]}
    told_by = {LAYOUT: {"imageLayoutVersion": _VERSION}, INDEX: index}
    pieces = {name: written(aside, name, canonical(value, what=name)) for name, value in told_by.items()}
    return pieces | {f"blobs/sha256/{name}": piece for name, piece in blobs.items()}


def read(pieces: Pieces) -> Package | None:
    if LAYOUT not in pieces or INDEX not in pieces:
        return None
    if (version := _json(pieces[LAYOUT], LAYOUT).get("imageLayoutVersion")) != _VERSION:
        raise Refused(f"The OCI layout has the version {str(version)[:40]!a}; {_VERSION} is read.")
    manifest = _manifest(pieces, _json(pieces[INDEX], INDEX))
    found = checked(_files(pieces, manifest), "The OCI artifact")
    if LAYOUT in found and RECORD not in found:
        raise Refused("The OCI artifact holds an OCI layout again; take that one out first.")
    return read_package(found, "The OCI artifact")[0]


def _manifest(pieces: Pieces, index: Json) -> Json:
    """The one manifest that the index lists."""
    listed = _list(index, "manifests", INDEX)
    if len(listed) != 1:
        raise Refused(
            f"The OCI layout holds {len(listed)} artifacts; one is imported at a time. Copy the one that you mean to a "
            "layout of its own, for example with `skopeo copy oci:DIR:TAG oci:OTHER:TAG`."
        )
    value = _json(_blob_of(pieces, listed[0], INDEX), "The OCI manifest")
    if "manifests" in value:
        raise Refused("The OCI layout holds an index of several platforms; an adapter has one manifest.")
    return value


def _files(pieces: Pieces, manifest: Json) -> Iterator[tuple[str, Piece]]:
    _blob_of(pieces, manifest.get("config"), "The config")  # which says nothing that is not in a file
    for at, layer in enumerate(_list(manifest, "layers", "The OCI manifest")):
        place = f"layers.{at}"
        piece, kind = _blob_of(pieces, layer, place), str(layer.get("mediaType"))
        if kind.endswith(".tar"):
            yield from read_tar(piece.path, of=piece).items()
            continue
        told = layer.get("annotations")
        path = next((told[key] for key in PATHS if told.get(key)), None) if isinstance(told, dict) else None
        if not isinstance(path, str) or kind.endswith(("+gzip", "+zstd")):
            raise Refused(f"{place} of the OCI manifest ({kind[:100]!a}) is no file with a path and no plain tar.")
        yield path, piece


def _blob_of(pieces: Pieces, descriptor: object, place: str) -> Piece:
    """The bytes that a descriptor means, checked."""
    if not isinstance(descriptor, dict):
        raise InvalidRequest(f"{place} of the OCI layout is no descriptor.", field="source")
    digest = check_digest(descriptor.get("digest"))
    piece = pieces.get(f"blobs/sha256/{hex_of(digest)}")
    if piece is None or piece.size != descriptor.get("size") or piece.digest() != digest:
        state = "is missing from" if piece is None else "has other bytes in"
        raise Damaged(f"The blob {digest} {state} the OCI layout; copy it again.")
    return piece


def _json(piece: Piece, what: str) -> Json:
    try:
        value = json.loads(piece.read(what, _MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what} is no JSON: {error}.", field="source") from error
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} is no JSON object.", field="source")
    return value


def _list(value: Json, name: str, place: str) -> list[Any]:
    found = value.get(name)
    if value.get("schemaVersion") != 2 or not isinstance(found, list):
        raise InvalidRequest(f"{place} is none of schema version 2 with a list of {name}.", field="source")
    return found


def _layer(path: str, piece: Piece) -> Json:
    return {
        "mediaType": f"application/vnd.cncf.model.{_kind(path)}.v1.raw",
        "digest": piece.digest(),
        "size": piece.size,
        "annotations": dict.fromkeys(PATHS, path),
    }


def _kind(path: str) -> str:
    if path.startswith(f"{ASIDE}/") or path.endswith((".md", ".txt")):
        return "doc"
    return "weight.config" if path.endswith((".json", ".jinja", ".model")) else "weight"


def _blob(blobs: dict[str, Piece], aside: Path, value: Json, kind: str) -> Json:
    text = canonical(value, what="OCI manifest")
    digest = PREFIX + hashlib.sha256(text.encode()).hexdigest()
    blobs[hex_of(digest)] = piece = written(aside, hex_of(digest), text)
    return {"mediaType": kind, "digest": digest, "size": piece.size}


def _config(package: Package, layers: list[str]) -> Json:
    """ModelPack's description of a model; the layers are as they are, so that their `diffIds` are their digests."""
    record, told = package.record, package.record.metadata
    descriptor: Mapping[str, Any] = {
        "name": record.adapter,
        "version": record.semver,
        "createdAt": record.created_at,
        "revision": record.digest,
        "authors": [told["author"]] if told.get("author") else None,
        "licenses": [told["license"]] if told.get("license") else None,
        "description": told.get("description"),
    }
    config = {"format": "safetensors", "architecture": record.base.architecture if record.base else None}
    return {
        "descriptor": {key: value for key, value in descriptor.items() if value},
        "config": {key: value for key, value in config.items() if value},
        "modelfs": {"type": "layers", "diffIds": layers},
    }


def _annotations(package: Package) -> dict[str, str]:
    record, told = package.record, package.record.metadata
    found = {
        "title": record.adapter,
        "version": record.semver,
        "created": record.created_at,
        "authors": told.get("author"),
        "description": told.get("description"),
        "licenses": told.get("license"),
        "revision": (told.get("code") or {}).get("commit"),
        "source": (told.get("code") or {}).get("repo"),
    }
    return {f"{_IMAGE}.{key}": str(value) for key, value in found.items() if value}
