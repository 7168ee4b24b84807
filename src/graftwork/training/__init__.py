"""The training side: registers what was trained, with how it was trained.

`GraftworkCallback` is made when it is first asked for, as it needs transformers; `register` does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graftwork.training.registration import register

if TYPE_CHECKING:
    from graftwork.training.callback import GraftworkCallback

__all__ = ["GraftworkCallback", "register"]


def __getattr__(name: str) -> Any:
    if name != "GraftworkCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graftwork.training.callback import GraftworkCallback

    return GraftworkCallback
