"""Stores: where blobs lie; the contract of a store and the table of its implementations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Protocol

from graftwork.errors import InvalidRequest

#: Import paths, so that a store costs nothing until it is used.
STORES: dict[str, str] = {
    "local": "graftwork.artifacts.stores.local:LocalStore",
    "memory": "graftwork.artifacts.stores.memory:MemoryStore",
}


class BlobStore(Protocol):
    """Immutable blobs by tenant and digest; safe to use from many threads and processes at once.

    Every method raises InvalidRequest for a tenant that is no name or a digest that is no digest.
    """

    def put(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> int:
        """Store the bytes and return their number; a blob is there whole or not at all.

        Putting a blob that is there changes nothing, except that it repairs one whose stored bytes were
        damaged.

        Raises:
            Damaged: the chunks do not match the digest; nothing is stored.
            Unavailable: the store cannot be written.
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

    def delete(self, tenant: str, digest: str) -> None:
        """Remove the blob; does nothing where there is none."""
        ...


def load_store(kind: str) -> type:
    """The class of a store of this kind.

    Raises:
        InvalidRequest: there is no such kind.
    """
    if kind not in STORES:
        raise InvalidRequest(f"There is no store {kind!r}; there are: {', '.join(sorted(STORES))}.", field="store")
    module, name = STORES[kind].split(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, type), f"{STORES[kind]} is not a class"
    return found
