"""ROUTER: every door, at each path that leads to it; made once, for all apps of a process."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Depends

from graftwork.gateway import (
    analysis,
    bases,
    blobs,
    classify,
    declared,
    documents,
    embeddings,
    evaluations,
    events,
    feedback,
    inference,
    keys,
    lifecycle,
    lineage,
    model_list,
    predictions,
    promotions,
    registry_routes,
    residency,
    retention,
    rollouts,
    routes,
    search,
    shadows,
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
from graftwork.gateway.doors import check_door, enter_tenant
from graftwork.gateway.services import own_door


def _hung_up() -> APIRouter:
    router = APIRouter(dependencies=[Depends(check_door)])
    for doors in (inference, embeddings, classify, task_runs, model_list):
        router.include_router(doors.router)
        router.include_router(  # the same doors again, of one route
            doors.router, prefix="/r/{route}", dependencies=[Depends(own_door)], include_in_schema=False
        )
    for doors in (feedback, uploads, blobs, system, tenants):
        router.include_router(doors.router)
    for doors in (
        registry_routes,
        lifecycle,
        bases,
        residency,
        evaluations,
        lineage,
        documents,
        signatures,
        search,
        tags,
        retention,
        tasks,
        analysis,
        declared,
        rollouts,
        promotions,
        webhooks,
        events,
        routes,
        predictions,
        shadows,
        usage,
        keys,
    ):
        router.include_router(doors.router, prefix="/api/v1")
        router.include_router(  # the same doors again, spelt out
            doors.router,
            prefix="/api/v1/tenants/{tenant}",
            dependencies=[Depends(enter_tenant)],
            include_in_schema=False,
        )
    return router


ROUTER: Final = _hung_up()


def make_doors() -> None:
    """Make of each door what the framework makes when one is first looked for, while no request waits for that yet."""
    nobody = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}
    for one in ROUTER.routes:
        one.matches(dict(nobody))
