"""Signatures: signs and verifies versions here, with keys that never leave this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.signing.keys import PublicKey, read_private, read_public
from graftwork.artifacts.signing.signature import sign, verify
from graftwork.client.documents import place_of
from graftwork.client.uploads import upload_bytes
from graftwork.client.wire import Json, Wire
from graftwork.errors import Damaged, InvalidRequest, Refused


class Signatures:
    """`client.signatures`: who vouches for the files of a version."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def sign(self, reference: str, private_key: bytes, *, folder: str | Path | None = None) -> Json:
        """Sign a version with a private key in PEM, which stays here, and record the signature.

        Args:
            folder: where you have the files yourself: it is signed only if the version has exactly these.

        Raises:
            InvalidRequest: the key is none, encrypted, or of a sort that is not taken.
            Refused: the version has other files than `folder`.
        """
        key, version = read_private(private_key), self._version(reference)
        manifest = manifest_of(version)
        if folder is not None and Manifest.of_folder(Path(folder)).digest() != manifest.digest():
            raise Refused(f"{_label(version)} has other files than {folder}; nothing was signed.")
        return self._add(version, sign(manifest, _label(version), key), key.public)

    def add(self, reference: str, bundle: bytes, public_key: bytes) -> Json:
        """Record a signature file that was made elsewhere, by PyPI's model-signing for example.

        Raises:
            Refused: it is not one of that key over exactly the version's files.
        """
        key, version = read_public(public_key), self._version(reference)
        verify(bundle, manifest_of(version), key)
        return self._add(version, bundle, key)

    def list(self, reference: str) -> Sequence[Json]:
        """A version's signatures, in the order they were added."""
        return self._of(self._version(reference))

    def bundle(self, reference: str, number: int) -> bytes:
        """The signature file with that number, as model-signing reads it."""
        return self._bundle(self._version(reference), number)

    def verify(self, reference: str, public_key: bytes | None = None) -> Sequence[Json]:
        """Check every signature of a version here, against the files that the registry says it has.

        With a key, those of that key; without one, each under the key that was recorded with it, which says that it
        holds, not that you know whose key it is. `state` is `valid`, `invalid` (then `reason` says why) or `other key`.
        """
        return self.check(self._version(reference), None if public_key is None else read_public(public_key))

    def check(self, version: Json, key: PublicKey | None) -> Sequence[Json]:
        """As `verify`, of a version that was read already."""
        return [self._checked(version, record, key) for record in self._of(version)]

    def _checked(self, version: Json, record: Json, key: PublicKey | None) -> Json:
        told = {"version": _label(version), **record}
        try:
            used = key or read_public(record["public_key"].encode())
            if used.fingerprint != record["fingerprint"]:
                return {**told, "state": "other key"}
            verify(self._bundle(version, record["number"]), manifest_of(version), used)
        except (Refused, Damaged, InvalidRequest) as error:
            return {**told, "state": "invalid", "reason": error.message}
        return {**told, "state": "valid"}

    def _version(self, reference: str) -> Json:
        return self._wire.json("GET", "/api/v1/versions", params={"reference": reference})

    def _of(self, version: Json) -> Sequence[Json]:
        found: Sequence[Json] = self._wire.json("GET", f"{place_of(version)}/signatures")["signatures"]
        return found

    def _bundle(self, version: Json, number: int) -> bytes:
        return self._wire.send("GET", f"{place_of(version)}/signatures/{number}/bundle").content

    def _add(self, version: Json, bundle: bytes, key: PublicKey) -> Json:
        body = {"bundle": upload_bytes(self._wire, bundle), "public_key": key.pem}
        response = self._wire.send("POST", f"{place_of(version)}/signatures", json=body)
        return {**response.json(), "created": response.status_code == 201}


def manifest_of(version: Mapping[str, Any]) -> Manifest:
    """The version's files, which must be those that its digest stands for, whatever the server says."""
    manifest = Manifest.from_json(version["manifest"])
    if manifest.digest() != version["digest"]:
        raise Damaged(f"The files that the registry lists for {_label(version)} are not those of its digest.")
    return manifest


def _label(version: Mapping[str, Any]) -> str:
    return f"{version['adapter']}:{version['semver']}"
