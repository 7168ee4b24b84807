"""Versions that no registry has, and a snapshot of some, for decisions that only read them."""

from __future__ import annotations

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView

BASE = "tiny-base"


def version(name: str, semver: str, sequence: int) -> Version:
    """As the registry would have made it; its own digest is also that of the base's weights."""
    digest = "sha256:" + f"{sequence}" * 64
    return Version(
        tenant="local",
        adapter=name,
        semver=semver,
        sequence=sequence,
        digest=digest,
        manifest=Manifest((BundleFile("adapter_config.json", 1, digest),)),
        stage="development",
        kind="lora",
        base=BASE,
        base_digest=digest,
        rank=4,
        bytes=1,
        metadata={},
        created_at="2026-01-31T09:30:00.000000Z",
        created_by="local",
    )


def snapshot() -> Snapshot:
    """`new` never had a production version; `old` has its first in production and a second after it."""
    views = [
        AdapterView.of([version("new", "1.0.0", 1), version("new", "1.1.0", 2)], {}),
        AdapterView.of([version("old", "1.0.0", 3), version("old", "1.1.0", 4)], {"production": 3, "champion": 4}),
    ]
    return Snapshot(1, {(view.tenant, view.name): view for view in views if view is not None})
