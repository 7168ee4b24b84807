"""Tenants, Users, Keys, Grants: who may do what; those of the caller's tenant unless another is named."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Tenants:
    """`client.tenants`: all doors but `list` and `show` are for an administrator of the server."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, name: str, **settings: Any) -> Json:
        """Set up a tenant: `display_name`, `home_region`, `weight`, `quotas`, `default_route`."""
        return self._wire.json("POST", "/api/v1/tenants", json={"name": name, **settings})

    def change(self, name: str, **settings: Any) -> Json:
        """Change some of the same; of `quotas`, those that are given, None for as much as there is."""
        return self._wire.json("PATCH", f"/api/v1/tenants/{quote(name, safe='')}", json=settings)

    def show(self, name: str) -> Json:
        return self._wire.json("GET", f"/api/v1/tenants/{quote(name, safe='')}")

    def list(self) -> list[Json]:
        return self._wire.pages("/api/v1/tenants", "tenants")


class Users:
    """`client.users`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def put(self, name: str, *, role: str, display_name: str = "", tenant: str | None = None) -> Json:
        """Enter a user, or change what they may do."""
        body = {"role": role, "display_name": display_name}
        return self._wire.json("PUT", f"{_of(tenant)}/users/{quote(name, safe='')}", json=body)

    def remove(self, name: str, *, tenant: str | None = None) -> None:
        """Strike a user off; their keys are worth nothing from then on."""
        self._wire.send("DELETE", f"{_of(tenant)}/users/{quote(name, safe='')}")

    def list(self, *, tenant: str | None = None) -> list[Json]:
        return self._wire.pages(f"{_of(tenant)}/users", "users")


class Keys:
    """`client.keys`; what makes one answers with `key`, which is told nowhere else."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, *, tenant: str | None = None, **wanted: Any) -> Json:
        """A new key: `name`, `role`, `scopes`, `user`, `expires_at`, `default_route`."""
        return self._wire.json("POST", f"{_of(tenant)}/keys", json=wanted)

    def rotate(self, key: str, *, overlap_s: int = 86400, tenant: str | None = None) -> Json:
        """A key in place of another, which holds for `overlap_s` seconds more.

        Raises:
            Conflict: it is over.
        """
        path = f"{_of(tenant)}/keys/{quote(key, safe='')}/rotate"
        return self._wire.json("POST", path, json={"overlap_s": overlap_s})

    def change(self, key: str, *, default_route: str | None, tenant: str | None = None) -> Json:
        """Let a key mean another route where a request names nothing; None: what its tenant says."""
        path = f"{_of(tenant)}/keys/{quote(key, safe='')}"
        return self._wire.json("PATCH", path, json={"default_route": default_route})

    def revoke(self, key: str, *, reason: str | None = None, tenant: str | None = None) -> None:
        """End a key at once."""
        params = {} if reason is None else {"reason": reason}
        self._wire.send("DELETE", f"{_of(tenant)}/keys/{quote(key, safe='')}", params=params)

    def list(self, *, tenant: str | None = None) -> list[Json]:
        return self._wire.pages(f"{_of(tenant)}/keys", "keys")


class Grants:
    """`client.grants`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, to: str, pattern: str, *verbs: str, tenant: str | None = None) -> Json:
        """Let the tenant `to` do these (`call`, `see`, `manage`) with the adapters that the pattern fits."""
        body = {"tenant": to, "pattern": pattern, "verbs": list(verbs or ("call",))}
        return self._wire.json("POST", f"{_of(tenant)}/grants", json=body)

    def remove(self, grant: str, *, tenant: str | None = None) -> None:
        """Take a grant back."""
        self._wire.send("DELETE", f"{_of(tenant)}/grants/{quote(grant, safe='')}")

    def list(self, *, received: bool = False, tenant: str | None = None) -> list[Json]:
        """What was given, or received."""
        return self._wire.pages(f"{_of(tenant)}/grants", "grants", **({"received": "true"} if received else {}))


def _of(tenant: str | None) -> str:
    return "/api/v1" if tenant is None else f"/api/v1/tenants/{quote(tenant, safe='')}"
