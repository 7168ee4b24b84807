"""build_app: the ASGI app of one server: its objects, the doors and what stands before them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Depends, FastAPI

from graftwork.adapters.outline import Outline
from graftwork.db import Database
from graftwork.gateway import errors
from graftwork.gateway.door_keeper import DoorKeeper
from graftwork.gateway.doors import check_door
from graftwork.gateway.engine_slot import GenerationEngine
from graftwork.gateway.life import lifespan_of
from graftwork.gateway.making import EngineFactory, check_base_name, make_services
from graftwork.gateway.openapi import describe
from graftwork.gateway.recording import Recorded
from graftwork.gateway.request_scope import RequestScope
from graftwork.gateway.router import ROUTER
from graftwork.models.base import base_name
from graftwork.settings import Settings
from graftwork.version import __version__


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
    check_base_name(base)
    database = Database(settings.database)
    services = make_services(settings, base, database, engine, make_engine, outline_of)
    app = FastAPI(
        title="Graftwork",
        version=__version__,
        lifespan=lifespan_of(services, database, in_background=load_in_background),
        docs_url=None,  # they would load scripts from the network
        redoc_url=None,
        dependencies=[Depends(check_door)],  # of what is hung up here; the routes of ROUTER have theirs, and no other
        redirect_slashes=False,  # a name that was left out would lead to the door of what is above it
    )
    app.state.services = services
    app.router.routes.extend(ROUTER.routes)
    errors.install(app)
    describe(app)
    app.add_middleware(Recorded, recorder=services.books.recorder, ended=services.shadowing.offer)
    app.add_middleware(DoorKeeper, services=services)
    app.add_middleware(RequestScope, telemetry=services.telemetry)
    return app
