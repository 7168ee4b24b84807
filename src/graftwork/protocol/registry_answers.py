"""The answers of our own API under /api/v1, and of /health and /ready, as /openapi.json describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from graftwork.protocol.answers import Shape


class HolderAnswer(Shape):
    """Who needs a version."""

    kind: str
    version: str
    name: str
    message: str


class Problem(Shape):
    """Any error outside of /v1: RFC 9457, with a code of ours and what helps."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    problems: list[str] = Field(default_factory=list)
    holders: list[HolderAnswer] = Field(default_factory=list)


class DeprecationAnswer(Shape):
    """What to use instead of a version and why, since when, and when it is meant to go."""

    message: str
    since: str
    until: str | None


class VersionAnswer(Shape):
    """One version of an adapter; lists leave `metadata`, `account` and `same_content_as` out."""

    tenant: str
    adapter: str
    semver: str
    sequence: int
    digest: str
    manifest: dict[str, Any]
    stage: Literal["development", "staging", "production", "archived"]
    kind: str
    base: str
    base_digest: str
    rank: int
    bytes: int
    created_at: str
    created_by: str
    aliases: list[str]
    semantic_digest: str | None
    same_content_as: str | None = None
    approval: Literal["pending", "approved", "rejected"]
    signed_by: list[str]
    deprecated: DeprecationAnswer | None
    forbidden: list[str]
    metadata: dict[str, Any] | None = None
    account: dict[str, Any] | None = None


class LoadFailure(Shape):
    """Why a version could not be loaded, and when a request tries again."""

    code: str
    message: str
    problems: list[str]
    at: str | None
    retry_at: str | None


class VersionResidency(Shape):
    """Where a version stands: bytes by tier, who uses it. Several adapters together have no `adapter` and `version`."""

    reference: str
    adapter: str | None
    version: str | None
    digest: str
    state: Literal["resident", "draining", "loading", "failed", "disk", "stored"]
    tiers: dict[str, int]
    pinned: bool
    rows: int
    uses: int
    last_used_at: str | None
    loading_since: str | None
    failure: LoadFailure | None


class ResidencyList(Shape):
    """GET /api/v1/residency: a page, and what leads to the next one."""

    adapters: list[VersionResidency]
    next_page_token: str | None


class MissingBlobs(Shape):
    """POST /api/v1/blobs/missing: the digests that are still to be sent."""

    missing: list[str]


class BlobState(Shape):
    """POST /api/v1/blobs/{digest}/verify: whether its bytes are there and are what the digest says."""

    digest: str
    state: Literal["ok", "missing", "damaged"]


class AdapterLine(Shape):
    """One adapter in a list."""

    tenant: str
    name: str
    versions: int
    newest: VersionAnswer
    production: VersionAnswer | None
    created_at: str
    created_by: str
    display_name: str
    description: str


class AdapterList(Shape):
    """GET /api/v1/adapters: a page, and what leads to the next one."""

    adapters: list[AdapterLine]
    next_page_token: str | None


class AdapterAnswer(Shape):
    """GET /api/v1/adapters/{name}."""

    name: str
    production: str | None
    versions: list[VersionAnswer]


class VersionList(Shape):
    """An adapter's versions, the newest first."""

    versions: list[VersionAnswer]


class AliasAnswer(Shape):
    """Where an alias points, and who moved it there, when and why."""

    adapter: str
    alias: str
    sequence: int
    version: str
    digest: str
    moved_at: str
    moved_by: str
    reason: str | None


class AliasList(Shape):
    """An adapter's aliases, by name."""

    aliases: list[AliasAnswer]


class EventAnswer(Shape):
    """One event, chained to the one before by its hash."""

    position: int
    tenant: str
    at: str
    actor: str
    kind: str
    subject: str
    payload: dict[str, Any]
    previous: str
    hash: str


class History(Shape):
    """An adapter's events, oldest first."""

    events: list[EventAnswer]


class BlobAnswer(Shape):
    """A file that is stored."""

    digest: str
    size: int


class Health(Shape):
    """The process answers."""

    status: Literal["ok"]


class Ready(Shape):
    """Whether requests are answered, and why not."""

    ready: bool
    reasons: list[str]


class WeightsCheck(Shape):
    """The weights as they were loaded and as they are now."""

    expected: str
    actual: str
    ok: bool


class Facts(BaseModel):
    """Facts and numbers by name: the base's shape, the engine's counters."""

    model_config = ConfigDict(extra="allow")
