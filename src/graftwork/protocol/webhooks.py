"""What the doors of webhooks read and answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody, Reason

MAX_URL = 2048
MAX_PATTERNS = 64
MAX_OVERLAP_S = 7 * 86_400
DeliveryStatus = Literal["pending", "delivered", "failed"]
#: `version.created`, `rollout.*` or `*`.
KindPattern = Annotated[str, Field(pattern=r"^(\*|[a-z_]+\.(\*|[a-z_]+))$", max_length=128)]
#: A subject, or how subjects begin: `adapters/support`, `adapters/support-*`.
SubjectPattern = Annotated[str, Field(pattern=r"^([^*\x00-\x1f]+\*?|\*)$", max_length=256)]


class WebhookBody(OurBody):
    """PUT /api/v1/webhooks/{name}: where to, and what; without subjects, events about all of them."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)]
    events: Annotated[list[KindPattern], Field(min_length=1, max_length=MAX_PATTERNS)]
    subjects: Annotated[list[SubjectPattern], Field(max_length=MAX_PATTERNS)] = Field(default_factory=list)


class RotateBody(OurBody):
    """POST /api/v1/webhooks/{name}/rotate: for how long the secret before signs as well."""

    overlap_s: Annotated[int, Field(ge=0, le=MAX_OVERLAP_S)] = 86_400
    reason: Reason = None


class RetryBody(OurBody):
    """POST /api/v1/webhooks/{name}/retry: which delivery; without it, all that failed."""

    delivery: Annotated[str | None, Field(max_length=64)] = None


class WebhookAnswer(Shape):
    """A webhook without its secret."""

    name: str
    url: str
    events: list[str]
    subjects: list[str]
    previous_until: str | None
    created_at: str
    created_by: str
    updated_at: str
    updated_by: str


class WebhookSecretAnswer(WebhookAnswer):
    """A webhook with its new secret, which is shown this once."""

    secret: str


class WebhookList(Shape):
    """GET /api/v1/webhooks: a page, and what leads to the next one."""

    webhooks: list[WebhookAnswer]
    next_page_token: str | None


class DeliveryAnswer(Shape):
    """One event on its way to a webhook, or a test (whose position is null)."""

    number: int
    id: str
    kind: str
    position: int | None
    status: DeliveryStatus
    attempts: int
    queued_at: str
    due_at: str | None
    attempted_at: str | None
    answered: int | None
    error: str | None


class DeliveryList(Shape):
    """GET /api/v1/webhooks/{name}/deliveries: the newest first; a page, and what leads to the next one."""

    deliveries: list[DeliveryAnswer]
    next_page_token: str | None


class RetriedAnswer(Shape):
    """How many deliveries are tried again."""

    retried: int
