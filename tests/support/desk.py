"""Desk: a registry on a database of its own, with a clock that ticks and short ways to push."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.db import Database
from graftwork.registry.lifecycle import Lifecycle
from graftwork.registry.registry import Registry
from graftwork.registry.rules.policy import ApprovalRule, Gate, Policy
from graftwork.registry.versions import Version

BASE_DIGEST = "sha256:" + "b" * 64


class Ticking:
    """A clock that moves on by a microsecond each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)
        return self.now


class Desk:
    """What a test works with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(self.url)
        self.clock = Ticking()
        self.registry = Registry(self.database, self.clock)
        self.lifecycle = Lifecycle(self.database, self.clock)

    @staticmethod
    def manifest(content: int) -> Manifest:
        return Manifest((BundleFile("adapter_model.safetensors", 8, f"sha256:{content:064x}"),))

    def try_push(
        self,
        content: int,
        name: str = "tone",
        *,
        semver: str | None = None,
        tenant: str = "local",
        base_digest: str = BASE_DIGEST,
        metadata: Mapping[str, Any] | None = None,
        account: Mapping[str, Any] | None = None,
    ) -> tuple[Version, bool]:
        return self.registry.push(
            tenant,
            name,
            self.manifest(content),
            semver=semver,
            kind="lora",
            base="tiny",
            base_digest=base_digest,
            rank=8,
            bytes=8,
            account=account or {"ok": True},
            metadata=metadata,
            actor="me",
        )

    def push(self, content: int, name: str = "tone", **more: Any) -> Version:
        version, created = self.try_push(content, name, **more)
        assert created
        return version

    def promote(self, reference: str, tenant: str = "local") -> Version:
        return self.registry.promote(tenant, reference, actor="me")

    def approve(self, reference: str, actor: str = "me") -> Version:
        return self.lifecycle.decide("local", reference, "approved", actor=actor)

    def reject(self, reference: str, actor: str = "me") -> Version:
        return self.lifecycle.decide("local", reference, "rejected", actor=actor)

    def demand(self, *gates: Gate, adapter: str | None = None, **rule: Any) -> None:
        """Set a policy that lets nothing unapproved through these gates."""
        policy = Policy(ApprovalRule(**rule), require=dict.fromkeys(gates, ("approval",)))
        self.lifecycle.set_policy("local", policy, adapter=adapter, actor="me")

    def stages(self, name: str = "tone") -> dict[str, str]:
        return {version.semver: version.stage for version in self.registry.list_versions("local", name)}
