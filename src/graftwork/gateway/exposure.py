"""exposure: where a server may listen, and by which names it may be spoken to."""

from __future__ import annotations

from ipaddress import ip_address

from graftwork.access.access import Access
from graftwork.access.clock import timestamp, utc_now
from graftwork.errors import InvalidRequest, Refused
from graftwork.settings import Settings

#: What a browser on the server's own machine calls it; a page of elsewhere cannot have one of these names.
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private(settings: Settings) -> bool:
    """Whether only people on this machine can be asking: it is then open while nobody made a key."""
    return is_loopback(settings.host) and not settings.is_behind_proxy


def names_of(settings: Settings) -> frozenset[str] | None:
    """The names in `Host` that are answered; None for any."""
    if not settings.allowed_hosts and not is_private(settings):
        return None  # where nobody gets in without a key, another site's page does not either
    own = f"[{settings.host}]" if ":" in settings.host else settings.host
    return LOOPBACK_NAMES | {own.lower()} | {name.lower() for name in settings.allowed_hosts}


def check_host(host: str, names: frozenset[str] | None) -> None:
    """Raises InvalidRequest where a request was meant for another name, and led here (DNS rebinding)."""
    name = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if names is not None and name.lower() not in names:
        raise InvalidRequest(
            f"This server does not answer to the name {name[:80]!a}; add it to allowed_hosts if it should.",
            field="Host",
        )


def check_exposure(settings: Settings, access: Access) -> None:
    """Make sure that what others reach asks who they are, on connections that cannot be read.

    Raises:
        Refused: what is missing, and how to bring it about.
    """
    if is_private(settings):
        return
    problems = []
    if not access.has_admin(timestamp(utc_now())):
        problems.append("there is no API key of an administrator: make one with `graftwork key create --admin`")
    if settings.tls_cert is None and not settings.is_behind_proxy:
        problems.append(
            "nothing encrypts the connections: give --tls-cert and --tls-key, or say --behind-proxy where a proxy does"
        )
    if problems:
        raise Refused(
            f"Others than this machine would reach {settings.host}, but {'; and '.join(problems)}.", problems=problems
        )
