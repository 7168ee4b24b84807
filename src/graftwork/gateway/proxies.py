"""Proxies: what a request says of its sender that only a proxy we trust may say."""

from __future__ import annotations

import re
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from graftwork.errors import InvalidRequest
from graftwork.gateway.services import services_of

_USER = re.compile(r"[\x21-\x7e]{1,256}", re.ASCII)


def from_trusted_proxy(scope: Scope, trusted: tuple[str, ...]) -> bool:
    """Whether who is connected to us is one of the setting `trusted_proxies`; what a forwarding header says does not
    count."""
    client = scope.get("client")
    if not trusted or client is None:
        return False
    try:
        peer = ip_address(client[0])
    except ValueError:  # a socket that is a file, or no socket at all
        return False
    mapped = getattr(peer, "ipv4_mapped", None) or peer
    return any(mapped in network for network in _networks(trusted))


def region_of(request: Request) -> str | None:
    """Where the request comes from, as the proxy says it."""
    return _said(request.scope, "x-region", services_of(request).settings.trusted_proxies)


def user_by_proxy(scope: Scope, trusted: tuple[str, ...]) -> str | None:
    """The person behind the request, as the proxy says it.

    Raises:
        InvalidRequest: what it says is no id.
    """
    user = _said(scope, "x-user-id", trusted)
    if user is not None and not _USER.fullmatch(user):
        raise InvalidRequest("X-User-Id must be 1 to 256 visible ASCII characters.", field="X-User-Id")
    return user


def _said(scope: Scope, header: str, trusted: tuple[str, ...]) -> str | None:
    value = Headers(scope=scope).get(header)
    return value if value and from_trusted_proxy(scope, trusted) else None


@cache
def _networks(trusted: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one) for one in trusted)
