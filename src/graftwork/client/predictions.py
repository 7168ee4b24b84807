"""Predictions: what is known of answers that were given, what is said of them, and what they used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire

_PAGE = "1000"
Usage = list[Json]


class Predictions:
    """Records of answers, in `Client.predictions`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, limit: int | None = None, **filters: str | None) -> list[Json]:
        """The newest first; filters are `adapter`, `digest`, `route`, `arm`, `user`, `session`, `outcome`, `since` and
        `until`, all of them texts.
        """
        params = {name: value for name, value in filters.items() if value is not None}
        if limit is None:
            return self._wire.pages("/api/v1/predictions", "predictions", **params, page_size=_PAGE)
        found: list[Json] = []
        for page in self._wire.each_page("/api/v1/predictions", **params, page_size=str(min(limit, 1000))):
            found += page["predictions"]
            if len(found) >= limit:
                break
        return found[:limit]

    def explain(self, request_id: str) -> Json:
        """All that is known of one answer: `{"prediction", "text", "feedback", "decided_by", "history", "shadows"}`.

        Raises:
            NotFound: there was none, or its record is kept no longer.
        """
        return self._wire.json("GET", f"/api/v1/predictions/{quote(request_id, safe='')}")

    def feedback(
        self,
        request_id: str,
        name: str,
        *,
        value: float | None = None,
        label: str | None = None,
        source: str = "user",
    ) -> Json:
        """Say something of an answer, at any later time; again under the same name and source, it takes its place.

        Raises:
            NotFound: as `explain`.
        """
        said = {"request_id": request_id, "name": name, "value": value, "label": label, "source": source}
        return self._wire.json("POST", "/v1/feedback", json=said)

    def forget(self, user: str) -> int:
        """Delete every record of a user with its hashes, texts and feedback; how many there were."""
        return int(self._wire.json("DELETE", "/api/v1/predictions", params={"user": user})["deleted"])

    def recording(self) -> Json:
        """How your answers are recorded, as a resource."""
        return self._wire.json("GET", "/api/v1/recording")

    def set_recording(self, resource: Mapping[str, Any]) -> Json:
        """Have them recorded as a resource of kind Recording says.

        Raises:
            Refused: texts are to be kept, and the server has no keyring to seal them under.
        """
        return self._wire.json("PUT", "/api/v1/recording", json=dict(resource))

    def usage(self, *, adapter: str | None = None, since: str | None = None, until: str | None = None) -> Usage:
        """What you used, by day (`2026-01-31`, in UTC) and adapter, from the day `since` to before the day `until`."""
        given = {"adapter": adapter, "since": since, "until": until}
        params = {name: value for name, value in given.items() if value is not None}
        return self._wire.pages("/api/v1/usage", "usage", **params, page_size=_PAGE)
