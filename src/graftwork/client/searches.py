"""Searches, Tags and Descriptions: finding versions, and the later facts that help with it, over the wire."""

from __future__ import annotations

import builtins
from itertools import islice
from urllib.parse import quote

from graftwork.client.wire import Json, Wire
from graftwork.registry.page import MAX_PAGE_SIZE
from graftwork.registry.reference import parse_reference

DEFAULT_LIMIT = 100


class Searches:
    """`client.searches`: versions by a filter and by words."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def find(self, filter: str = "", *, text: str = "", sort: str = "", limit: int = DEFAULT_LIMIT) -> list[Json]:
        """The first `limit` versions that fit, with `newest`, `tags` and the `value` that they are sorted by.

        Raises:
            InvalidRequest: the filter, the text or the sort cannot be read; the message shows where.
        """
        params = {"filter": filter, "text": text, **({"sort": sort} if sort else {})}
        pages = self._wire.each_page("/api/v1/search", **params, page_size=str(min(max(limit, 1), MAX_PAGE_SIZE)))
        return list(islice((version for page in pages for version in page["versions"]), max(limit, 0)))


class Tags:
    """`client.tags`: of a version, or of the adapter itself where the reference is a bare name."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, reference: str) -> builtins.list[Json]:
        """Each tag with `key`, `value`, `updated_at` and `updated_by`."""
        found: builtins.list[Json] = self._wire.json("GET", _tags(reference), params={"reference": reference})["tags"]
        return found

    def set(self, reference: str, key: str, value: str) -> Json:
        """Give a tag, over whatever it was."""
        return self._wire.json("PUT", _tag(reference, key), json={"value": value, "reference": reference})

    def remove(self, reference: str, key: str) -> None:
        self._wire.send("DELETE", _tag(reference, key), params={"reference": reference})


class Descriptions:
    """`client.descriptions`: what adapters are called and for."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def set(self, name: str, *, display_name: str | None = None, description: str | None = None) -> Json:
        """Change what is given; an empty text takes it away."""
        body = {"display_name": display_name, "description": description}
        return self._wire.json("PATCH", f"/api/v1/adapters/{quote(name, safe='')}", json=body)


def _tags(reference: str) -> str:
    return f"/api/v1/adapters/{quote(parse_reference(reference).name, safe='')}/tags"


def _tag(reference: str, key: str) -> str:
    return f"{_tags(reference)}/{quote(key, safe='')}"
