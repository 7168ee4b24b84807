"""The doors of residency under /api/v1: where each version stands, and load, unload, pin, unpin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.engine.request import AdapterHandle
from graftwork.engine.residency import Residency
from graftwork.errors import InvalidRequest, UnknownModel
from graftwork.gateway.disconnect import unless_gone
from graftwork.gateway.engine_slot import EngineSlot
from graftwork.gateway.openapi import Answer, ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.protocol.body import Body
from graftwork.protocol.errors import kind_of
from graftwork.protocol.registry_answers import ResidencyList, VersionResidency
from graftwork.protocol.residency import LoadBody, UnloadBody, UnpinBody
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.servable import require_servable

router = APIRouter(tags=["residency"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
#: Where the engine has a version, or else where its files are: on the local disk, or in the store only.
State = Literal["resident", "draining", "loading", "failed", "disk", "stored"]


@dataclass(frozen=True)
class _Item:
    """A version of the caller's, or several together, which are in memory only."""

    handle: AdapterHandle
    version: Version | None

    @classmethod
    def of(cls, decision: Decision) -> _Item:
        version = decision.version
        assert version is not None, "an explicit adapter never means the base"
        return cls(AdapterHandle(version.digest, version.tenant, version.label), version)

    @property
    def place(self) -> tuple[str, int]:
        """Where it comes in the list."""
        return (self.handle.label, 0) if self.version is None else (self.version.adapter, self.version.sequence)


def _door(body: type[Body]) -> dict[str, Any]:
    """What is told of a door that answers with one version, now or, with 202, later."""
    answers: dict[int, Answer] = {200: VersionResidency, 202: VersionResidency}
    return ours(answers, body=body, errors=(404, 409, 422, 500, 503))


@router.get("/residency", openapi_extra=ours({200: ResidencyList}, errors=(400,)))
async def list_residency(
    request: Request,
    state: State | None = Query(None),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query(""),
) -> Response:
    """Each of the caller's versions with the tiers that hold it, by name, page by page."""
    return JSONResponse(
        await run_in_threadpool(_page, services_of(request), tenant_of(request), state, page_size, page_token)
    )


@router.post("/adapters/{name}/load", openapi_extra=_door(LoadBody))
async def load(request: Request, name: str) -> Response:
    """Bring a version to memory: 200 when it is there, 202 where that goes on after `wait_s` seconds."""
    return await _load(request, name, pin=False)


@router.post("/adapters/{name}/pin", openapi_extra=_door(LoadBody))
async def pin(request: Request, name: str) -> Response:
    """Load a version and keep it in memory, whoever else needs room; 409 where other pins leave it none."""
    return await _load(request, name, pin=True)


@router.post("/adapters/{name}/unpin", openapi_extra=_door(UnpinBody))
async def unpin(request: Request, name: str) -> Response:
    """Let a version leave memory again when its room is needed."""
    services, body = services_of(request), await _body(request, UnpinBody)
    item = _Item.of(_decide(services, request, name, body.reference))
    services.engine.get().unpin(item.handle)
    return await _told(services, item, 200)


@router.post("/adapters/{name}/unload", openapi_extra=_door(UnloadBody))
async def unload(request: Request, name: str) -> Response:
    """Free a version's memory: 200 when it is free, 202 while running requests finish on it; 409 while it is pinned."""
    services, body = services_of(request), await _body(request, UnloadBody)
    item = _Item.of(_decide(services, request, name, body.reference))
    unloading = services.engine.get().unload(item.handle, wait_s=body.wait_s, disk=body.disk)
    rows = await unless_gone(request.receive, unloading)
    return await _told(services, item, 202 if rows else 200)


def follow(slot: EngineSlot, before: Snapshot, after: Snapshot) -> None:
    """Bring to memory what aliases mean now where what they meant before is there, whoever moved them."""
    if (engine := slot.started) is None:
        return
    for key, view in after.adapters.items():
        if (old := before.adapters.get(key)) is None or old is view:
            continue
        for alias, version in view.aliases.items():
            meant = old.aliases.get(alias)
            if meant is None or meant.digest == version.digest:
                continue
            if version.base_digest == engine.outline.weights_digest and not version.forbidden:
                engine.moved(meant.digest, AdapterHandle(version.digest, version.tenant, version.label))


async def _load(request: Request, name: str, *, pin: bool) -> Response:
    services, body = services_of(request), await _body(request, LoadBody)
    decision, engine = _decide(services, request, name, body.reference), services.engine.get()
    require_servable(decision.versions, base=services.base, base_digest=engine.outline.weights_digest)
    item = _Item.of(decision)
    there = await unless_gone(request.receive, engine.load(item.handle, pin=pin, wait_s=body.wait_s))
    if pin:
        services.kept.leave(item.handle.digest)
    return await _told(services, item, 200 if there else 202)


