"""FormStore: serving forms on the local disk, one checked blob per version, so that a load is one copy."""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from graftwork.access.tenants import check_tenant
from graftwork.adapters.outline import Outline
from graftwork.artifacts.disk_budget import DiskBudget, Kept
from graftwork.artifacts.partial import partial_folder, sweep
from graftwork.engine.form_blob import FORM_FORMAT, Key, blob_of, image_in
from graftwork.engine.form_head import SUFFIX
from graftwork.engine.form_image import FormImage
from graftwork.version import __version__

log = logging.getLogger(__name__)


class FormStore:
    """Owns the blobs of one folder, `<root>/<tenant>/<key>.form`; many threads and processes may share it.

    What a form depends on is its key: the version, the base with all that its outline says, the dtype, the largest rank
    that is accepted, and the number of forms; a blob with another key is never read. A blob appears whole or not at
    all. When they take more than `max_bytes`, those that were not read for longest go, of the tenant that holds most.
    """

    def __init__(self, root: Path, max_bytes: int, outline: Outline, dtype: torch.dtype, max_rank: int) -> None:
        self._root = root
        self._budget = DiskBudget(max_bytes, self._found, _removed)
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
        if blob is None or sum(map(len, blob)) > self._budget.max_bytes:
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
        self._budget.wrote(sum(map(len, blob)))
        return True

    def find(self, tenant: str, digest: str) -> Kept | None:
        """A version's blob; None where there is none."""
        return _kept(self._path(tenant, digest))

    def remove(self, tenant: str, digest: str) -> None:
        """Forget the form of a version."""
        _removed(self._path(tenant, digest))
        self._budget.took()

    @property
    def used_bytes(self) -> int:
        """Bytes of all blobs, as far as is known without looking each time."""
        return self._budget.used

    def _path(self, tenant: str, digest: str) -> Path:
        key = json.dumps(self._key_of(digest), sort_keys=True).encode()
        return self._root / check_tenant(tenant) / f"{hashlib.sha256(key).hexdigest()}{SUFFIX}"

    def _key_of(self, digest: str) -> Key:
        return {"version": digest, **self._key}

    def _found(self) -> Iterator[Kept]:
        for path in self._root.glob(f"*/*{SUFFIX}"):
            if (kept := _kept(path)) is not None:
                yield kept


def _kept(path: Path) -> Kept | None:
    try:
        found = path.stat()
    except OSError:  # another process removed it
        return None
    return Kept(path.parent.name, path, found.st_size, found.st_mtime)


def _removed(path: Path) -> bool:
    """Whether it is gone; a load that maps it keeps what it mapped."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # not ours to remove
        return False
    return True
