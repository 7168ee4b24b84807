"""FormStore: serving forms on the local disk, one checked blob per version, so that a load is one copy."""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from graftwork.access.tenants import check_tenant
from graftwork.adapters.outline import Outline
from graftwork.artifacts.partial import partial_folder, sweep
from graftwork.engine.form_blob import FORM_FORMAT, Key, blob_of, image_in
from graftwork.engine.form_image import FormImage
from graftwork.version import __version__

log = logging.getLogger(__name__)

_SUFFIX = ".form"


class FormStore:
    """Owns the blobs of one folder, `<root>/<tenant>/<key>.form`; many threads and processes may share it.

    What a form depends on is its key: the version, the base with all that its outline says, the dtype, the largest rank
    that is accepted, and the number of forms; a blob with another key is never read. A blob appears whole or not at
    all. When they take more than `max_bytes`, those that were not read for longest go.
    """

    def __init__(self, root: Path, max_bytes: int, outline: Outline, dtype: torch.dtype, max_rank: int) -> None:
        self._root, self._max_bytes = root, max_bytes
        self._widths = np.array([(site.in_features, site.out_features) for site in outline.linears], np.int64)
        self._dtype = dtype
        told = json.dumps(asdict(replace(outline, base="")), sort_keys=True).encode()  # a base may answer to any name
        self._key = {
            "form": FORM_FORMAT,
            "software": __version__,
            "base": outline.weights_digest,
            "outline": hashlib.sha256(told).hexdigest(),
            "dtype": str(dtype).removeprefix("torch."),
            "max_rank": max_rank,
        }
        self._lock = threading.Lock()
        self._unseen = self._room = 0  # bytes written since the last look through the folder, and how many may be
        sweep(root)

    def read(self, tenant: str, digest: str) -> FormImage | None:
        """The form of a version, as a view of its mapped blob; None where there is none, or it is damaged."""
        path = self._path(tenant, digest)
        try:
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError):  # missing, or empty
            return None
        with suppress(OSError):  # another user's, or removed meanwhile: what is mapped is whole all the same
            os.utime(path)
        try:
            return image_in(mapped, self._key_of(digest), self._dtype, self._widths)
        except (ValueError, LookupError, TypeError, ImportError, RuntimeError) as error:
            log.warning("The serving form %s is damaged and is made anew: %s", path, error)
            return None

    def write(self, tenant: str, digest: str, image: FormImage) -> bool:
        """Keep the form of a version; False where it cannot be described, or the disk does not take it."""
        blob = blob_of(image, self._key_of(digest))
        if blob is None or sum(map(len, blob)) > self._max_bytes:
            return False
        path = self._path(tenant, digest)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=partial_folder(self._root), ignore_cleanup_errors=True) as scratch:
                fresh = Path(scratch) / path.name
                with fresh.open("xb") as out:
                    out.writelines(blob)
                fresh.replace(path)
        except OSError as error:
            log.warning("The serving form %s cannot be written, so it is made again at each load: %s", path, error)
            return False
        self._make_room(path, sum(map(len, blob)))
        return True

    def _path(self, tenant: str, digest: str) -> Path:
        key = json.dumps(self._key_of(digest), sort_keys=True).encode()
        return self._root / check_tenant(tenant) / f"{hashlib.sha256(key).hexdigest()}{_SUFFIX}"

    def _key_of(self, digest: str) -> Key:
        return {"version": digest, **self._key}

    def _make_room(self, kept: Path, written: int) -> None:
        """Look through the folder when a sixteenth of it was written since then; free as much where it is full."""
        with self._lock:
            self._unseen += written
            step = self._max_bytes // 16
            if self._unseen <= self._room:
                return
            found = sorted(_sizes(self._root))
            total = sum(size for _, _, size in found)
            most = self._max_bytes - step if total > self._max_bytes else self._max_bytes
            for _, path, size in found:
                if total > most and path != kept:
                    with suppress(OSError):
                        path.unlink()
                    total -= size
            self._unseen, self._room = 0, max(0, min(step, self._max_bytes - total))


def _sizes(root: Path) -> Iterator[tuple[float, Path, int]]:
    """When each blob was last read, which it is, and its bytes."""
    for path in root.glob(f"*/*{_SUFFIX}"):
        with suppress(OSError):  # another process removed it
            found = path.stat()
            yield found.st_mtime, path, found.st_size
