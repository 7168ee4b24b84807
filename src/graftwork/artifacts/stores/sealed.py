"""Sealed: blobs encrypted before they leave this process, each under a key of its own (envelope encryption).

    head    "grftwrk1" · key id (16) · nonce (12) · the blob's key, wrapped under its tenant's (32 + 16)
    chunks  of 1 MiB, each AES-256-GCM with its tag (16); the nonce is the chunk's number and whether it is the last

The tenant's key is derived from the keyring's by HKDF-SHA256. The wrapping covers tenant and digest, so a sealed blob
opens in its own place only; number and end in the nonce (the STREAM construction, Hoang et al. 2015,
eprint.iacr.org/2015/189) let no chunk be moved, left out or added.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from graftwork.artifacts.keyring import ID_BYTES, KEY_BYTES, Keyring, id_of
from graftwork.artifacts.stores.form import pieces
from graftwork.errors import Damaged

MAGIC: Final = b"grftwrk1"
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
HEAD_BYTES: Final = len(MAGIC) + ID_BYTES + NONCE_BYTES + KEY_BYTES + TAG_BYTES
CHUNK_BYTES: Final = 1 << 20


class Sealed:
    """A `Form`."""

    folder: Final = "sealed"

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def stored(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        master, key, nonce = self._keyring.of_tenant(tenant), os.urandom(KEY_BYTES), os.urandom(NONCE_BYTES)
        bound = MAGIC + id_of(master) + nonce
        yield bound + AESGCM(_derived(master, tenant)).encrypt(nonce, key, _place(bound, tenant, digest))
        cipher = AESGCM(key)
        for number, last, piece in _numbered(pieces(chunks, CHUNK_BYTES)):
            yield cipher.encrypt(_nonce(number, last), piece, None)

    def plain(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        rest = iter(chunks)
        head = bytearray()
        while len(head) < HEAD_BYTES and (chunk := next(rest, None)) is not None:
            head += chunk
        try:
            cipher = AESGCM(self._key(tenant, digest, bytes(head[:HEAD_BYTES])))
            sealed = pieces(chain([bytes(head[HEAD_BYTES:])], rest), CHUNK_BYTES + TAG_BYTES)
            for number, last, piece in _numbered(sealed):
                yield cipher.decrypt(_nonce(number, last), piece, None)
        except InvalidTag:
            raise Damaged(f"Blob {digest} of {tenant}: its sealed bytes were changed. Upload its file again.") from None

    def plain_size(self, size: int) -> int:
        chunks = max(1, -(-(size - HEAD_BYTES) // (CHUNK_BYTES + TAG_BYTES)))
        return size - HEAD_BYTES - chunks * TAG_BYTES

    def _key(self, tenant: str, digest: str, head: bytes) -> bytes:
        bound, wrapped = head[: -KEY_BYTES - TAG_BYTES], head[-KEY_BYTES - TAG_BYTES :]
        if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
            raise InvalidTag
        master = self._keyring.with_id(bound[len(MAGIC) : -NONCE_BYTES])
        cipher = AESGCM(_derived(master, tenant))
        key: bytes = cipher.decrypt(bound[-NONCE_BYTES:], wrapped, _place(bound, tenant, digest))
        return key


def _derived(master: bytes, tenant: str) -> bytes:
    info = b"graftwork tenant key\0" + tenant.encode()
    key: bytes = HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(master)
    return key


def _place(bound: bytes, tenant: str, digest: str) -> bytes:
    return bound + f"{tenant}/{digest}".encode()


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(NONCE_BYTES - 1) + bytes([last])


def _numbered(parts: Iterator[bytes]) -> Iterator[tuple[int, bool, bytes]]:
    """Each piece with its number and whether it is the last; one empty piece where there is none."""
    held, number = next(parts, b""), 0
    for part in parts:
        yield number, False, held
        held, number = part, number + 1
    yield number, True, held
