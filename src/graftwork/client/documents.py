"""Documents: adds and reads companions of a version, its model card and its bill of materials."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import digest_of_file, verified
from graftwork.artifacts.packages.piece import Piece
from graftwork.client.answers import translated
from graftwork.client.uploads import upload, upload_bytes
from graftwork.client.wire import Json, Wire
from graftwork.errors import InvalidRequest

_BYTES = "application/octet-stream"
_CARD = {"kind": "model_card", "name": "README.md", "media_type": "text/markdown"}


class Documents:
    """`client.documents`: what is kept with a version and changes nothing of what it serves."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def add(
        self,
        reference: str,
        file: str | Path,
        *,
        kind: str,
        name: str | None = None,
        media_type: str | None = None,
        note: str = "",
        idempotency_key: str | None = None,
    ) -> Json:
        """Add a file to a version under its own name or another; one of the same kind and name is superseded.

        Returns the document, with `created` false where its last revision is the same.

        Raises:
            InvalidRequest: it is no file or its name is not allowed, or it changed while it was sent.
        """
        path = Path(file)
        if not path.is_file():
            raise InvalidRequest(f"{path} is not a file.", field="file")
        name = path.name if name is None else name
        sent = BundleFile(name, path.stat().st_size, digest_of_file(path))
        content = {"kind": kind, "name": name, "media_type": media_type or _guessed(name), "note": note}
        place = version_place(self._wire, reference)
        blob = {"digest": sent.digest, "size": sent.size}
        if self._wire.json("POST", "/api/v1/blobs/missing", json={"blobs": [blob]})["missing"]:
            upload(self._wire, Piece(path, 0, sent.size), sent)
        return self._record(place, {**content, **blob}, idempotency_key)

    def list(self, reference: str, *, kind: str | None = None, superseded: bool = False) -> Sequence[Json]:
        """A version's documents, those of its bundle first; with `superseded` every revision."""
        options = {"kind": kind or "", "superseded": str(superseded).lower()}
        return self._wire.pages(f"{version_place(self._wire, reference)}/documents", "documents", **options)

    def get(self, reference: str, document: str) -> Json:
        """One document by its id, without its bytes."""
        return self._wire.json("GET", self._place(reference, document))

    @contextmanager
    def content(self, reference: str, document: str) -> Iterator[Iterator[bytes]]:
        """The document's bytes while they come, checked: the last ones only when all match its digest."""
        place = self._place(reference, document)
        digest = self._wire.json("GET", place)["digest"]
        response = self._wire.send("GET", f"{place}/content", stream=True)
        try:
            yield verified(translated(response.iter_bytes()), digest, what=f"Document {document}")
        finally:
            response.close()

    def card(self, reference: str) -> str:
        """The version's model card: generated, around the last one that people wrote."""
        return self._wire.send("GET", f"{version_place(self._wire, reference)}/card").text

    def edit_card(self, reference: str, card: str, *, note: str = "") -> Json:
        """Make `card` what people wrote; raises InvalidRequest where its front matter cannot be read."""
        data, place = card.encode(), version_place(self._wire, reference)
        content = {**_CARD, "note": note, "size": len(data), "digest": upload_bytes(self._wire, data)}
        return self._record(place, content, None)

    def bom(self, reference: str) -> Json:
        """The version's bill of materials, in CycloneDX 1.6."""
        return self._wire.json("GET", f"{version_place(self._wire, reference)}/bom")

    def _record(self, place: str, body: Json, key: str | None) -> Json:
        headers = {} if key is None else {"idempotency-key": key}
        response = self._wire.send("POST", f"{place}/documents", json=body, headers=headers)
        return {**response.json(), "created": response.status_code == 201}

    def _place(self, reference: str, document: str) -> str:
        return f"{version_place(self._wire, reference)}/documents/{quote(document, safe='')}"


def _guessed(name: str) -> str:
    media_type, compressed_by = mimetypes.guess_type(name)
    return _BYTES if media_type is None or compressed_by else media_type


def version_place(wire: Wire, reference: str) -> str:
    """The path of the version that a reference means now."""
    version = wire.json("GET", "/api/v1/versions", params={"reference": reference})
    return place_of(version)


def place_of(version: Json) -> str:
    return f"/api/v1/adapters/{quote(version['adapter'], safe='')}/versions/{version['digest']}"
