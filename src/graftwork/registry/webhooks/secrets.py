"""Secrets: what deliveries are signed with, by Standard Webhooks; sealed where the server has a keyring."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from typing import Final

from graftwork.artifacts.keyring import Keyring
from graftwork.errors import Damaged

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
_SEALED: Final = "sealed:"


def new_secret() -> str:
    """`whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def signature(secret: str, message: str, seconds: int, body: bytes) -> str:
    """`v1,` and the HMAC-SHA256 of id, time and body (standardwebhooks.com, "Signature scheme").

    Args:
        message: the id of the delivery.
        seconds: when it is sent, since 1970.
    """
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.digest(key, f"{message}.{seconds}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


class Secrets:
    """Between a secret and what is stored of it; without a keyring these are the same."""

    def __init__(self, keyring: Keyring | None = None) -> None:
        self._keyring = keyring

    def seal(self, tenant: str, place: str, secret: str) -> str:
        """For this tenant and place: it opens nowhere else."""
        if self._keyring is None:
            return secret
        from graftwork.artifacts.stores.sealed import Sealed  # it needs an extra

        sealed = b"".join(Sealed(self._keyring).stored(tenant, place, [secret.encode()]))
        return _SEALED + base64.b64encode(sealed).decode()

    def open(self, tenant: str, place: str, stored: str) -> str:
        """Raises Damaged where the key is not here any more, or the row was changed."""
        if not stored.startswith(_SEALED):
            return stored
        if self._keyring is None:
            raise _unreadable()
        from graftwork.artifacts.stores.sealed import Sealed
        from graftwork.errors import Unavailable

        try:
            sealed = base64.b64decode(stored.removeprefix(_SEALED))
            return b"".join(Sealed(self._keyring).plain(tenant, place, [sealed])).decode()
        except (Unavailable, Damaged, ValueError):
            raise _unreadable() from None


def _unreadable() -> Damaged:
    return Damaged("The secret cannot be opened with the keyring of this server; put the key back, or rotate it.")
