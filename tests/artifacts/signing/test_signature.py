"""Signatures: ours are model-signing's and its are ours; whatever was changed, they hold no more."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_signing import hashing, signing, verifying

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.signing.keys import read_private, read_public
from graftwork.artifacts.signing.signature import MAX_SIGNATURE_BYTES, sign, verify
from graftwork.artifacts.signing.statement import statement_of
from graftwork.errors import Refused
from support.keys import KEYS, Pair

CURVES = [name for name in KEYS if name != "ed25519"]  # model-signing takes no Ed25519


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files whose order by name differs from that by the parts of their paths."""
    root = tmp_path / "tone"
    for path in ("adapter_config.json", "a-b", "a/b", "a/c.txt", "é.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def signed(folder: Path, keys: Pair) -> bytes:
    return sign(Manifest.of_folder(folder), "tone:1.0.0", read_private(keys.private))


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_what_was_signed_verifies_under_its_key_and_no_other(folder: Path, keys: Pair) -> None:
    signature, manifest = signed(folder, keys), Manifest.of_folder(folder)
    verify(signature, manifest, read_public(keys.public))
    for other in KEYS.values():
        if other is not keys:
            with pytest.raises(Refused, match="another key"):
                verify(signature, manifest, read_public(other.public))


@pytest.mark.parametrize("name", CURVES)
def test_model_signing_verifies_ours(folder: Path, tmp_path: Path, name: str) -> None:
    public, signature = tmp_path / "public.pem", tmp_path / "tone.sig"
    public.write_bytes(KEYS[name].public)
    signature.write_bytes(signed(folder, KEYS[name]))
    verifying.Config().use_elliptic_key_verifier(public_key=public).verify(folder, signature)
    (folder / "a-b").write_text("changed")
    with pytest.raises(ValueError, match="a-b"):
        verifying.Config().use_elliptic_key_verifier(public_key=public).verify(folder, signature)


@pytest.mark.parametrize("name", CURVES)
def test_we_verify_what_model_signing_signed(folder: Path, tmp_path: Path, name: str) -> None:
    private = tmp_path / "private.pem"
    private.write_bytes(KEYS[name].private)
    inside = folder / "model.sig"  # where its command line leaves it
    signing.Config().use_elliptic_key_signer(private_key=private).set_hashing_config(
        hashing.Config().set_ignored_paths(paths=[inside])
    ).sign(folder, inside)
    verify(inside.read_bytes(), Manifest.of_folder(folder), read_public(KEYS[name].public))
    (folder / "model.sig.old").write_bytes(inside.read_bytes() + b" ")
    with pytest.raises(Refused, match=r"model\.sig\.old is there and was not signed"):
        verify(inside.read_bytes(), Manifest.of_folder(folder), read_public(KEYS[name].public))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: (root / "a-b").write_text("x"), "a-b has other bytes"),
        (lambda root: (root / "a-b").unlink(), "a-b was signed and is not there"),
        (lambda root: (root / "new").write_text("x"), "new is there and was not signed"),
        (lambda root: (root / "a-b").rename(root / "b-a"), "a-b was signed and is not there"),
    ],
)
def test_another_versions_signature_does_not_hold(folder: Path, change: Callable[[Path], object], said: str) -> None:
    signature = signed(folder, KEYS["p256"])
    change(folder)
    with pytest.raises(Refused, match=said):
        verify(signature, Manifest.of_folder(folder), read_public(KEYS["p256"].public))


def payload(bundle: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Change the statement without signing it anew."""
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    change(statement)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()


TAMPERED: dict[str, Callable[[dict[str, Any]], object]] = {
    "digest": lambda b: payload(b, lambda s: s["predicate"]["resources"][0].update(digest="0" * 64)),
    "file left out": lambda b: payload(b, lambda s: s["predicate"]["resources"].pop()),
    "blanks": lambda b: b["dsseEnvelope"].update(
        payload=base64.b64encode(base64.b64decode(b["dsseEnvelope"]["payload"]) + b" ").decode()
    ),
    "payload type": lambda b: b["dsseEnvelope"].update(payloadType="text/plain"),
    "media type": lambda b: b.update(mediaType="application/json"),
    "no signature": lambda b: b["dsseEnvelope"].update(signatures=[]),
    "two signatures": lambda b: b["dsseEnvelope"].update(signatures=b["dsseEnvelope"]["signatures"] * 2),
    "empty signature": lambda b: b["dsseEnvelope"]["signatures"][0].update(sig=""),
    "no base64": lambda b: b["dsseEnvelope"]["signatures"][0].update(sig="*"),
    "no text": lambda b: b["dsseEnvelope"].update(payload=7),
    "no envelope": lambda b: b.pop("dsseEnvelope"),
    "another key's name": lambda b: b["verificationMaterial"]["publicKey"].update(hint="0" * 64),
    "no material": lambda b: b.update(verificationMaterial=[]),
}  # fmt: skip


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_signature_is_refused(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    bundle = json.loads(signed(folder, KEYS["ed25519"]))
    change(bundle)
    with pytest.raises(Refused):
        verify(json.dumps(bundle).encode(), Manifest.of_folder(folder), read_public(KEYS["ed25519"].public))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"[" + b"[]," * 200_000 + b"1]", b" " * (MAX_SIGNATURE_BYTES + 1)],
)
def test_what_is_no_signature_file_is_refused(raw: bytes) -> None:
    manifest = Manifest((BundleFile("x", 1, "sha256:" + "0" * 64),))
    with pytest.raises(Refused, match="signature file"):
        verify(raw, manifest, read_public(KEYS["ed25519"].public))


STATEMENTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another predicate": lambda s: s.update(predicateType="https://slsa.dev/provenance/v1"),
    "shards": lambda s: s["predicate"]["serialization"].update(method="shards"),
    "another hash": lambda s: s["predicate"]["serialization"].update(hash_type="blake3"),
    "a hash of its own": lambda s: s["predicate"]["resources"][0].update(algorithm="md5"),
    "a file twice": lambda s: s["predicate"]["resources"].append(s["predicate"]["resources"][0]),
    "another root": lambda s: s["subject"][0]["digest"].update(sha256="0" * 64),
    "no subject": lambda s: s.update(subject=[]),
    "no predicate": lambda s: s.pop("predicate"),
    "odd digest": lambda s: s["predicate"]["resources"][0].update(digest="xyz"),
    "numbers": lambda s: s["predicate"]["resources"][0].update(name=1),
}


@pytest.mark.parametrize("change", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_that_says_something_else_is_refused_though_it_is_signed(
    folder: Path, change: Callable[[dict[str, Any]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(manifest: Manifest, name: str) -> bytes:
        statement = json.loads(statement_of(manifest, name))
        change(statement)
        return json.dumps(statement).encode()

    monkeypatch.setattr("graftwork.artifacts.signing.signature.statement_of", changed)
    bundle = signed(folder, KEYS["ed25519"])
    with pytest.raises(Refused):
        verify(bundle, Manifest.of_folder(folder), read_public(KEYS["ed25519"].public))
