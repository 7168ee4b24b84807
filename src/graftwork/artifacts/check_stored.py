"""check_stored: whether a store has every file of a bundle."""

from __future__ import annotations

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores import BlobStore
from graftwork.errors import Conflict

_SHOWN = 20


def check_stored(store: BlobStore, tenant: str, manifest: Manifest) -> None:
    """Raises Conflict where blobs are missing or have another size; it lists them: upload them, and ask again."""
    missing = [file for file in manifest.files if store.has(tenant, file.digest) != file.size]
    if missing:
        listed = "; ".join(_missing(store, tenant, file) for file in missing[:_SHOWN])
        rest = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise Conflict(f"Upload these blobs, then push again: {listed}{rest}.")


def _missing(store: BlobStore, tenant: str, file: BundleFile) -> str:
    stored = store.has(tenant, file.digest)
    why = "" if stored is None else f" (stored with {stored} bytes, the manifest says {file.size})"
    return f"{file.path} {file.digest}{why}"
