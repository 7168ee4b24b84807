"""The bodies of load, unload, pin and unpin."""

from __future__ import annotations

from pydantic import Field

from graftwork.protocol.registry import OurBody

#: Longest that a call waits, in seconds; what it asked for goes on after that.
MAX_WAIT_S = 600.0


class LoadBody(OurBody):
    """POST …/load and …/pin: which version, else the bare name's; how long to wait, else `load_timeout_s`."""

    reference: str | None = None
    wait_s: float | None = Field(None, ge=0, le=MAX_WAIT_S)


class UnpinBody(OurBody):
    """POST …/unpin: which version."""

    reference: str | None = None


class UnloadBody(OurBody):
    """POST …/unload: which version; how long to wait for those who use it; whether the local disk forgets it too."""

    reference: str | None = None
    wait_s: float = Field(10.0, ge=0, le=MAX_WAIT_S)
    disk: bool = False
