"""Proxies: what a request says of its sender that only a proxy we trust may say."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.requests import Request

from graftwork.gateway.services import principal_of, services_of


def from_trusted_proxy(request: Request) -> bool:
    """Whether who is connected to us is one of the setting `trusted_proxies`; what a forwarding header says does not
    count."""
    trusted = _networks(services_of(request).settings.trusted_proxies)
    if not trusted or request.client is None:
        return False
    try:
        peer = ip_address(request.client.host)
    except ValueError:  # a socket that is a file, or no socket at all
        return False
    mapped = getattr(peer, "ipv4_mapped", None) or peer
    return any(mapped in network for network in trusted)


def region_of(request: Request) -> str | None:
    """Where the request comes from, as the proxy says it."""
    return _said(request, "x-region")


def user_of(request: Request) -> str | None:
    """The person behind the request: by their key, or as the proxy says it."""
    return principal_of(request).user or _said(request, "x-user-id")


def _said(request: Request, header: str) -> str | None:
    value = request.headers.get(header)
    return value if value and from_trusted_proxy(request) else None


@cache
def _networks(trusted: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one) for one in trusted)
