"""Graftwork: one frozen base model, many small versioned adapters, answered in one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graftwork.version import __version__

__all__ = ["Client", "Engine", "__version__"]

if TYPE_CHECKING:
    from graftwork.client import Client
    from graftwork.embedded import Engine


def __getattr__(name: str) -> object:
    # Lazily, so that `import graftwork` starts neither torch nor the web framework.
    if name == "Engine":
        from graftwork.process import set_waiting

        set_waiting()
        from graftwork.embedded import Engine

        return Engine
    if name == "Client":
        from graftwork.client import Client

        return Client
    raise AttributeError(f"module 'graftwork' has no attribute {name!r}")
