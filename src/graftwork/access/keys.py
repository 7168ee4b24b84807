"""API keys: `gw_<public id>_<secret>`. What is kept is a SHA-256 of the whole; the key itself is shown once.

A plain hash is enough: the secret is 256 random bits, so that there is nothing to guess, and no slow hash to wait for.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sqlalchemy import Row

from graftwork.access.roles import Role, Scope

PREFIX: Final = "gw"
_ID_BYTES, _SECRET_BYTES = 8, 32
_TOKEN: Final = re.compile(r"gw_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
KeyState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True)
class Key:
    """What is known of one key: all but its secret."""

    tenant: str
    id: str
    #: What people call it.
    name: str
    role: Role
    scopes: tuple[Scope, ...]
    #: Whose key it is: then it can do no more than their role. None for a program's.
    user: str | None
    #: The first of the keys that replaced one another; the event log knows a program by it.
    family: str
    created_at: str
    created_by: str
    expires_at: str | None = None
    revoked_at: str | None = None
    #: What a request with it means that names nothing, in place of what its tenant says.
    default_route: str | None = None
    hash: str = field(default="", repr=False)

    @classmethod
    def from_row(cls, row: Row[Any]) -> Key:
        return cls(**{**row._mapping, "scopes": tuple(row.scopes.split())})

    def state(self, now: str) -> KeyState:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def to_json(self, now: str) -> dict[str, Any]:
        """What may be shown: neither the hash nor anything it was made of."""
        told = {key: value for key, value in vars(self).items() if key not in ("tenant", "hash", "family")}
        return told | {"scopes": list(self.scopes), "state": self.state(now)}


def new_key() -> tuple[str, str]:
    """A new public id, and the whole key."""
    public = secrets.token_hex(_ID_BYTES)
    return public, f"{PREFIX}_{public}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def hash_of(token: str) -> str:
    """What is kept of a key: 64 hex digits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


#: Compared with where there is no such key, so that the same work is done.
_NONE: Final = hash_of("")


def public_id(token: str) -> str:
    """The public id in a key; "", which no key has, where it is not written like one."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else ""


def is_it(token: str, key: Key | None) -> bool:
    """Whether this is the whole of `key`; takes as long where there is no such key."""
    held = _NONE if key is None else key.hash
    return hmac.compare_digest(hash_of(token), held) and key is not None
