"""Page: a part of a list, and what leads to the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from graftwork.errors import InvalidRequest

Item = TypeVar("Item")
MAX_PAGE_SIZE = 1000


@dataclass(frozen=True)
class Page(Generic[Item]):
    items: tuple[Item, ...]
    next_page_token: str | None


def check_page_size(page_size: int) -> None:
    """Raises InvalidRequest."""
    if not 1 <= page_size <= MAX_PAGE_SIZE:
        raise InvalidRequest(f"page_size is {page_size}; it must be 1 to {MAX_PAGE_SIZE}.", field="page_size")
