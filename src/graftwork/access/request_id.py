"""The request id: which request a change was made for, known where its event is written.

The one context variable of this code, set in one place and read in one (decision 0034).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: The field of an event's payload.
REQUEST_ID: Final = "request_id"
_current: ContextVar[str | None] = ContextVar("graftwork_request_id", default=None)


def current_request_id() -> str | None:
    """The id of the request that is being answered; None where there is none."""
    return _current.get()


@contextmanager
def request_scope(request_id: str) -> Iterator[None]:
    """What happens inside, in worker threads too, happens for this request."""
    token = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(token)
