"""What deletion, legal holds, retention rules and collection take and answer with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import MAX_REASON, OurBody
from graftwork.protocol.registry_answers import VersionAnswer
from graftwork.protocol.resource import ApiVersion, Resource, Whose

#: A hundred years: longer is no rule but a mistake.
MAX_DAYS = 36_525
MAX_AGE_S = MAX_DAYS * 86_400.0
Why = Annotated[str, Field(min_length=1, max_length=MAX_REASON)]
Days = Annotated[int, Field(ge=0, le=MAX_DAYS)]


class HoldBody(OurBody):
    """POST /holds and /holds/release: a version, or by its bare name a whole adapter; and why."""

    reference: str
    reason: Why


class HoldAnswer(Shape):
    """A legal hold; `sequence` and `semver` are null where it is of the whole adapter."""

    number: int
    adapter: str
    sequence: int | None
    semver: str | None
    reason: str
    created_at: str
    created_by: str


class HoldList(Shape):
    """GET /holds: those in force, a page, and what leads to the next one."""

    holds: list[HoldAnswer]
    next_page_token: str | None


class RetentionSpec(Resource):
    """What stays; without `keepLast` everything but what `archivedDays` lets go."""

    keep_last: int | None = Field(None, ge=1, le=1_000_000)
    keep_days: Days = 0
    keep_production: bool = True
    archived_days: Days | None = None
    keep_rollbacks: int = Field(3, ge=0, le=1000)


class RetentionResource(Resource):
    """PUT /retention takes it and answers with it; it also stands in files."""

    api_version: ApiVersion
    kind: Literal["Retention"]
    metadata: Whose = Field(default_factory=Whose)
    spec: RetentionSpec


class RetentionList(Shape):
    """GET /retention: a page, and what leads to the next one."""

    retention: list[RetentionResource]
    next_page_token: str | None


class DeletedVersions(Shape):
    """What was deleted, as it was."""

    deleted: list[VersionAnswer]


class CollectBody(OurBody):
    """POST /gc: whether only to look, and how old things must be to go, in seconds."""

    dry_run: bool = False
    older_than_s: float = Field(86_400.0, ge=0, le=MAX_AGE_S)
    quarantine_s: float = Field(30 * 86_400.0, ge=0, le=MAX_AGE_S)


class CollectedItem(Shape):
    """One thing that went, or would go."""

    kind: Literal["version", "blob", "quarantined", "upload", "copy", "form", "memory"]
    digest: str
    bytes: int
    name: str | None
    why: str


class YoungBlobs(Shape):
    """What nobody wants and stays for now."""

    blobs: int
    bytes: int


class CollectedAnswer(Shape):
    """What a collection did, or would do; `erased` are deleted versions of which nothing of their own is left."""

    dry_run: bool
    items: list[CollectedItem]
    bytes: int
    young: YoungBlobs
    erased: list[str]
