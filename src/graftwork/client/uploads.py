"""upload: sends a file under its digest; a large one goes on where a broken connection left it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.digest import PREFIX
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.client.wire import Wire
from graftwork.errors import Conflict, Unavailable

#: Up to this size, in bytes, a file that breaks off is simply sent again.
WHOLE_BYTES = 8 << 20
#: Pauses, in seconds, between attempts that get no further: longer together than a server waits for a silent client.
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)


def missing(wire: Wire, manifest: Manifest) -> list[BundleFile]:
    """Those files of a bundle that the server lacks, each content once."""
    files = {file.digest: file for file in manifest.files}
    blobs = [{"digest": file.digest, "size": file.size} for file in files.values()]
    return [files[digest] for digest in wire.json("POST", "/api/v1/blobs/missing", json={"blobs": blobs})["missing"]]


def upload_all(wire: Wire, pieces: Pieces, files: Iterable[BundleFile]) -> None:
    """Send files, which lie in `pieces` by their paths; raises as `upload`."""
    for file in files:
        upload(wire, pieces[file.path], file)


def upload(wire: Wire, piece: Piece, file: BundleFile) -> None:
    """Send a piece of a file, which is what `file` says it is.

    Raises:
        InvalidRequest: its bytes are no longer those.
        Unavailable: the server was away for too long.
    """
    assert piece.size == file.size, "whoever made the manifest looked at the piece"
    if file.size > WHOLE_BYTES:
        _upload_resumably(wire, piece, file)
        return
    headers = {"content-length": str(file.size), "content-type": "application/octet-stream"}
    wire.send("PUT", f"/api/v1/blobs/{file.digest}", content=piece.chunks(), headers=headers)


def upload_bytes(wire: Wire, data: bytes) -> str:
    """Send bytes that lie in memory; their digest."""
    digest = PREFIX + hashlib.sha256(data).hexdigest()
    wire.send("PUT", f"/api/v1/blobs/{digest}", content=data, headers={"content-type": "application/octet-stream"})
    return digest


def _upload_resumably(wire: Wire, piece: Piece, file: BundleFile) -> None:
    door = f"/api/v1/blobs/{file.digest}/upload"
    pauses, furthest, sent = iter(PAUSES_S), 0, False
    while True:
        try:
            state = wire.send("HEAD", door).headers
            complete = state["upload-complete"] == "?1"
            if complete and sent:  # the answer to the last bytes was lost
                return
            offset = 0 if complete else int(state["upload-offset"])  # what is there complete is to be replaced
            if offset > file.size:
                wire.send("DELETE", door)
                offset = 0
            if offset > furthest:
                furthest, pauses = offset, iter(PAUSES_S)
            headers = {
                "content-length": str(file.size - offset),
                "content-type": "application/partial-upload",
                "upload-offset": str(offset),
                "upload-complete": "?1",
            }
            sent = True
            wire.send("PATCH", door, content=piece.after(offset).chunks(), headers=headers)
            return
        except (Conflict, Unavailable):  # somebody else sends it, or the connection broke
            if (pause := next(pauses, None)) is None:
                raise
            time.sleep(pause)
