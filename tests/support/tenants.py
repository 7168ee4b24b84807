"""Shared: one app as others reach it, with two tenants, each with an adapter of the same name, and keys for all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from graftwork.access.tenants import LOCAL, Tenant
from graftwork.client import Client, InProcessTransport
from graftwork.gateway.app import build_app
from graftwork.registry.tenancy import Tenancy
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora

ALL_SCOPES = ("inference", "read", "manage")


@dataclass(frozen=True)
class Shared:
    """The app, and what speaks to it over what looks like a network."""

    app: FastAPI
    engine: FakeEngine
    transport: httpx.BaseTransport
    folder: Path

    @property
    def tenancy(self) -> Tenancy:
        found: Tenancy = self.app.state.services.tenancy
        return found

    def key(self, tenant: str = LOCAL, role: str = "admin", scopes: tuple[str, ...] = ALL_SCOPES, **more: Any) -> str:
        """A new key of a tenant's."""
        wanted = {"name": "", "role": role, "scopes": scopes, "actor": LOCAL} | more
        token: str | None = self.tenancy.keys.create(tenant, **wanted)[1]
        assert token is not None
        return token

    def http(self, token: str | None = None, **headers: str) -> httpx.Client:
        """Somebody with a key, or without; not to be closed, for all speak through one connection."""
        said = headers | ({} if token is None else {"authorization": f"Bearer {token}"})
        return httpx.Client(transport=self.transport, base_url="http://localhost", headers=said)

    def client(self, token: str) -> Client:
        return Client(http=self.http(token))

    def push(self, token: str, reference: str, *, seed: int = 0) -> None:
        folder = write_lora(self.folder / f"lora-{seed}", self.engine.outline, seed=seed)
        self.client(token).push(folder, reference)


def from_outside(app: ASGIApp) -> ASGIApp:
    """The app as a server would call it: not as somebody in its own process."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "extensions": {}} if scope["type"] == "http" else scope, receive, send)

    return called


@contextmanager
def shared(settings: Settings, folder: Path) -> Iterator[Shared]:
    """Nobody is set up yet."""
    engine = FakeEngine()
    app = build_app(settings, engine=engine, outline_of=lambda: engine.outline)
    transport = InProcessTransport(from_outside(app))
    with httpx.Client(transport=transport, base_url="http://localhost"):
        yield Shared(app, engine, transport, folder)


@dataclass(frozen=True)
class Town:
    """`acme` and `zeta`, with an adapter each; `acme`'s is called `tone`, `zeta`'s `voice`."""

    shared: Shared
    operator: str
    acme: str
    zeta: str


def settle(made: Shared) -> Town:
    for name in ("acme", "zeta"):
        made.tenancy.tenants.create(Tenant(name), actor=LOCAL)
    town = Town(made, made.key(), made.key("acme"), made.key("zeta"))
    made.push(town.acme, "tone:1.0.0", seed=1)
    made.push(town.zeta, "voice:1.0.0", seed=2)
    return town