async def _body(request: Request, body: Any) -> Any:
    return await read_json(request, services_of(request).settings.max_body_bytes, body, absent=b"{}")


def _decide(services: Services, request: Request, name: str, reference: str | None) -> Decision:
    """The version that the path and the body mean together."""
    reference = name if reference is None else reference
    asked = Asked(adapter_id=reference)
    found = choose(asked, tenant=tenant_of(request), base=services.base, versions=services.snapshots.current())
    if found.version is not None and found.version.tenant != tenant_of(request):
        raise UnknownModel(reference)  # a grant to call it is none to have it in memory
    if found.route != name:
        raise InvalidRequest(f"The reference {reference!r} is not of the adapter {name}.", field="reference")
    return found


async def _told(services: Services, item: _Item, status: int) -> Response:
    entry = await run_in_threadpool(lambda: _entry(services, item, _engine_view(services)))
    return JSONResponse(entry, status, {"retry-after": "1"} if status == 202 else None)


def _engine_view(services: Services) -> Mapping[str, Residency]:
    engine = services.engine.started
    return {} if engine is None else engine.residency()


def _page(services: Services, tenant: str, state: State | None, size: int, token: str) -> dict[str, Any]:
    view = _engine_view(services)
    items = sorted(_items(services, tenant, view), key=lambda item: item.place)
    if state not in (None, "disk", "stored"):  # spares looking for all others on the disk
        items = [item for item in items if item.handle.digest in view]
    begin = bisect_right(items, _place(token), key=lambda item: item.place) if token else 0
    told = ((item, _entry(services, item, view)) for item in items[begin:])
    found = list(islice((one for one in told if state in (None, one[1]["state"])), size + 1))
    name, sequence = found[size - 1][0].place if len(found) > size else ("", 0)
    token = f"{name}/{sequence}" if name else ""
    return {"adapters": [entry for _, entry in found[:size]], "next_page_token": token or None}


def _place(token: str) -> tuple[str, int]:
    name, _, sequence = token.rpartition("/")
    if not name or not sequence.isascii() or not sequence.isdigit() or len(sequence) > 18:
        raise InvalidRequest("page_token is not one that this list gave.", field="page_token")
    return name, int(sequence)


def _items(services: Services, tenant: str, view: Mapping[str, Residency]) -> Iterator[_Item]:
    snapshot, own = services.snapshots.current(), set[str]()
    for (owner, _), adapter in snapshot.adapters.items():
        if owner == tenant:
            for version in adapter.versions:
                own.add(version.digest)
                yield _Item(AdapterHandle(version.digest, tenant, version.label), version)
    for digest, one in view.items():
        if one.tenant == tenant and digest not in own:  # several together, under a digest of their own
            yield _Item(AdapterHandle(digest, tenant, one.label), None)


def _entry(services: Services, item: _Item, view: Mapping[str, Residency]) -> dict[str, Any]:
    """One line: what the engine says of the version, and what lies of it on the local disk and in the store."""
    handle, version = item.handle, item.version
    here = view.get(handle.digest)
    engine = services.engine.started
    form = engine.form_on_disk(handle) if engine is not None and version is not None else None
    copy = services.copies.find(handle.tenant, handle.digest) if version is not None else None
    tiers = {
        "memory": here.bytes if here is not None else 0,
        "form": form.bytes if form is not None else 0,
        "copy": copy.bytes if copy is not None else 0,
        "store": version.manifest.bytes if version is not None else 0,
    }
    used = [one.used_s for one in (here, form, copy) if one is not None and one.used_s is not None]
    return {
        "reference": handle.label,
        "adapter": version.adapter if version is not None else None,
        "version": version.semver if version is not None else None,
        "digest": handle.digest,
        "state": here.state if here is not None else "disk" if form or copy else "stored",
        "tiers": {tier: size for tier, size in tiers.items() if size},
        "pinned": here is not None and here.pinned,
        "rows": here.rows if here is not None else 0,
        "uses": here.uses if here is not None else 0,
        "last_used_at": _time(max(used)) if used else None,
        "loading_since": _time(here.since_s) if here is not None and here.state == "loading" else None,
        "failure": _failure(here) if here is not None and here.error is not None else None,
    }


def _failure(here: Residency) -> dict[str, Any]:
    assert here.error is not None, "it failed"
    return {
        "code": kind_of(here.error).code,
        "message": here.error.message,
        "problems": list(getattr(here.error, "problems", ())),
        "at": _time(here.since_s),
        "retry_at": _time(here.retry_s),
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
