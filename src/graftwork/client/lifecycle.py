"""Lifecycle: stages, approvals, deprecations and policies, asked of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Lifecycle:
    """`client.lifecycle`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def set_stage(self, reference: str, stage: str, *, expected: str | None = None, reason: str | None = None) -> Json:
        """Put a version into a stage, with `expected` only if it is in that one now; into production it is promoted.

        Raises:
            Conflict: it may not go there from where it is.
            Forbidden: the policy demands what it lacks.
        """
        body = {"stage": stage, "expected": expected, "reason": reason}
        return self._wire.json("PUT", f"{self._place(reference)}/stage", json=body)

    def approve(self, reference: str, *, reason: str | None = None) -> Json:
        """Approve a version.

        Raises:
            Forbidden: the policy asks somebody else.
        """
        return self._decide(reference, "approved", reason)

    def reject(self, reference: str, *, reason: str | None = None) -> Json:
        """Reject a version; raises as `approve`."""
        return self._decide(reference, "rejected", reason)

    def _decide(self, reference: str, verdict: str, reason: str | None) -> Json:
        body = {"verdict": verdict, "reason": reason}
        return self._wire.json("POST", f"{self._place(reference)}/approvals", json=body)

    def approvals(self, reference: str) -> Json:
        """Who approved or rejected a version, when and why, and what that comes to: `{"approval", "opinions"}`."""
        return self._wire.json("GET", f"{self._place(reference)}/approvals")

    def deprecate(self, reference: str, message: str, *, until: str | None = None) -> Json:
        """Have every answer of a version say that it should no longer be used; `until` is when it is meant to go."""
        body = {"message": message, "until": until}
        return self._wire.json("PUT", f"{self._place(reference)}/deprecation", json=body)

    def undeprecate(self, reference: str, *, reason: str | None = None) -> Json:
        return self._wire.json("DELETE", f"{self._place(reference)}/deprecation", params=_given(reason))

    def policy(self, adapter: str | None = None) -> Json:
        """The policy document that holds for an adapter, or for all that have none of their own."""
        return self._wire.json("GET", _policy(adapter))

    def set_policy(self, document: Mapping[str, Any], *, reason: str | None = None) -> Json:
        """Set the policy of the adapter that the document's `metadata` names, or of the tenant."""
        metadata = document.get("metadata")
        adapter = metadata.get("name") if isinstance(metadata, Mapping) else None
        path = _policy(adapter if isinstance(adapter, str) else None)
        return self._wire.json("PUT", path, json=dict(document), params=_given(reason))

    def remove_policy(self, adapter: str | None = None, *, reason: str | None = None) -> None:
        self._wire.send("DELETE", _policy(adapter), params=_given(reason))

    def _place(self, reference: str) -> str:
        found = self._wire.json("GET", "/api/v1/versions", params={"reference": reference})
        return f"/api/v1/adapters/{found['adapter']}/versions/{quote(found['semver'], safe='')}"


def _policy(adapter: str | None) -> str:
    return "/api/v1/policy" if adapter is None else f"/api/v1/adapters/{quote(adapter, safe='')}/policy"


def _given(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}
