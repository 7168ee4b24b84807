"""Services: every object of one server, made once in `making.py` and handed to the doors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from graftwork.access.event_log import EventLog
from graftwork.access.principal import Principal
from graftwork.adapters.outline import Outline
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.uploads import Uploads
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.declared.applier import Applier
from graftwork.gateway.bookkeeping import Bookkeeping
from graftwork.gateway.delivering import Delivering
from graftwork.gateway.engine_slot import EngineSlot
from graftwork.gateway.generation import Generations
from graftwork.gateway.kept_warm import KeptWarm
from graftwork.gateway.poolings import Poolings
from graftwork.gateway.quota_keeper import QuotaKeeper
from graftwork.gateway.shadowing import Shadowing
from graftwork.gateway.steering import Steering
from graftwork.gateway.task_prompts import TaskForms, TaskPrompts
from graftwork.registry.base_push import BasePushes
from graftwork.registry.bases import BaseRecord, Bases
from graftwork.registry.cards.cards import Cards
from graftwork.registry.descriptions import Descriptions
from graftwork.registry.documents.documents import Documents
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.registry.lifecycle import Lifecycle
from graftwork.registry.lineage.lineage import Lineage
from graftwork.registry.push import PushService
from graftwork.registry.registry import Registry
from graftwork.registry.retention.collector import Collector
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.retention.holds import Holds
from graftwork.registry.retention.rules import Retention
from graftwork.registry.search.search import Searches
from graftwork.registry.signatures import Signatures
from graftwork.registry.snapshot import SnapshotReader
from graftwork.registry.tags import Tags
from graftwork.registry.tenancy import Tenancy
from graftwork.registry.webhooks.webhooks import Webhooks
from graftwork.settings import Settings
from graftwork.telemetry import Telemetry
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.promotions.promoter import Promoter
from graftwork.traffic.promotions.promotions import Promotions
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.routes.routes import Routes
from graftwork.traffic.sessions.sessions import Sessions
from graftwork.traffic.tasks.tasks import Tasks


@dataclass(frozen=True)
class Services:
    """What the doors work with."""

    settings: Settings
    base: str
    outline_of: Callable[[], Outline]
    registry: Registry
    documents: Documents
    cards: Cards
    signatures: Signatures
    lifecycle: Lifecycle
    snapshots: SnapshotReader
    routes: Routes
    lineage: Lineage
    searches: Searches
    tags: Tags
    descriptions: Descriptions
    events: EventLog
    tenancy: Tenancy
    quotas: QuotaKeeper
    store: BlobStore
    copies: WorkingCopies
    uploads: Uploads
    pushes: PushService
    evaluations: Evaluations
    bases: Bases
    base_pushes: BasePushes
    #: Makes sure that the served base has a record with a tenant; told tenant and actor.
    record_base: Callable[[str, str], tuple[BaseRecord, bool]]
    holds: Holds
    retention: Retention
    deletions: Deletions
    collector: Collector
    rollouts: Rollouts
    promotions: Promotions
    promoter: Promoter
    kept: KeptWarm
    steering: Steering
    shadowing: Shadowing
    webhooks: Webhooks
    delivering: Delivering
    engine: EngineSlot
    generations: Generations
    poolings: Poolings
    tasks: Tasks
    templates: Templates
    applier: Applier
    task_prompts: TaskPrompts
    task_forms: TaskForms
    books: Bookkeeping
    sessions: Sessions
    telemetry: Telemetry


def services_of(request: Request) -> Services:
    """The services of the app that `request` came to."""
    services: Services = request.app.state.services
    return services


def principal_of(request: Request) -> Principal:
    """Who is asking, as `DoorKeeper` found out."""
    principal: Principal = request.state.principal
    return principal


def tenant_of(request: Request) -> str:
    """The tenant that asks."""
    return principal_of(request).tenant


async def own_door(route: str) -> None:
    """Declares the route of a path, which `route_of` reads."""


def actor_of(request: Request) -> str:
    """Who is doing this, for the event log; never what the client says of itself."""
    return principal_of(request).name
