"""Bodies and answers of the doors of the event log."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody
from graftwork.protocol.registry_answers import EventAnswer


class EventList(Shape):
    """GET /api/v1/events: a page, and what leads to the next one."""

    events: list[EventAnswer]
    next_page_token: str | None


class ChainLink(Shape):
    """One event of the chain; of another tenant's only what links it."""

    position: int
    previous: str
    hash: str
    tenant: str | None = None
    at: str | None = None
    actor: str | None = None
    kind: str | None = None
    subject: str | None = None
    payload: dict[str, Any] | None = None


class ChainPage(Shape):
    """GET /api/v1/audit/chain: the next events of all tenants; none at the end."""

    events: list[ChainLink]


class HeadAnswer(Shape):
    """GET /api/v1/audit/head: how many events there are, and the hash of the last one."""

    events: int
    head: str


class VerifyBody(OurBody):
    """POST /api/v1/audit/verify: a hash that was noted down before and must still be in the log."""

    expected_head: str | None = Field(None, pattern="^sha256:[0-9a-f]{64}$")


class VerificationAnswer(Shape):
    """Whether the chain holds: up to which event, and if not to its end, what is wrong after it."""

    ok: bool
    events: int
    head: str
    withheld: int
    problem: str | None
