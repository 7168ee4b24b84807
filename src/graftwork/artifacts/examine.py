"""examine: whether a stored blob is there and whole; one that is damaged is set aside."""

from __future__ import annotations

from typing import Literal

from graftwork.artifacts.digest import arrives
from graftwork.artifacts.stores import BlobStore

State = Literal["ok", "missing", "damaged"]


def examine(store: BlobStore, tenant: str, digest: str) -> State:
    """Read a blob from end to end.

    Damage is believed when it was read twice, since once it may have come on the way. Then the blob is set aside, so
    that whoever pushes these bytes again is asked for them.

    Raises:
        InvalidRequest: the digest is none. Unavailable: the store cannot be read.
    """
    for _ in range(2):
        if store.has(tenant, digest) is None:
            return "missing"
        if arrives(store.open(tenant, digest)):
            return "ok"
    store.set_aside(tenant, digest)
    return "damaged"
