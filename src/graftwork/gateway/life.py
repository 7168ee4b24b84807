"""lifespan_of: what a server starts and does beside its requests, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

from fastapi import FastAPI

from graftwork.access.tenants import LOCAL
from graftwork.db import Database
from graftwork.engine.request import AdapterHandle
from graftwork.errors import GraftworkError
from graftwork.gateway.engine_slot import Pin
from graftwork.gateway.in_thread import in_thread
from graftwork.gateway.services import Services
from graftwork.gateway.turns import keep_swept
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.servable import require_servable

#: How often a server looks by itself whether another process has changed the registry, in seconds.
LOOK_S = 1.0
log = logging.getLogger(__name__)


def lifespan_of(
    services: Services, database: Database, *, in_background: bool
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """The `lifespan` of an app; with `in_background` it answers while the base loads."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
        starting = asyncio.ensure_future(services.engine.start(_pins(services)))
        look, swept = partial(_look, services.snapshots), services.books.recorder.keep_swept
        sessions, copies = partial(keep_swept, services.sessions), services.shadowing.run
        beside = (look, services.steering.run, services.delivering.run, swept, sessions, copies)
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
            for books in (services.books.recorder, services.sessions, services.shadowing):
                await asyncio.to_thread(books.close)
            database.close()

    return lifespan


async def _look(snapshots: SnapshotReader) -> None:
    """See what other processes have changed though nobody asks, so that what a name means is in memory before."""
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            await in_thread(snapshots.current)
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
    require_servable(found.versions, base=services.base, base_digest=services.engine.get().outline.weights_digest)
    return AdapterHandle(found.version.digest, LOCAL, found.model)
