"""Holds and Retention: what keeps versions, what lets them go, and the collection of what nobody wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire
from graftwork.registry.reference import Newest, parse_reference, whole_adapter


class Holds:
    """Legal holds: `client.holds`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def set(self, reference: str, *, reason: str) -> Json:
        """Hold a version, or by its bare name a whole adapter, so that nothing deletes it.

        Raises:
            Conflict: it is held for another reason.
        """
        return self._wire.json("POST", "/api/v1/holds", json={"reference": reference, "reason": reason})

    def release(self, reference: str, *, reason: str) -> Json:
        """End a hold; what was held and why stays in the history."""
        return self._wire.json("POST", "/api/v1/holds/release", json={"reference": reference, "reason": reason})

    def list(self) -> list[Json]:
        """Those in force."""
        return self._wire.pages("/api/v1/holds", "holds")


class Retention:
    """Deletion, retention rules and collection: `client.retention`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def delete(self, reference: str, *, reason: str | None = None) -> list[Json]:
        """Delete one version, whose number is never given again.

        Raises:
            Held: `holders` says who needs it.
            InvalidRequest: a bare name, as a model one version and as what is deleted all of them.
        """
        version = self._wire.json("GET", "/api/v1/versions", params={"reference": reference})
        if isinstance(parse_reference(reference).selector, Newest):
            raise whole_adapter(version["adapter"])
        door = f"/api/v1/adapters/{quote(version['adapter'])}/versions/{quote(version['semver'])}"
        return self._delete(door, reason)

    def delete_adapter(self, name: str, *, in_production: bool = False, reason: str | None = None) -> list[Json]:
        """Delete an adapter with all its versions; one that is in production only if you say so.

        Raises:
            Held: `holders` says who needs which version.
        """
        return self._delete(f"/api/v1/adapters/{quote(name, safe='')}", reason, in_production=in_production)

    def rules(self) -> list[Json]:
        """All retention rules, as resources."""
        return self._wire.pages("/api/v1/retention", "retention")

    def set_rules(self, resource: Mapping[str, Any]) -> Json:
        """Set the rules that a resource of kind Retention holds."""
        return self._wire.json("PUT", "/api/v1/retention", json=dict(resource))

    def remove_rules(self, name: str | None = None) -> None:
        """Take the rules of an adapter away, or without a name those of all adapters."""
        self._wire.send("DELETE", "/api/v1/retention", params={} if name is None else {"name": name})

    def gc(self, *, dry_run: bool = False, older_than_s: float = 86_400.0, quarantine_s: float = 2_592_000.0) -> Json:
        """Let versions go by the rules, remove every byte that nobody wants, and say what went, or would go."""
        body = {"dry_run": dry_run, "older_than_s": older_than_s, "quarantine_s": quarantine_s}
        return self._wire.json("POST", "/api/v1/gc", json=body)

    def _delete(self, door: str, reason: str | None, **params: bool) -> list[Json]:
        given = {**params, **({} if reason is None else {"reason": reason})}
        deleted: list[Json] = self._wire.json("DELETE", door, params=given)["deleted"]
        return deleted
