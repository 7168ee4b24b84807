"""Vault: turns what was said into keyed hashes, and seals it where it is kept; one key of each for every tenant.

A plain hash of a short prompt is found by trying, so hashes are HMAC-SHA256: under a key derived from the tenant's in
the keyring, or, without a keyring, under a secret in the database, which hides nothing from who can read that. A sealed
text is AES-256-GCM under another derived key, bound to its tenant and request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import zlib
from collections.abc import Callable
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from graftwork.artifacts.keyring import ID_BYTES, KEY_BYTES, Keyring, id_of
from graftwork.errors import Damaged, Unavailable

NONCE_BYTES: Final = 12
#: The hash of a tenant's content.
Hasher = Callable[[bytes], str]
_HASHES, _TEXTS = b"graftwork record hashes\0", b"graftwork record texts\0"


class Vault:
    """For use from any thread; without a keyring it only hashes."""

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring

    @property
    def can_seal(self) -> bool:
        return self._keyring is not None

    def hasher(self, tenant: str, secret: bytes) -> Hasher:
        """Hashes a tenant's contents: `hmac-sha256:<key id>:<hex>`; `secret` counts where there is no keyring."""
        master = self._keyring.of_tenant(tenant) if self._keyring is not None else secret
        key, name = _derived(master, _HASHES, tenant), id_of(master).hex()[:8]
        return lambda content: f"hmac-sha256:{name}:{hmac.new(key, content, hashlib.sha256).hexdigest()}"

    def seal(self, tenant: str, request_id: str, said: Any) -> str:
        """JSON, sealed: base64 of key id, nonce and ciphertext."""
        assert self._keyring is not None, "it was refused where it was asked for"
        master, nonce = self._keyring.of_tenant(tenant), os.urandom(NONCE_BYTES)
        packed = zlib.compress(content_of(said))
        sealed = AESGCM(_derived(master, _TEXTS, tenant)).encrypt(nonce, packed, _place(tenant, request_id))
        return base64.b64encode(id_of(master) + nonce + sealed).decode()

    def open(self, tenant: str, request_id: str, sealed: str) -> Any:
        """What was sealed.

        Raises:
            Unavailable: the keyring does not have its key.
            Damaged: it is not what was sealed here.
        """
        raw = base64.b64decode(sealed)
        named, nonce, rest = raw[:ID_BYTES], raw[ID_BYTES : ID_BYTES + NONCE_BYTES], raw[ID_BYTES + NONCE_BYTES :]
        if self._keyring is None:
            raise Unavailable("What was said is sealed, and this server has no keyring; put artifacts_keyring back.")
        master = self._keyring.with_id(named)
        try:
            plain = AESGCM(_derived(master, _TEXTS, tenant)).decrypt(nonce, rest, _place(tenant, request_id))
        except InvalidTag:
            raise Damaged(f"The stored text of request {request_id} is not what was sealed.") from None
        return json.loads(zlib.decompress(plain))


def content_of(said: Any) -> bytes:
    """The bytes that are hashed: JSON with sorted keys and no blanks, in UTF-8."""
    text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _derived(master: bytes, purpose: bytes, tenant: str) -> bytes:
    key: bytes = HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose + tenant.encode()).derive(master)
    return key


def _place(tenant: str, request_id: str) -> bytes:
    return f"{tenant}/{request_id}".encode()
