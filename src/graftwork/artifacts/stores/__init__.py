"""Stores: where blobs lie; the contract of a store and the table of its implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores.form import PLAIN, Form
from graftwork.errors import InvalidRequest

#: By the scheme of their URLs. Import paths, so that a store costs nothing until it is used.
STORES: dict[str, str] = {
    "az": "graftwork.artifacts.stores.object:ObjectStore",
    "file": "graftwork.artifacts.stores.local:LocalStore",
    "gs": "graftwork.artifacts.stores.object:ObjectStore",
    "memory": "graftwork.artifacts.stores.memory:MemoryStore",
    "s3": "graftwork.artifacts.stores.object:ObjectStore",
}


class BlobStore(Protocol):
    """Immutable blobs by tenant and digest; safe to use from many threads and processes at once.

    Whether a blob is there is asked of the store each time, by its own name: never of a list or a memory.

    Every method raises InvalidRequest for a tenant that is no name or a digest that is no digest, and Unavailable
    when the store cannot be reached, read or written.
    """

    def put(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> int:
        """Store the bytes and return their number; a blob is there whole or not at all.

        Putting a blob that is there changes nothing, except that it repairs one whose stored bytes were
        damaged.

        Raises:
            Damaged: the chunks do not match the digest; nothing is stored.
        """
        ...

    def has(self, tenant: str, digest: str) -> int | None:
        """The blob's size in bytes, or None where this tenant has no such blob. Does not read the bytes."""
        ...

    def open(self, tenant: str, digest: str) -> Iterator[bytes]:
        """The blob's chunks, verified: the last one comes only when all match the digest.

        Raises:
            Damaged: while iterating, when the blob is missing or its bytes do not match.
        """
        ...

    def set_aside(self, tenant: str, digest: str) -> None:
        """Keep a damaged blob's bytes in the tenant's quarantine, for whoever wants to know; it is there no more.

        Does nothing where there is none, or where it is whole: since the caller looked, somebody else may have set the
        damaged one aside and put the right bytes.
        """
        ...

    def list(self, tenant: str, *, aside: bool = False) -> Iterator[Stored]:
        """The tenant's blobs, or those in its quarantine, with the bytes that they take; in any order.

        For cleaning up and for nothing else: what came or went while it is read may be in it or not.
        """
        ...

    def delete(self, tenant: str, digest: str, *, aside: bool = False) -> None:
        """Remove the blob, or the one in quarantine; does nothing where there is none."""
        ...

    def note(self, tenant: str) -> str | None:
        """What `set_note` wrote last beside the tenant's blobs; None where there is nothing."""
        ...

    def set_note(self, tenant: str, text: str) -> None:
        """Write a line down in plain, in place of the one before."""
        ...


def open_store(url: str, keyring: Path | None = None) -> BlobStore:
    """The store at a URL: `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.

    Args:
        keyring: file of the keys that blobs are sealed under; without it they are stored as they are.

    Raises:
        InvalidRequest: it is not the URL of a store, or carries more than a place (a password, a query); or the
            keyring cannot be used.
        Unavailable: it cannot be used as it is configured.
    """
    try:
        parts = urlsplit(url)
        module, name = STORES[parts.scheme].split(":")
    except (ValueError, KeyError) as exc:
        known = ", ".join(f"{scheme}://" for scheme in STORES if scheme != "memory")
        raise InvalidRequest(f"The artifacts URL must begin with one of {known}.", field="artifacts_url") from exc
    if parts.query or parts.fragment or "@" in parts.netloc or any(step in (".", "..") for step in url.split("/")):
        raise InvalidRequest(
            "The artifacts URL names a place and nothing else: no '?', '#', '..' or password. Credentials and options "
            "come from the environment.",
            field="artifacts_url",
        )
    made: Callable[[str, Form], BlobStore] = getattr(import_module(module), name).at
    return made(url, PLAIN if keyring is None else _sealed(keyring))


def _sealed(keyring: Path) -> Form:
    from graftwork.artifacts.keyring import Keyring

    try:
        from graftwork.artifacts.stores.sealed import Sealed
    except ImportError as exc:
        raise InvalidRequest(
            "Sealing artifacts needs the package cryptography: pip install cryptography.",
            field="artifacts_keyring",
        ) from exc
    return Sealed(Keyring.read(keyring))
