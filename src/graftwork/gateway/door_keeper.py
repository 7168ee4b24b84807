"""DoorKeeper: before all doors: by which name the server was called, who is asking, and whether they may now."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graftwork.access.access import Access
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.principal import LOCAL_ADMIN, Principal
from graftwork.access.quotas import Room
from graftwork.access.tenants import Tenant
from graftwork.client.in_process import IN_PROCESS
from graftwork.errors import GraftworkError, Unauthenticated
from graftwork.gateway.errors import answer_error
from graftwork.gateway.exposure import check_host, is_private, names_of
from graftwork.gateway.proxies import user_by_proxy
from graftwork.gateway.services import Services

#: Answered whoever asks, whatever state the registry is in.
_FOR_ALL: Final = frozenset({"/health", "/ready", "/openapi.json"})
#: Doors of inference, also those of one route; what is said of an answer is none.
_INFERENCE: Final = re.compile(r"(/r/[^/]+)?/v1/(?!feedback$).+")
#: One and the same for no key, an unknown, a wrong, an expired and a revoked one.
_WHO = "Give a valid API key, as the header `Authorization: Bearer gw_…`."


class DoorKeeper:
    """Puts a `Principal` into `request.state`, from the snapshot alone, and keeps tenants to their quotas.

    Without keys, a server that only its own machine reaches takes everyone for its administrator. Whoever made the app
    in their own process is that, keys or not.
    """

    def __init__(self, app: ASGIApp, services: Services, clock: Clock = utc_now) -> None:
        self._app, self._services, self._clock = app, services, clock
        settings = services.settings
        self._names, self._private = names_of(settings), is_private(settings)
        self._trusted = settings.trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _FOR_ALL:
            await self._app(scope, receive, send)
            return
        try:
            access = self._services.snapshots.current().part(Access)
            principal = self._identify(scope, access)
        except GraftworkError as error:
            await answer_error(scope["path"], error)(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        if _is_inference(scope):
            await self._within_quotas(access.tenant(principal.tenant), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _identify(self, scope: Scope, access: Access) -> Principal:
        headers = Headers(scope=scope)
        in_process = IN_PROCESS in (scope.get("extensions") or {})
        if not in_process:
            check_host(headers.get("host", ""), self._names)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if (in_process and not token) or (self._private and not access.is_set_up):
            principal: Principal | None = LOCAL_ADMIN
        else:
            principal = access.identify(token.strip() if kind.lower() == "bearer" else "", timestamp(self._clock()))
        if principal is None:
            raise Unauthenticated(_WHO)
        if principal.user is None and (user := user_by_proxy(scope, self._trusted)) is not None:
            return replace(principal, user=user)
        return principal

    async def _within_quotas(self, asking: Tenant, scope: Scope, receive: Receive, send: Send) -> None:
        quotas, tenant = self._services.quotas, asking.name

        async def send_told(message: Message) -> None:
            if message["type"] == "http.response.start":
                tell(message, quotas.rooms(tenant))
            await send(message)

        try:
            quotas.enter(tenant, asking.quotas)
        except GraftworkError as error:
            await answer_error(scope["path"], error)(scope, receive, send_told)
            return
        try:
            await self._app(scope, receive, send_told)
        finally:
            quotas.leave(tenant)


def tell(message: MutableMapping[str, Any], rooms: list[Room]) -> None:
    """Add OpenAI's rate-limit headers to the beginning of an answer."""
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    for room in rooms:
        headers[f"x-ratelimit-limit-{room.what}"] = str(room.limit)
        headers[f"x-ratelimit-remaining-{room.what}"] = str(room.remaining)
        headers[f"x-ratelimit-reset-{room.what}"] = duration(room.reset_s)


def duration(seconds: float) -> str:
    """As OpenAI writes it: `6m0s`, `1s`, `20ms`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _is_inference(scope: Scope) -> bool:
    """Whether a request is one that quotas count: what has a model answer."""
    return scope["method"] == "POST" and _INFERENCE.fullmatch(scope["path"]) is not None
