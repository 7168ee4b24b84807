"""make_services: every object of a server is made here, once, and handed down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graftwork.access.access import Access, read_access
from graftwork.access.event_log import EventLog
from graftwork.access.names import DEFAULT, check_name
from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.artifacts.stores import open_store
from graftwork.artifacts.uploads import Uploads
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Database
from graftwork.declared import desk as declared
from graftwork.declared.applier import Applier
from graftwork.engine.form_files import FormFiles
from graftwork.engine.limited_process import ProcessLimits
from graftwork.errors import Conflict, InvalidRequest
from graftwork.gateway import (
    residency,
)
from graftwork.gateway.bookkeeping import Bookkeeping
from graftwork.gateway.delivering import delivered
from graftwork.gateway.engine_slot import EngineSlot, GenerationEngine, Stage
from graftwork.gateway.generation import Generations
from graftwork.gateway.poolings import Poolings
from graftwork.gateway.quota_keeper import QuotaKeeper
from graftwork.gateway.services import Services
from graftwork.gateway.shadowing import Shadowing
from graftwork.gateway.steering import steered
from graftwork.gateway.task_prompts import TaskForms, TaskPrompts
from graftwork.models.base import PreparedBase
from graftwork.models.base_identity import BaseIdentity, identify_base
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
from graftwork.registry.snapshot import ReadPart, SnapshotReader
from graftwork.registry.tags import Tags
from graftwork.registry.tenancy import Tenancy
from graftwork.registry.version_files import VersionFiles
from graftwork.settings import Settings
from graftwork.telemetry import Telemetry
from graftwork.traffic.endpoints import endpoints
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.judging.known import Known
from graftwork.traffic.judging.template_judge import TemplateJudge
from graftwork.traffic.promotions.promotions import LivePromotions, Promotions, read_promotions
from graftwork.traffic.records.recording import RecordingRules, read_rules
from graftwork.traffic.rollouts.ended import EndedRollouts, read_ended
from graftwork.traffic.rollouts.live import LiveRollouts, read_live, told_of
from graftwork.traffic.routes.routes import Routes, has_route, read_route_holders
from graftwork.traffic.routes.table import RouteTable, read_routes
from graftwork.traffic.sessions.sessions import Sessions
from graftwork.traffic.tasks.live import LiveTasks, read_tasks
from graftwork.traffic.tasks.tasks import Tasks, read_task_holders

if TYPE_CHECKING:
    from graftwork.adapters.account import Account

#: Makes the engine, slowly and in a worker thread, from what it reads adapters from; tells its stages.
EngineFactory = Callable[[Settings, VersionFiles, Stage], GenerationEngine]


def make_services(
    settings: Settings,
    base: str,
    database: Database,
    engine: GenerationEngine | None,
    make_engine: EngineFactory | None,
    given_outline: Callable[[], Outline] | None,
) -> Services:
    """The objects of the server of `base`; what makes the engine is kept until it starts.

    Raises:
        GraftworkError: the store cannot be opened.
        Conflict: an adapter or a route has the base's name.
    """
    prepared = _prepared(settings)
    outline_of = given_outline or (lambda: prepared().outline)
    parts: dict[type, ReadPart] = {
        LiveTasks: read_tasks,
        LiveRollouts: read_live,
        EndedRollouts: read_ended,
        LivePromotions: read_promotions,
        RouteTable: read_routes,
        RecordingRules: read_rules,
        Access: read_access,
    }
    holders = [read_route_holders, read_task_holders]
    registry, snapshots = Registry(database), SnapshotReader(database, parts)
    quotas = QuotaKeeper(snapshots)
    base_records = Bases(database, has_route=has_route)
    record_base = _recording(
        base_records, base, lambda: identify_base(outline_of(), None if given_outline else prepared().folder)
    )
    store = open_store(settings.artifacts, settings.artifacts_keyring)
    companions = Documents(database, store)
    copies = WorkingCopies(settings.bundles, store, settings.bundle_cache_bytes)
    make = partial(make_engine, settings, VersionFiles(snapshots, copies)) if make_engine else None
    slot, telemetry = EngineSlot(engine, make), Telemetry()
    snapshots.changed = partial(residency.follow, slot)
    books, templates = Bookkeeping.of(settings, base, database, telemetry), Templates(database)
    judge = TemplateJudge(templates, Known(database, books.records, books.diffs))
    moving, promoter, kept, steering = steered(
        database, snapshots, slot, settings.adapter_cache_bytes, judge, templates
    )
    if slot.wanted:
        _check_base_name_is_free(base, snapshots)
    attempts = telemetry.webhook_attempts
    hooks, delivering = delivered(
        settings, database, lambda: snapshots.current().position, lambda status: attempts.labels(status).inc()
    )
    telemetry.watch_engine(lambda: _with_copies(slot.stats(), copies))
    telemetry.watch_rollouts(lambda: told_of(snapshots.current()))
    partial_uploads, forms = Uploads(settings.uploads), FormFiles(settings.forms)
    resources = declared.Services.of(database, base, rollouts=moving, webhooks=hooks, recordings=books.recordings)
    return Services(
        settings=settings,
        base=base,
        outline_of=outline_of,
        registry=registry,
        documents=companions,
        cards=Cards(database, store, companions),
        signatures=Signatures(database, store),
        lifecycle=Lifecycle(database),
        snapshots=snapshots,
        routes=Routes(database, base),
        lineage=Lineage(database, endpoints=lambda tenant: endpoints(snapshots.current(), tenant)),
        searches=Searches(database),
        tags=Tags(database),
        descriptions=Descriptions(database),
        events=EventLog(database),
        tenancy=Tenancy.of(database),
        quotas=quotas,
        store=store,
        copies=copies,
        uploads=partial_uploads,
        pushes=PushService(
            registry,
            store,
            copies,
            outline_of,
            partial(_account, settings, outline_of),
            record_base=record_base,
        ),
        evaluations=Evaluations(database, store),
        bases=base_records,
        base_pushes=BasePushes(base_records, store, copies, _survey),
        record_base=record_base,
        holds=Holds(database),
        retention=Retention(database),
        deletions=Deletions(database, others=holders),
        collector=Collector(
            database,
            store,
            partial_uploads,
            {"copy": copies, "form": forms},
            others=holders,
        ),
        rollouts=moving,
        promotions=Promotions(database),
        promoter=promoter,
        kept=kept,
        steering=steering,
        shadowing=Shadowing(
            slot,
            books.diffs,
            telemetry,
            most=settings.shadow_queue,
            at_once=settings.shadow_at_once,
            timeout_s=min(settings.shadow_timeout_s, settings.request_timeout_s or math.inf),
        ),
        webhooks=hooks,
        delivering=delivering,
        engine=slot,
        applier=Applier(database, resources, base),
        tasks=Tasks(database),
        templates=templates,
        task_prompts=TaskPrompts(ProcessLimits(settings.template_timeout_s, settings.template_memory_bytes)),
        task_forms=TaskForms(ProcessLimits(settings.grammar_timeout_s, settings.grammar_memory_bytes)),
        books=books,
        sessions=Sessions(database, ttl_s=settings.session_ttl_s),
        generations=Generations(telemetry, quotas.spend),
        poolings=Poolings(telemetry, quotas.spend),
        telemetry=telemetry,
    )


def _with_copies(stats: Mapping[str, Any], copies: WorkingCopies) -> Mapping[str, Any]:
    """The engine does not know where its files come from."""
    if (tiers := stats.get("adapter_tier_bytes")) is None:
        return stats
    return {**stats, "adapter_tier_bytes": {**tiers, "copy": copies.used_bytes}}


def check_base_name(base: str) -> None:
    """Raises InvalidRequest for what requests cannot name."""
    check_name(base, what="base")
    if base == DEFAULT:
        raise InvalidRequest("The base name 'default' is reserved: requests mean any base by it.", field="base")


def _check_base_name_is_free(base: str, snapshots: SnapshotReader) -> None:
    snapshot = snapshots.current()
    has_its_name = "An adapter" if base in snapshot.names(LOCAL) else "A route"
    if has_its_name == "An adapter" or snapshot.part(RouteTable).find(LOCAL, base) is not None:
        raise Conflict(
            f"{has_its_name} is named {base}, as is the base model, so that the name would mean two things. "
            "Give the base another name with --base-name."
        )


def _account(settings: Settings, outline_of: Callable[[], Outline], folder: Path) -> Account:
    from graftwork.adapters.account import account_folder  # it needs numpy; most calls do not

    return account_folder(folder, outline_of(), max_rank=settings.max_rank)


def _prepared(settings: Settings) -> Callable[[], PreparedBase]:
    @cache
    def prepared() -> PreparedBase:
        from graftwork.models.prepare import prepare_base

        return prepare_base(settings)

    return prepared


def _recording(
    bases: Bases, name: str, identity_of: Callable[[], BaseIdentity]
) -> Callable[[str, str], tuple[BaseRecord, bool]]:
    identity = cache(identity_of)  # it reads the tokenizer
    return lambda tenant, actor: bases.register(tenant, name, identity(), actor=actor)


def _survey(folder: Path, base: str, source: str, revision: str | None) -> Outline:
    from graftwork.models.survey import survey  # it needs torch

    return survey(folder, base=base, source=source, revision=revision)
