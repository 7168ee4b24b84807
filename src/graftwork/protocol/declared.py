"""What is applied: documents that have no door of their own, and the bodies and answers of plan, apply and export."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody, Reason
from graftwork.protocol.resource import ApiVersion, Named, Resource
from graftwork.protocol.tenancy import MAX_NAME, Default, Limit, Text, Verb, Weight
from graftwork.protocol.webhooks import MAX_PATTERNS, MAX_URL, KindPattern, SubjectPattern

#: Documents of one plan.
MAX_DOCUMENTS = 2000
MAX_TAGS, MAX_TAG = 64, 256
MAX_ALIASES = 100
MAX_DISPLAY_NAME, MAX_DESCRIPTION = 256, 16_384
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
#: `1.2.0`, or `sha256:` and at least 12 digits of the version's digest.
VersionText = Annotated[str, Field(min_length=1, max_length=128)]
Action = Literal["create", "update", "delete", "unchanged"]
Prune = Literal["set", "all"]


class Nameless(Resource):
    """The `metadata` of a resource that needs no name."""


class AdapterSpec(Resource):
    """What is said of an adapter beside its versions; what is left out is left as it is.

    `aliases` are all that it has but `production` and `previous`; `tags` all of the adapter itself.
    """

    display_name: Annotated[str | None, Field(max_length=MAX_DISPLAY_NAME)] = None
    description: Annotated[str | None, Field(max_length=MAX_DESCRIPTION)] = None
    tags: dict[Name, Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] | None = Field(None, max_length=MAX_TAGS)
    aliases: dict[Name, VersionText] | None = Field(None, max_length=MAX_ALIASES)
    #: The version that the bare name means; one that is not is promoted.
    production: VersionText | None = None


class AdapterResource(Resource):
    """An adapter whose versions were pushed before."""

    api_version: ApiVersion
    kind: Literal["Adapter"]
    metadata: Named
    spec: AdapterSpec


class QuotasSpec(Resource):
    """The most of each; null, or left out, for as much as there is."""

    requests_per_minute: Limit = None
    tokens_per_minute: Limit = None
    concurrent: Limit = None
    adapters: Limit = None
    bytes: Limit = None


class TenantSpec(Resource):
    """What is set for a tenant."""

    display_name: Text = ""
    home_region: Text = ""
    weight: Weight = 1.0
    quotas: QuotasSpec = Field(default_factory=QuotasSpec)
    #: What a request means that names nothing; null for the base.
    default_route: Default = None


class TenantResource(Resource):
    """A tenant; it takes an administrator of the server to apply one."""

    api_version: ApiVersion
    kind: Literal["Tenant"]
    metadata: Named
    spec: TenantSpec = Field(default_factory=TenantSpec)


class GrantSpec(Resource):
    """Which tenant may do what with which adapters."""

    tenant: Name
    pattern: Name
    verbs: list[Verb] = Field(min_length=1, max_length=3)


class GrantResource(Resource):
    """A grant; it has no name, but there is one of a pattern to a tenant."""

    api_version: ApiVersion
    kind: Literal["Grant"]
    metadata: Nameless = Field(default_factory=Nameless)
    spec: GrantSpec


class WebhookSpec(Resource):
    """Where to, and what; without subjects, events about all of them."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)]
    events: Annotated[list[KindPattern], Field(min_length=1, max_length=MAX_PATTERNS)]
    subjects: Annotated[list[SubjectPattern], Field(max_length=MAX_PATTERNS)] = Field(default_factory=list)


class WebhookResource(Resource):
    """A webhook without its secret, which the server makes for a new one and keeps for one that is there."""

    api_version: ApiVersion
    kind: Literal["Webhook"]
    metadata: Named
    spec: WebhookSpec


class PlanBody(OurBody):
    """POST /api/v1/plan: what shall be; `prune` takes away what else there is of the set, or at all.

    `implied` says that nobody wrote the set's name, which is that of their folder, say: it takes away nothing of a set
    that has none of these documents. Where `set` is left out, it is everybody's who does so: nothing of it is pruned.
    """

    documents: list[dict[str, Any]] = Field(max_length=MAX_DOCUMENTS)
    set: Name = "default"
    implied: bool = False
    prune: Prune | None = None


class SeenPlan(OurBody):
    """The plan that somebody looked at: apply nothing where another would come of it now."""

    digest: str = Field(max_length=128)
    live: dict[str, str] = Field(default_factory=dict, max_length=2 * MAX_DOCUMENTS)


class ApplyBody(PlanBody):
    """POST /api/v1/apply: as a plan; all of it is made so, or nothing."""

    reason: Reason = None
    plan: SeenPlan | None = None
    dry_run: bool = False


class FieldChange(Shape):
    """One field that differs; `before` or `after` is left out where the field is not there."""

    field: str
    before: Any = None
    after: Any = None


class StepAnswer(Shape):
    """What becomes of one resource; `document` is its place among those that were sent, from 0."""

    kind: str
    name: str
    action: Action
    fields: list[FieldChange]
    live: str
    document: int | None
    note: str | None
    secret: str | None = None


class ProblemAnswer(Shape):
    """What stands in the way of a step; `field` begins with `documents.<document>` where it is one of a document."""

    message: str
    document: int | None
    field: str | None


class PlanAnswer(Shape):
    """What would be done, or has been; `problems` keep it from being applied, `warnings` do not."""

    set: str
    prune: Prune | None
    digest: str
    changes: int
    applied: bool
    steps: list[StepAnswer]
    problems: list[ProblemAnswer]
    warnings: list[str]


class ExportAnswer(Shape):
    """GET /api/v1/export: documents in the order in which they are applied; `left_out` are kinds one may not see."""

    documents: list[dict[str, Any]]
    left_out: list[str]


class SchemaList(Shape):
    """GET /api/v1/schemas: the kinds that can be applied."""

    kinds: list[str]
