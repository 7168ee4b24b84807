"""download: fetches a file by its digest and checks it; one that breaks off goes on where it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import digest_of_file
from graftwork.client.uploads import PAUSES_S
from graftwork.client.wire import Wire
from graftwork.errors import Damaged, Unavailable


def download(wire: Wire, path: Path, file: BundleFile) -> None:
    """Bring the file to `path`; what lies there already is its beginning.

    Raises:
        Damaged: the server's bytes are missing or wrong; what has come, if anything, is not the whole file.
        Unavailable: the server was away for too long; what has come stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pauses, furthest = iter(PAUSES_S), -1
    while (have := _size(path)) != file.size or not path.exists():
        if have > furthest:
            furthest, pauses = have, iter(PAUSES_S)
        try:
            _append(wire, path, file, have if have < file.size else 0)
            if _size(path) != file.size:
                break
        except Unavailable:
            if _size(path) <= have:  # nothing came: is it the server, or the file?
                _check_stored(wire, file)
                if (pause := next(pauses, None)) is None:
                    raise
                time.sleep(pause)
    if _size(path) != file.size or digest_of_file(path) != file.digest:
        path.unlink()
        raise Damaged(f"{file.path} did not come as its digest says; fetch it again.")


def _append(wire: Wire, path: Path, file: BundleFile, begin: int) -> None:
    headers = {"range": f"bytes={begin}-"} if begin else {}
    response = wire.send("GET", f"/api/v1/blobs/{file.digest}", headers=headers, stream=True)
    whole = response.status_code != httpx.codes.PARTIAL_CONTENT
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if whole else os.O_APPEND)
    try:
        with os.fdopen(os.open(path, flags, 0o644), "wb") as out:
            for chunk in response.iter_raw():
                out.write(chunk)
                if out.tell() > file.size:  # whatever else it sends
                    break
    except httpx.TransportError as error:
        raise Unavailable(f"The connection broke while {file.path} came: {error}.") from error
    finally:
        response.close()


def _check_stored(wire: Wire, file: BundleFile) -> None:
    try:
        state = wire.json("POST", f"/api/v1/blobs/{file.digest}/verify")["state"]
    except Unavailable:
        return
    if state != "ok":
        raise Damaged(f"{file.path} ({file.digest}) is {state} in the store. Push the same files again to repair it.")


def _size(path: Path) -> int:
    return path.lstat().st_size if os.path.lexists(path) else 0
