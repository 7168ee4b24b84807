"""Signature files: a statement in a DSSE envelope in a Sigstore bundle, as PyPI's model-signing writes and reads it.

The bundle names its public key by the SHA-256 of its PEM; it holds neither key nor certificate
(github.com/secure-systems-lab/dsse, docs.sigstore.dev/about/bundle).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, Final

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import PREFIX, hex_of
from graftwork.artifacts.signing.keys import PrivateKey, PublicKey
from graftwork.artifacts.signing.statement import check_same_files, signed_files, statement_of
from graftwork.errors import Refused
from graftwork.protocol.body import read_text

MAX_SIGNATURE_BYTES: Final = 8 << 20
MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def sign(manifest: Manifest, name: str, key: PrivateKey) -> bytes:
    """The signature file of `key` over the files of `manifest`."""
    statement = statement_of(manifest, name)
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hex_of(key.public.fingerprint)}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(key.sign(_encoded(statement))).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode()


def verify(signature: bytes, manifest: Manifest, key: PublicKey) -> None:
    """Check that a signature file is one of `key`, over exactly the files of `manifest`.

    Raises:
        Refused: saying what does not hold: the file is none, the key is another, the bytes were changed, or other
            files were signed.
    """
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise Refused(f"The signature file has more than {MAX_SIGNATURE_BYTES} bytes.")
    payload, signed = _read(signature, key)
    if not key.holds(signed, _encoded(payload)):
        raise Refused(f"The signature does not hold under the key {key.fingerprint}: the file was changed.")
    own = PREFIX + hashlib.sha256(signature).hexdigest()
    check_same_files(signed_files(_json(payload)), manifest, apart=own)


def _read(signature: bytes, key: PublicKey) -> tuple[bytes, bytes]:
    """Statement and signature in a bundle that says it is of `key`."""
    bundle = _json(signature)
    try:
        envelope = bundle["dsseEnvelope"]
        [entry] = envelope["signatures"]
        payload, signed = (base64.b64decode(text, validate=True) for text in (envelope["payload"], entry["sig"]))
        told = (bundle["mediaType"], envelope["payloadType"])
        hint = (bundle["verificationMaterial"].get("publicKey") or {}).get("hint")
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as exc:
        raise Refused("This is no signature file: it is not a Sigstore bundle with a DSSE envelope.") from exc
    if told != (MEDIA_TYPE, PAYLOAD_TYPE):
        raise Refused(f"The signature file is not of the types {MEDIA_TYPE} and {PAYLOAD_TYPE}.")
    if hint is not None and hint != hex_of(key.fingerprint):
        raise Refused(f"The signature is of another key ({str(hint)[:80]}), not of {key.fingerprint}.")
    return payload, signed


def _json(raw: bytes) -> dict[str, Any]:
    try:
        value = read_text(raw.decode())
    except ValueError as exc:
        raise Refused("This is no signature file: it is not JSON, or has too many parts.") from exc
    if not isinstance(value, dict):
        raise Refused("This is no signature file: it is not a JSON object.")
    return value


def _encoded(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
