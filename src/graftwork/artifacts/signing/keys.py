"""Keys: Ed25519 and the NIST curves, read from PEM; a private key never leaves the process that reads it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from graftwork.errors import InvalidRequest

MAX_PEM_BYTES: Final = 16 << 10
#: Elliptic curves by their name, with what is hashed for them (FIPS 186-5): those of model signing.
CURVES: Final = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
ED25519: Final = "ed25519"
#: y of the Ed25519 points of order 1, 2, 4 and 8: under such a key anybody signs.
_PRIME: Final = 2**255 - 19
_Y_OF_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_WEAK_Y: Final = frozenset({0, 1, _PRIME - 1, _Y_OF_ORDER_8, _PRIME - _Y_OF_ORDER_8})


@dataclass(frozen=True)
class PublicKey:
    """A key that signatures are checked with."""

    algorithm: str  #: `ed25519` or the curve
    pem: str  #: as SubjectPublicKeyInfo
    _key: Any

    @property
    def fingerprint(self) -> str:
        """`sha256:<hex>` of the PEM text: `openssl pkey -pubin -in public.pem | sha256sum`."""
        return f"sha256:{hashlib.sha256(self.pem.encode()).hexdigest()}"

    def holds(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is one of this key over `message`."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message, *_scheme(self.algorithm))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs; its repr tells nothing of it."""

    public: PublicKey
    _key: Any

    def sign(self, message: bytes) -> bytes:
        signature: bytes = self._key.sign(message, *_scheme(self.public.algorithm))
        return signature


def read_public(pem: bytes) -> PublicKey:
    """The public key in a PEM text.

    Raises:
        InvalidRequest: it is none, or of a sort that is not taken. Never with what stands in it.
    """
    if b"PRIVATE KEY" in pem:
        raise _wrong("this is a private key; give the public one: openssl pkey -in PRIVATE.pem -pubout")
    return _public(_loaded(pem, "load_pem_public_key"))


def read_private(pem: bytes) -> PrivateKey:
    """The private key in a PEM text; raises as `read_public`."""
    if b"PUBLIC KEY" in pem:
        raise _wrong("this is a public key, which only verifies; sign with the private one")
    key = _loaded(pem, "load_pem_private_key", None)
    if not hasattr(key, "sign"):
        raise _wrong("a key of this sort cannot sign")
    return PrivateKey(_public(key.public_key()), key)


def _loaded(pem: bytes, loader: str, *password: None) -> Any:
    if len(pem) > MAX_PEM_BYTES:
        raise _wrong(f"a PEM text has at most {MAX_PEM_BYTES} bytes")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
    except ImportError as exc:
        raise InvalidRequest(
            "Signatures need the package cryptography: pip install cryptography.", field="key"
        ) from exc
    try:
        return getattr(serialization, loader)(pem, *password)
    except TypeError:
        raise _wrong(
            "it is encrypted, and no pass phrase is asked for; decrypt it to a file that only you can read: "
            "openssl pkey -in PRIVATE.pem"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong("this is no key in PEM, or one of a sort that is not known") from None


def _public(key: Any) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if isinstance(key, Ed25519PublicKey):
        algorithm = ED25519
        if _is_weak(key.public_bytes_raw()):
            raise _wrong("under this Ed25519 key anybody can sign (its point has a small order)")
    elif isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVES:
        algorithm = key.curve.name
    else:
        raise _wrong("it must be an Ed25519 key or one on the curve P-256, P-384 or P-521")
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
    return PublicKey(algorithm, pem, key)


def _is_weak(raw: bytes) -> bool:
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)
    return y % _PRIME in _WEAK_Y


def _scheme(algorithm: str) -> tuple[Any, ...]:
    if algorithm == ED25519:
        return ()
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return (ec.ECDSA(getattr(hashes, CURVES[algorithm])()),)


def _wrong(why: str) -> InvalidRequest:
    return InvalidRequest(f"The key cannot be used: {why}.", field="key")
