"""Circumstances: what is known of one request when it is decided who answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from graftwork.access.tenants import LOCAL


@dataclass(frozen=True)
class Circumstances:
    """What rules look at, and by what a request is split. What a client may not say of itself is checked before."""

    tenant: str = LOCAL
    user: str | None = None
    key: str | None = None  #: the public part of the API key
    session: str | None = None
    task: str | None = None
    locales: tuple[str, ...] = ()  #: language ranges (RFC 4647), the most wanted first
    region: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  #: by lower-case name
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    request: str = ""  #: its id

    @property
    def split_key(self) -> str:
        """What keeps to one arm: the user, else the session, else the API key, else nothing but this request.

        Each is told apart from the others, so that no session is split as the user of the same name.
        """
        for kind in ("user", "session", "key"):
            if value := getattr(self, kind):
                return f"{kind}:{value}"
        return f"request:{self.request}"


#: Where nothing is known.
UNKNOWN: Final = Circumstances()
