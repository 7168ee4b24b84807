"""The doors of webhooks under /api/v1/webhooks: set, listed, tested; what was sent, and what is sent again."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.etags import expected_of, tagged
from graftwork.gateway.lifecycle import ReasonQuery
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.webhooks import (
    DeliveryAnswer,
    DeliveryList,
    DeliveryStatus,
    RetriedAnswer,
    RetryBody,
    RotateBody,
    WebhookAnswer,
    WebhookBody,
    WebhookList,
    WebhookSecretAnswer,
)

router = APIRouter(tags=["webhooks"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

PageSize = Annotated[int, Query(ge=1, le=1000)]
PageToken = Annotated[str, Query(max_length=128)]


@router.get("/webhooks", openapi_extra=ours({200: WebhookList}, errors=(400,)))
async def list_webhooks(request: Request, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
    """Where events are sent, by name, page by page."""
    listing = services_of(request).webhooks.list
    page = await run_in_threadpool(listing, tenant_of(request), page_size=page_size, page_token=page_token)
    found = [one.to_json() for one in page.items]
    return JSONResponse({"webhooks": found, "next_page_token": page.next_page_token})


@router.get("/webhooks/{name}", openapi_extra=ours({200: WebhookAnswer}, errors=(404,)))
async def show_webhook(request: Request, name: str) -> Response:
    """One webhook, without its secret."""
    found = await run_in_threadpool(services_of(request).webhooks.show, tenant_of(request), name)
    return tagged(found.to_json(), found.etag)


@router.put(
    "/webhooks/{name}",
    openapi_extra=ours({200: WebhookAnswer, 201: WebhookSecretAnswer}, body=WebhookBody, errors=(409, 412)),
)
async def set_webhook(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Send these events there from now on: 201 with the secret, shown this once, where the name is new."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, WebhookBody)
    found, secret = await run_in_threadpool(
        services.webhooks.set,
        tenant_of(request),
        name,
        body.url,
        body.events,
        body.subjects,
        actor=actor_of(request),
        reason=reason,
        if_match=expected_of(request),
    )
    if secret is None:
        return tagged(found.to_json(), found.etag)
    answer = tagged({**found.to_json(), "secret": secret}, found.etag)
    answer.status_code = 201
    answer.headers.update({"location": f"/api/v1/webhooks/{name}", "cache-control": "no-store"})
    return answer


@router.delete("/webhooks/{name}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404, 412)))
async def remove_webhook(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Send nothing there any more, not even what is pending."""
    await run_in_threadpool(
        services_of(request).webhooks.remove,
        tenant_of(request),
        name,
        actor=actor_of(request),
        reason=reason,
        if_match=expected_of(request),
    )
    return Response(status_code=204)


@router.post("/webhooks/{name}/rotate", openapi_extra=ours({200: WebhookSecretAnswer}, body=RotateBody, errors=(404,)))
async def rotate_secret(request: Request, name: str) -> Response:
    """A new secret, shown this once; for a while deliveries are signed by the one before as well."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RotateBody)
    found, secret = await run_in_threadpool(
        services.webhooks.rotate,
        tenant_of(request),
        name,
        overlap=timedelta(seconds=body.overlap_s),
        actor=actor_of(request),
        reason=body.reason,
    )
    answer = tagged({**found.to_json(), "secret": secret}, found.etag)
    answer.headers["cache-control"] = "no-store"
    return answer


@router.post(
    "/webhooks/{name}/test", status_code=202, openapi_extra=ours({202: DeliveryAnswer}, errors=(400, 403, 404))
)
async def test_webhook(request: Request, name: str) -> Response:
    """Queue a delivery of the type `webhook.test`, which goes the way of all others."""
    queued = await run_in_threadpool(services_of(request).webhooks.test, tenant_of(request), name)
    return JSONResponse(queued.to_json(), status_code=202)


@router.get("/webhooks/{name}/deliveries", openapi_extra=ours({200: DeliveryList}, errors=(400, 404)))
async def list_deliveries(
    request: Request,
    name: str,
    status: Annotated[DeliveryStatus | None, Query()] = None,
    page_size: PageSize = 100,
    page_token: PageToken = "",
) -> Response:
    """What was sent or is to be sent to a webhook, and how that went, the newest first."""
    page = await run_in_threadpool(
        services_of(request).webhooks.deliveries,
        tenant_of(request),
        name,
        status=status,
        page_size=page_size,
        page_token=page_token,
    )
    found = [one.to_json() for one in page.items]
    return JSONResponse({"deliveries": found, "next_page_token": page.next_page_token})


@router.post("/webhooks/{name}/retry", openapi_extra=ours({200: RetriedAnswer}, body=RetryBody, errors=(404, 409)))
async def retry_deliveries(request: Request, name: str) -> Response:
    """Try what failed again: one delivery, or all of them."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RetryBody)
    count = await run_in_threadpool(services.webhooks.retry, tenant_of(request), name, body.delivery)
    return JSONResponse({"retried": count})
