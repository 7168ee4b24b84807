"""build_app: the whole server in one place; every object is made here, once, and handed down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI

from graftwork.access.access import Access, read_access
from graftwork.access.event_log import EventLog
from graftwork.access.names import DEFAULT, check_name
from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.artifacts.stores import open_store
from graftwork.artifacts.uploads import Uploads
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Database
from graftwork.engine.form_files import FormFiles
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.request import AdapterHandle
from graftwork.errors import Conflict, GraftworkError, InvalidRequest
from graftwork.gateway import (
    analysis,
    bases,
    blobs,
    classify,
    documents,
    embeddings,
    errors,
    evaluations,
    events,
    feedback,
    inference,
    keys,
    lifecycle,
    lineage,
    model_list,
    predictions,
    registry_routes,
    residency,
    retention,
    rollouts,
    routes,
    search,
    signatures,
    system,
    tags,
    task_runs,
    tasks,
    tenants,
    uploads,
    usage,
    webhooks,
)
from graftwork.gateway.bookkeeping import Bookkeeping
from graftwork.gateway.delivering import delivered
from graftwork.gateway.door_keeper import DoorKeeper
from graftwork.gateway.doors import check_door, enter_tenant
from graftwork.gateway.engine_slot import EngineSlot, GenerationEngine, Pin, Stage
from graftwork.gateway.generation import Generations
from graftwork.gateway.openapi import describe
from graftwork.gateway.poolings import Poolings
from graftwork.gateway.quota_keeper import QuotaKeeper
from graftwork.gateway.recording import Recorded
from graftwork.gateway.request_scope import RequestScope
from graftwork.gateway.services import Services, own_door
from graftwork.gateway.steering import steered
from graftwork.gateway.task_prompts import TaskForms, TaskPrompts
from graftwork.models.base import PreparedBase, base_name
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
from graftwork.traffic.choice import Asked, choose, require_servable
from graftwork.traffic.records.recording import RecordingRules, read_rules
from graftwork.traffic.rollouts.live import LiveRollouts, read_live, told_of
from graftwork.traffic.routes.holding import read_route_holders
from graftwork.traffic.routes.routes import Routes, has_route
from graftwork.traffic.routes.table import RouteTable, read_routes
from graftwork.traffic.tasks.holding import read_task_holders
from graftwork.traffic.tasks.live import LiveTasks, read_tasks
from graftwork.traffic.tasks.tasks import Tasks
from graftwork.version import __version__

if TYPE_CHECKING:
    from graftwork.adapters.account import Account

#: How often a server looks by itself whether another process has changed the registry, in seconds.
LOOK_S = 1.0
log = logging.getLogger(__name__)

#: Makes the engine, slowly and in a worker thread, from what it reads adapters from; tells its stages.
EngineFactory = Callable[[Settings, VersionFiles, Stage], GenerationEngine]


def build_app(
    settings: Settings,
    *,
    engine: GenerationEngine | None = None,
    make_engine: EngineFactory | None = None,
    outline_of: Callable[[], Outline] | None = None,
    load_in_background: bool = False,
) -> FastAPI:
    """The ASGI app of one server.

    Args:
        engine: one that is made already (it is started and stopped with the app); or
        make_engine: how to make one. With neither, the app answers registry calls only and needs no torch.
        outline_of: the base of pushes; the configured one, prepared when first needed, when not given.
        load_in_background: answer while the base loads (503 where it matters) instead of waiting.

    Raises:
        InvalidRequest: the base's name is not one that requests can use.
        GraftworkError: the database or the store cannot be opened.
    """
    base = engine.outline.base if engine is not None else base_name(settings)
    _check_base_name(base)
    database = Database(settings.database)
    services = _services(settings, base, database, engine, make_engine, outline_of)
    app = FastAPI(
        title="Graftwork",
        version=__version__,
        lifespan=_lifespan(services, database, load_in_background),
        docs_url=None,  # they would load scripts from the network
        redoc_url=None,
        dependencies=[Depends(check_door)],
        redirect_slashes=False,  # a name that was left out would lead to the door of what is above it
    )
    app.state.services = services
    for doors in (inference, embeddings, classify, task_runs, model_list):
        app.include_router(doors.router)
        app.include_router(  # the same doors again, of one route
            doors.router, prefix="/r/{route}", dependencies=[Depends(own_door)], include_in_schema=False
        )
    for doors in (feedback, uploads, blobs, system, tenants):
        app.include_router(doors.router)
    for router in (
        registry_routes.router,
        lifecycle.router,
        bases.router,
        residency.router,
        evaluations.router,
        lineage.router,
        documents.router,
        signatures.router,
        search.router,
        tags.router,
        retention.router,
        tasks.router,
        analysis.router,
        rollouts.router,
        webhooks.router,
        events.router,
        routes.router,
        predictions.router,
        usage.router,
        keys.router,
    ):
        app.include_router(router, prefix="/api/v1")
        app.include_router(  # the same doors again, spelt out
            router,
            prefix="/api/v1/tenants/{tenant}",
            dependencies=[Depends(enter_tenant)],
            include_in_schema=False,
        )
    errors.install(app)
    describe(app)
    app.add_middleware(Recorded, recorder=services.books.recorder)
    app.add_middleware(DoorKeeper, services=services)
    app.add_middleware(RequestScope, telemetry=services.telemetry)
    return app


def _services(
    settings: Settings,
    base: str,
    database: Database,
    engine: GenerationEngine | None,
    make_engine: EngineFactory | None,
    given_outline: Callable[[], Outline] | None,
) -> Services:
    prepared = _prepared(settings)
    outline_of = given_outline or (lambda: prepared().outline)
    parts: dict[type, ReadPart] = {
        LiveTasks: read_tasks,
        LiveRollouts: read_live,
        RouteTable: read_routes,
        RecordingRules: read_rules,
        Access: read_access,
    }
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
    moving, kept, steering = steered(database, snapshots, slot, settings.adapter_cache_bytes)
    if slot.wanted:
        _check_base_name_is_free(base, snapshots)
    attempts = telemetry.webhook_attempts
    hooks, delivering = delivered(
        settings, database, lambda: snapshots.current().position, lambda status: attempts.labels(status).inc()
    )
    telemetry.watch_engine(lambda: _with_copies(slot.stats(), copies))
    telemetry.watch_rollouts(lambda: told_of(snapshots.current()))
    partial_uploads, forms = Uploads(settings.uploads), FormFiles(settings.forms)
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
        lineage=Lineage(database),
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
        deletions=Deletions(database, others=[read_route_holders, read_task_holders]),
        collector=Collector(
            database,
            store,
            partial_uploads,
            {"copy": copies, "form": forms},
            others=[read_route_holders, read_task_holders],
        ),
        rollouts=moving,
        kept=kept,
        steering=steering,
        webhooks=hooks,
        delivering=delivering,
        engine=slot,
        tasks=Tasks(database),
        task_prompts=TaskPrompts(ProcessLimits(settings.template_timeout_s, settings.template_memory_bytes)),
        task_forms=TaskForms(ProcessLimits(settings.grammar_timeout_s, settings.grammar_memory_bytes)),
        books=Bookkeeping.of(settings, base, database, telemetry),
        generations=Generations(telemetry, quotas.spend),
        poolings=Poolings(telemetry, quotas.spend),
        telemetry=telemetry,
    )


def _with_copies(stats: Mapping[str, Any], copies: WorkingCopies) -> Mapping[str, Any]:
    """The engine does not know where its files come from."""
    if (tiers := stats.get("adapter_tier_bytes")) is None:
        return stats
    return {**stats, "adapter_tier_bytes": {**tiers, "copy": copies.used_bytes}}


def _check_base_name(base: str) -> None:
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


def _lifespan(
    services: Services, database: Database, in_background: bool
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
        starting = asyncio.ensure_future(services.engine.start(_pins(services)))
        look, swept = partial(_look, services.snapshots), services.books.recorder.keep_swept
        beside = (look, services.steering.run, services.delivering.run, swept)
        tasks = [asyncio.ensure_future(one()) for one in beside] if services.engine.wanted else []
        if not in_background:
            await starting
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(services.steering.close)
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            await services.engine.stop()
            for one in (services.task_prompts, services.task_forms):
                await asyncio.to_thread(one.close)
            await asyncio.to_thread(services.books.recorder.close)
            database.close()

    return lifespan


async def _look(snapshots: SnapshotReader) -> None:
    """See what other processes have changed though nobody asks, so that what a name means is in memory before."""
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            await asyncio.to_thread(snapshots.current)
        except GraftworkError:
            pass  # whoever asks is told
        except Exception:
            log.exception("What others have changed could not be looked at; it is tried again.")


def _pins(services: Services) -> list[Pin]:
    return [(reference, partial(_pinned, services, reference)) for reference in services.settings.pin]


def _pinned(services: Services, reference: str) -> AdapterHandle:
    asked = Asked(adapter_id=reference)
    found = choose(asked, tenant=LOCAL, base=services.base, versions=services.snapshots.current())
    assert found.version is not None, "an explicit adapter never means the base"
    require_servable(found, base=services.base, base_digest=services.engine.get().outline.weights_digest)
    return AdapterHandle(found.version.digest, LOCAL, found.model)
