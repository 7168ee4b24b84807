"""page_of: a page of a list that lies in memory, by its keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

DEFAULT_PAGE: Final = 100


def page_of(what: str, found: Mapping[str, Any], page_size: int, page_token: str) -> dict[str, Any]:
    """The entries called `what` whose keys come after the token, in order, and the token of the next page."""
    keys = sorted(found)
    begin = bisect_right(keys, page_token) if page_token else 0
    shown = keys[begin : begin + page_size]
    more = begin + page_size < len(keys)
    return {what: [found[key] for key in shown], "next_page_token": shown[-1] if more else None}
