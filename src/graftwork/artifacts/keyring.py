"""Keyring: the keys that blobs are sealed under, one for each tenant, from a file that only the server reads."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graftwork.errors import InvalidRequest, Unavailable

KEY_BYTES = 32
ID_BYTES = 16


@dataclass(frozen=True)
class Keyring:
    """Keys by name; `current` seals what is put from now on, unless the tenant has one of its own in `tenants`.

    A key whose name changes is the same key: what was sealed remembers an id that is derived from the key itself. A
    key that is taken out makes unreadable whatever was sealed under it.

    Raises:
        InvalidRequest: naming the key that is no key, or is not there.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)
    tenants: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, key in self.keys.items():
            if len(key) != KEY_BYTES:
                raise _wrong(f"the key {name!r} is not {KEY_BYTES} bytes in base64 (openssl rand -base64 32)")
        for name in (self.current, *self.tenants.values()):
            if name not in self.keys:
                raise _wrong(f"it names the key {name!r}, which it does not have")

    @classmethod
    def read(cls, path: Path) -> Keyring:
        """The keyring of a file `{"current": NAME, "keys": {NAME: BASE64}, "tenants": {TENANT: NAME}}`.

        Raises:
            InvalidRequest: the file is not there or is none. Never with what stands in it.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as exc:
            raise _wrong(f"{path} cannot be read: {exc.strerror}") from exc
        except ValueError:  # not chained: it would show a piece of the file
            raise _wrong(f"{path} is not JSON") from None
        if not isinstance(data, dict) or not {"current", "keys"} <= set(data) <= {"current", "keys", "tenants"}:
            raise _wrong(f'{path} is not {{"current": NAME, "keys": {{NAME: BASE64}}, "tenants": {{TENANT: NAME}}}}')
        keys, tenants = data["keys"], data.get("tenants", {})
        if not isinstance(keys, dict) or not isinstance(tenants, dict):
            raise _wrong(f"in {path}, keys and tenants must be objects")
        decoded = {name: _decoded(text) for name, text in keys.items()}
        return cls(str(data["current"]), decoded, {tenant: str(name) for tenant, name in tenants.items()})

    def of_tenant(self, tenant: str) -> bytes:
        """The key that seals for a tenant."""
        return self.keys[self.tenants.get(tenant, self.current)]

    def with_id(self, wanted: bytes) -> bytes:
        """The key whose id this is.

        Raises:
            Unavailable: the keyring does not have it.
        """
        for key in self.keys.values():
            if id_of(key) == wanted:
                return key
        raise Unavailable(f"The blob is sealed under the key {wanted.hex()}, which is not in the keyring; put it back.")


def id_of(key: bytes) -> bytes:
    """What a sealed blob remembers of its key: 16 bytes that tell nothing about it."""
    return hashlib.sha256(b"graftwork key id\0" + key).digest()[:ID_BYTES]


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(f"The keyring cannot be used: {what}.", field="artifacts_keyring")
