"""verify: has every stored file of versions read and checked, each blob once."""

from __future__ import annotations

from collections.abc import Iterable

from graftwork.client.wire import Json, Wire


def verify_versions(wire: Wire, versions: Iterable[Json]) -> Json:
    """`{"versions", "blobs", "bytes", "problems"}`; each problem with its state, digest, and where it is a file of."""
    files: dict[str, list[str]] = {}
    count = total = 0
    for version in versions:
        count += 1
        for file in version["manifest"]["files"]:
            place = f"{version['adapter']}:{version['semver']} {file['path']}"
            if file["digest"] not in files:
                total += file["size"]
            files.setdefault(file["digest"], []).append(place)
    problems = []
    for digest, places in files.items():
        state = wire.json("POST", f"/api/v1/blobs/{digest}/verify")["state"]
        if state != "ok":
            problems.append({"state": state, "digest": digest, "files": places})
    return {"versions": count, "blobs": len(files), "bytes": total, "problems": problems}
