"""verify: has every stored file of versions and bases read and checked, each blob once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

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
