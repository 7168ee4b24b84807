"""Bodies and answers of the doors of tenants, users, keys and grants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody

Role = Literal["viewer", "deployer", "approver", "admin"]
Scope = Literal["inference", "read", "texts", "manage"]
Verb = Literal["call", "see", "manage"]
MAX_NAME = 128
MAX_TEXT = 256
#: What a day and a quota may hold: enough for anybody, and exact as JSON's numbers.
MAX_COUNT = 1 << 53
MAX_OVERLAP_S = 90 * 86400
Text = Annotated[str, Field(max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f\x7f]*$")]
Limit = Annotated[int | None, Field(ge=1, le=MAX_COUNT)]
Default = Annotated[str | None, Field(max_length=2 * MAX_NAME + 1)]
Weight = Annotated[float, Field(gt=0, le=1000)]


class QuotasPart(OurBody):
    """The most of each; null for as much as there is."""

    requests_per_minute: Limit = None
    tokens_per_minute: Limit = None
    concurrent: Limit = None
    adapters: Limit = None
    bytes: Limit = None


class TenantBody(OurBody):
    """POST …/tenants: a new tenant."""

    name: str = Field(max_length=MAX_NAME)
    display_name: Text = ""
    home_region: Text = ""
    weight: Weight = 1.0
    quotas: QuotasPart = QuotasPart()
    default_route: Default = None


class TenantChanges(OurBody):
    """PATCH …/tenants/{tenant}: what is to be otherwise; what is left out stays."""

    display_name: Text = ""
    home_region: Text = ""
    weight: Weight = 1.0
    quotas: QuotasPart = QuotasPart()
    default_route: Default = None


class UserBody(OurBody):
    """PUT …/users/{name}: what a user may do."""

    role: Role = "viewer"
    display_name: Text = ""


class KeyBody(OurBody):
    """POST …/keys: what a new key is for; without more it may ask models and look."""

    name: Text = ""
    role: Role = "viewer"
    scopes: list[Scope] = Field(default=["inference", "read"], min_length=1, max_length=4)
    user: Annotated[str | None, Field(max_length=MAX_NAME)] = None
    expires_at: Annotated[str | None, Field(max_length=64)] = None
    default_route: Default = None


class KeyChanges(OurBody):
    """PATCH …/keys/{id}: what is to be otherwise; null or nothing: what the tenant says."""

    default_route: Default


class RotateBody(OurBody):
    """POST …/keys/{id}/rotate: how long the old key still holds."""

    overlap_s: int = Field(default=86400, ge=0, le=MAX_OVERLAP_S)


class GrantBody(OurBody):
    """POST …/grants: what which tenant may do with adapters of the caller's."""

    tenant: str = Field(max_length=MAX_NAME)
    pattern: str = Field(max_length=MAX_NAME)
    verbs: list[Verb] = Field(default=["call"], min_length=1, max_length=3)


class QuotasAnswer(Shape):
    """The most of each; null for as much as there is."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrent: int | None
    adapters: int | None
    bytes: int | None


class TenantAnswer(Shape):
    """One tenant."""

    name: str
    display_name: str
    home_region: str
    weight: float
    quotas: QuotasAnswer
    created_at: str | None
    created_by: str | None
    default_route: str | None


class TenantList(Shape):
    """A page of tenants, by name."""

    tenants: list[TenantAnswer]
    next_page_token: str | None


class UserAnswer(Shape):
    """One user."""

    name: str
    role: Role
    display_name: str
    created_at: str
    created_by: str


class UserList(Shape):
    """A page of users, by name."""

    users: list[UserAnswer]
    next_page_token: str | None


class KeyAnswer(Shape):
    """One key; `key` is the key itself where this request has just made it, and nowhere else."""

    id: str
    name: str
    role: Role
    scopes: list[Scope]
    user: str | None
    state: Literal["active", "expired", "revoked"]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    default_route: str | None
    key: str | None = None


class KeyList(Shape):
    """A page of keys, by id."""

    keys: list[KeyAnswer]
    next_page_token: str | None


class GrantAnswer(Shape):
    """One grant."""

    id: str
    owner: str
    grantee: str
    pattern: str
    verbs: list[Verb]
    created_at: str
    created_by: str


class GrantList(Shape):
    """A page of grants, by id."""

    grants: list[GrantAnswer]
    next_page_token: str | None


class WhoAmI(Shape):
    """GET …/whoami: whom the server takes the caller for."""

    tenant: str
    name: str
    user: str | None
    key: str | None
    rights: list[str]
