"""push_version: sends what a server lacks of a bundle, and registers it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import httpx

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.client.uploads import missing, upload_all
from graftwork.client.wire import Json, Wire
from graftwork.errors import Conflict, Damaged

#: How often a push begins again when stored files go bad, or are collected, while it goes on.
_ATTEMPTS = 3


def push_version(
    wire: Wire,
    name: str,
    manifest: Manifest,
    pieces: Pieces,
    *,
    version: str | None,
    metadata: Mapping[str, object],
    headers: Mapping[str, str] | None = None,
) -> Json:
    """The version that `manifest`, whose files lie in `pieces`, was registered as, with `created`."""
    body = {"manifest": manifest.to_json(), "version": version, "metadata": dict(metadata)}
    for last in (False,) * _ATTEMPTS + (True,):
        upload_all(wire, pieces, missing(wire, manifest))
        try:
            place = f"/api/v1/adapters/{quote(name, safe='')}/versions"
            response = wire.send("POST", place, json=body, headers=dict(headers or {}))
            return {**response.json(), "created": response.status_code == httpx.codes.CREATED}
        except Damaged:  # a stored file went bad: the same bytes again repair it
            if last:
                raise
            upload_all(wire, pieces, manifest.files)
        except Conflict:
            if last or not missing(wire, manifest):  # else they were collected as this went on
                raise
    raise AssertionError("the last attempt returns or raises")


def pieces_below(root: Path, manifest: Manifest) -> Pieces:
    """The files of a manifest in the folder that it was made of."""
    return {file.path: Piece(root / file.path, 0, file.size) for file in manifest.files}
