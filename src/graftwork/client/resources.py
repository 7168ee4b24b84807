"""Resources: documents under names, in revisions, asked of a server; alike for routes, tasks and analysis templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Resources:
    """What `client.routes`, `client.tasks` and `client.analyses` have in common; raises as `Client` does."""

    def __init__(self, wire: Wire, path: str, entries: str) -> None:
        """`path` is where they are, and `entries` what a list calls them."""
        self._wire, self._path, self._entries = wire, path, entries

    def set(self, document: Mapping[str, Any], *, expected: str | None = None, reason: str | None = None) -> Json:
        """Make a document what the name in its `metadata` means.

        Args:
            expected: the digest of the revision that must be live, `absent` or `present`; anything where it is None.

        Raises:
            InvalidResource: the document. Conflict: something else has the name, or there are too many.
            PreconditionFailed: another revision is live.
        """
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        path = self._at(name if isinstance(name, str) and name else "-")  # the server says what is wrong with it
        headers, params = _expecting(expected), _given(reason)
        return self._wire.json("PUT", path, json=dict(document), headers=headers, params=params)

    def show(self, name: str, *, revision: int | None = None) -> Json:
        """What the name means, as a document with `status`; or what it meant at another revision."""
        params = {} if revision is None else {"revision": str(revision)}
        return self._wire.json("GET", self._at(name), params=params)

    def revisions(self, name: str) -> list[Json]:
        """All that the name ever meant, the newest first; also where it means nothing now."""
        return self._wire.pages(f"{self._at(name)}/revisions", "revisions")

    def rollback(
        self, name: str, *, revision: int | None = None, expected: str | None = None, reason: str | None = None
    ) -> Json:
        """Make the revision live that was it before, or another one.

        Raises:
            Conflict: no other was live before.
        """
        body = {"revision": revision, "expected": expected, "reason": reason}
        return self._wire.json("POST", f"{self._at(name)}/rollback", json=body)

    def remove(self, name: str, *, expected: str | None = None, reason: str | None = None) -> None:
        """Let the name mean nothing; its revisions stay."""
        self._wire.send("DELETE", self._at(name), headers=_expecting(expected), params=_given(reason))

    def list(self) -> list[Json]:
        """All of them as they are now, by name."""
        return self._wire.pages(self._path, self._entries)

    def _at(self, name: str) -> str:
        return f"{self._path}/{quote(name, safe='')}"


def _given(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}


def _expecting(expected: str | None) -> dict[str, str]:
    if expected is None:
        return {}
    if expected == "absent":
        return {"If-None-Match": "*"}
    return {"If-Match": "*" if expected == "present" else f'"{expected}"'}
