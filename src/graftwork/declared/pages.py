"""all_pages: everything that a list gives out page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from graftwork.registry.page import MAX_PAGE_SIZE, Page

Item = TypeVar("Item")


def all_pages(listing: Callable[..., Page[Item]], tenant: str) -> Iterator[Item]:
    token: str | None = None
    while True:
        page = listing(tenant, page_size=MAX_PAGE_SIZE, page_token=token)
        yield from page.items
        if (token := page.next_page_token) is None:
            return
