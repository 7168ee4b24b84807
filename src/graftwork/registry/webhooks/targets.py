"""Targets: to which URLs and addresses anything may be sent. A tenant chooses them, and the server stands elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from graftwork.errors import InvalidRequest

Address = IPv4Address | IPv6Address

#: Below this only the port of HTTPS: what else listens there speaks something else.
LEAST_PORT: Final = 1024
HTTPS_PORT: Final = 443
_FIELD: Final = "url"

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
#: An IPv4 address stands in the last 32 bits (RFC 6052); the local prefix of RFC 8215 is never public.
_NAT64: Final = IPv6Network("64:ff9b::/96")
#: Beside what Python knows: protocol assignments (RFC 6890), of which older ones know a part, relays of 6to4, and
#: what in Azure's addresses is the machine's own host.
_NOT_PUBLIC: Final = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("168.63.129.16/32"),
)
#: Addresses that hide an IPv4 address or a relay, and documentation (RFC 9637), which older Pythons do not know.
_NOT_PUBLIC_6: Final = (IPv6Network("2001::/23"), IPv6Network("2002::/16"), IPv6Network("3fff::/20"))


def check_url(url: str, *, private: bool) -> None:
    """Raises InvalidRequest for a URL to which nothing will ever be sent.

    Args:
        private: whether targets may be private, and then plain HTTP to loopback.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused("it cannot be read") from None
    if not url.isascii() or not url.isprintable() or " " in url or not host or "\\" in url:
        raise _refused("it must be https://HOST/PATH in ASCII (a name of other letters is written xn--…)")
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise _refused("it must be https")
    if parts.username is not None or parts.password is not None or "#" in url:
        raise _refused("it must have no user, no password and no fragment: deliveries are signed instead")
    if not private and port is not None and port != HTTPS_PORT and port < LEAST_PORT:
        raise _refused(f"its port must be {HTTPS_PORT}, or {LEAST_PORT} and above")
    try:
        literal = ip_address(host)
    except ValueError:
        return  # a name: what it means is looked at when something is sent
    if problem := problem_of([str(literal)], scheme=parts.scheme, private=private):
        raise _refused(problem)


def problem_of(addresses: Sequence[str], *, scheme: str, private: bool) -> str | None:
    """Why nothing is sent to a host that has these addresses: all must be allowed, and which one is not is not told."""
    found = [ip_address(one) for one in addresses]
    if not found:
        return "its host has no address"
    if scheme == "http" and not all(_plain(one).is_loopback for one in found):
        return "http is for loopback only; elsewhere it must be https"
    if private or all(map(is_public, found)):
        return None
    return "its host has an address that is not public; the setting webhook_private_targets would allow that"


def is_public(address: Address) -> bool:
    """Whether it is one host of the internet: not private, loopback, link-local, multicast or reserved."""
    address = _plain(address)
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not any(address in one for one in _NOT_PUBLIC)
    return (
        address in _GLOBAL_UNICAST
        and address.is_global
        and address.scope_id is None
        and not any(address in one for one in _NOT_PUBLIC_6)
    )


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(f"The url of a webhook cannot be used: {what}.", field=_FIELD)
