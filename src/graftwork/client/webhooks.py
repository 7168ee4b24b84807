"""Webhooks: where a server sends events, asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Webhooks:
    """`client.webhooks`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def set(
        self, name: str, url: str, events: Sequence[str], *, subjects: Sequence[str] = (), reason: str | None = None
    ) -> Json:
        """Send events of these kinds to `url` from now on; for a new webhook with its `secret`, shown this once.

        Args:
            events: kinds or patterns of them: `version.created`, `rollout.*`, `*`.
            subjects: whom they are about: `adapters/support`, `adapters/support-*`; none: everything.

        Raises:
            InvalidRequest: nothing can be sent to that URL.
        """
        body = {"url": url, "events": list(events), "subjects": list(subjects)}
        return self._wire.json("PUT", _place(name), json=body, params=_given(reason))

    def show(self, name: str) -> Json:
        return self._wire.json("GET", _place(name))

    def remove(self, name: str, *, reason: str | None = None) -> None:
        """Send nothing there any more, not even what is pending."""
        self._wire.send("DELETE", _place(name), params=_given(reason))

    def rotate(self, name: str, *, overlap_s: int = 86_400, reason: str | None = None) -> Json:
        """A new `secret`, shown this once; for the overlap deliveries are signed by the one before as well."""
        body = {"overlap_s": overlap_s, "reason": reason}
        return self._wire.json("POST", f"{_place(name)}/rotate", json=body)

    def test(self, name: str) -> Json:
        """Queue a delivery of the type `webhook.test`; `deliveries` tells what came of it."""
        return self._wire.json("POST", f"{_place(name)}/test")

    def deliveries(self, name: str, *, status: str | None = None) -> list[Json]:
        """What was sent or is to be sent, the newest first; of one status where it is given."""
        params = {} if status is None else {"status": status}
        return self._wire.pages(f"{_place(name)}/deliveries", "deliveries", **params)

    def retry(self, name: str, delivery: str | None = None) -> int:
        """Try a delivery that failed again, or all of them; how many that are.

        Raises:
            Conflict: it did not fail.
        """
        body = {} if delivery is None else {"delivery": delivery}
        count: int = self._wire.json("POST", f"{_place(name)}/retry", json=body)["retried"]
        return count

    def list(self) -> list[Json]:
        """All webhooks, by name."""
        return self._wire.pages("/api/v1/webhooks", "webhooks")


def _place(name: str) -> str:
    return f"/api/v1/webhooks/{quote(name, safe='')}"


def _given(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}
