"""Keys: only those that sign safely are taken, and no message shows one."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from graftwork.artifacts.signing.keys import MAX_PEM_BYTES, read_private, read_public
from graftwork.errors import InvalidRequest
from support.keys import KEYS, Pair

OTHERS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "dsa": dsa.generate_private_key(1024),
    "secp256k1": ec.generate_private_key(ec.SECP256K1()),
    "p224": ec.generate_private_key(ec.SECP224R1()),
    "ed448": ed448.Ed448PrivateKey.generate(),
    "x25519": x25519.X25519PrivateKey.generate(),
}
#: Points of Ed25519 with a small order, and one of them written in another way.
WEAK = [
    bytes(32),
    b"\x01" + bytes(31),
    b"\xec" + b"\xff" * 30 + b"\x7f",
    b"\xee" + b"\xff" * 30 + b"\x7f",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_key_is_the_same_however_it_is_read(keys: Pair) -> None:
    assert read_private(keys.private).public.fingerprint == read_public(keys.public).fingerprint
    assert keys.private.decode().splitlines()[1] not in repr(read_private(keys.private).public)


@pytest.mark.parametrize("key", OTHERS.values(), ids=OTHERS)
def test_other_sorts_of_keys_are_refused(key: rsa.RSAPrivateKey) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InvalidRequest, match=r"Ed25519|cannot sign"):
        read_private(private)
    with pytest.raises(InvalidRequest, match="Ed25519"):
        read_public(public)


@pytest.mark.parametrize("raw", WEAK, ids=range(len(WEAK)))
def test_a_key_under_which_anybody_signs_is_refused(raw: bytes) -> None:
    weak = ed25519.Ed25519PublicKey.from_public_bytes(raw)
    with pytest.raises(InvalidRequest, match="anybody"):
        read_public(weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def test_an_encrypted_key_says_how_to_go_on() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(InvalidRequest, match=r"encrypted.*openssl pkey"):
        read_private(pem)


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        (b"", "no key"),
        (b"\xff\x00", "no key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no key"),
        (b" " * (MAX_PEM_BYTES + 1), "at most"),
        (KEYS["p256"].private, "private key; give the public one"),
    ],
)
def test_what_is_no_public_key_is_said_and_not_shown(pem: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        read_public(pem)
    assert "AAAA" not in caught.value.message


def test_a_public_key_does_not_sign() -> None:
    with pytest.raises(InvalidRequest, match="only verifies"):
        read_private(KEYS["ed25519"].public)
