"""verify: has every stored file of versions and bases read and checked, each blob once; and checks who signed them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from graftwork.artifacts.signing.keys import read_public
from graftwork.client.signatures import Signatures
from graftwork.client.wire import Json, Wire


def verify_bundles(wire: Wire, versions: Iterable[Json], bases: Iterable[Json] = ()) -> Json:
    """`{"versions", "blobs", "bytes", "problems"}`; each problem with its state, digest, and where it is a file of."""
    files: dict[str, list[str]] = {}
    count = total = 0
    named = chain(
        ((f"{version['adapter']}:{version['semver']}", version) for version in versions),
        ((f"base {base['name']}", base) for base in bases),
    )
    for name, bundle in named:
        count += "semver" in bundle
        for file in bundle["manifest"]["files"]:
            place = f"{name} {file['path']}"
            if file["digest"] not in files:
                total += file["size"]
            files.setdefault(file["digest"], []).append(place)
    problems = []
    for digest, places in files.items():
        state = wire.json("POST", f"/api/v1/blobs/{digest}/verify")["state"]
        if state != "ok":
            problems.append({"state": state, "digest": digest, "files": places})
    return {"versions": count, "blobs": len(files), "bytes": total, "problems": problems}


def verify_signatures(signatures: Signatures, versions: Iterable[Json], public_key: bytes | None) -> Json:
    """`{"signatures", "unsigned"}`: each signature with its state; with a key, the versions that it did not sign."""
    key = None if public_key is None else read_public(public_key)
    found: list[Json] = []
    unsigned = []
    for version in versions:
        checked = signatures.check(version, key)
        found += checked
        if key is not None and not any(one["state"] == "valid" for one in checked):
            unsigned.append(f"{version['adapter']}:{version['semver']}")
    return {"signatures": found, "unsigned": unsigned}
