"""Principal: who is asking, as the server knows it; never what a client says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from graftwork.access.roles import ALL, Right
from graftwork.access.tenants import LOCAL


@dataclass(frozen=True)
class Principal:
    """The owner of a key, or whoever asks where no keys were set up."""

    tenant: str
    #: What the event log calls it.
    name: str
    #: The person behind the request, by their key or as a trusted proxy says it.
    user: str | None = None
    #: The public part of the API key; None without one.
    key: str | None = None
    rights: frozenset[Right] = ALL


LOCAL_ADMIN = Principal(LOCAL, LOCAL)
