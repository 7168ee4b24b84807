"""Keys, one of each sort, made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@dataclass(frozen=True)
class Pair:
    """A key as its owner keeps it, and as everybody may have it."""

    private: bytes
    public: bytes


def pair(key: Any) -> Pair:
    return Pair(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


KEYS = {
    "ed25519": pair(ed25519.Ed25519PrivateKey.generate()),
    "p256": pair(ec.generate_private_key(ec.SECP256R1())),
    "p384": pair(ec.generate_private_key(ec.SECP384R1())),
    "p521": pair(ec.generate_private_key(ec.SECP521R1())),
}
