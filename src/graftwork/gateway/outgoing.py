"""Outgoing: sends one message to a URL that a tenant chose, at the very address that was looked at."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Final

import httpx

from graftwork.errors import InvalidRequest
from graftwork.registry.webhooks.outcome import Outcome
from graftwork.registry.webhooks.targets import check_url, problem_of
from graftwork.version import __version__

#: From the look-up of the name to the answer's status, all together.
TIMEOUT_S: Final = 10.0
#: Addresses of one host that are tried at most.
ADDRESSES: Final = 3

#: The addresses of a host, for a port.
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def addresses_of(host: str, port: int) -> list[str]:
    """Raises OSError where the name has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Outgoing:
    """Sends POSTs. It follows no redirect, uses no proxy, keeps no connection, and reads nothing of an answer's body.

    Args:
        private: whether targets may be private.
        resolve: looks a name up, once for each message.
        tls: what certificates are held against; those of the environment, or certifi's, when not given.
    """

    def __init__(
        self,
        *,
        private: bool,
        resolve: Resolve = addresses_of,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._private, self._resolve, self._timeout_s = private, resolve, timeout_s
        self._tls = tls or httpx.create_ssl_context()

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """What came of it; it raises nothing."""
        try:
            check_url(url, private=self._private)  # the setting may be another now
            async with asyncio.timeout(self._timeout_s):
                return await self._send(httpx.URL(url), headers, body)
        except TimeoutError:
            return Outcome(error=f"no answer within {self._timeout_s:g} s")
        except (OSError, UnicodeError):
            return Outcome(error="the name of the host is not known")
        except httpx.ConnectError as error:
            return Outcome(error=_why(error))
        except httpx.TransportError:  # its words may be those of whoever answered
            return Outcome(error="the connection broke, or what came is no HTTP")
        except InvalidRequest as error:
            return Outcome(error=error.message, refused=True)
        except (ValueError, httpx.InvalidURL):
            return Outcome(error="the url cannot be read", refused=True)

    async def _send(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Outcome:
        host = url.raw_host.decode("ascii")
        addresses = await self._resolve(host, url.port or {"http": 80, "https": 443}[url.scheme])
        if problem := problem_of(addresses, scheme=url.scheme, private=self._private):
            return Outcome(error=problem, refused=True)
        tried = addresses[:ADDRESSES]
        for address in tried[:-1]:
            try:
                return await self._post(url, host, address, headers, body)
            except httpx.ConnectError:
                continue
        return await self._post(url, host, tried[-1], headers, body)

    async def _post(self, url: httpx.URL, host: str, address: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        # The name is not looked up again: it could mean something else by now. Certificate and Host are the name's.
        request = httpx.Request(
            "POST",
            url.copy_with(host=address),
            headers={**headers, "host": url.netloc.decode("ascii"), "user-agent": f"graftwork/{__version__}"},
            content=body,
            extensions={"sni_hostname": host, "timeout": httpx.Timeout(self._timeout_s).as_dict()},
        )
        # A transport of its own: a kept connection to this address could be that of another name.
        async with httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False) as transport:
            response = await transport.handle_async_request(request)
            try:
                return Outcome(response.status_code, retry_after_s=_retry_after(response.headers.get("retry-after")))
            finally:
                await response.aclose()


def _why(error: httpx.ConnectError) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "the certificate of the host does not hold"
    return "there is no TLS at the host" if "SSL" in str(error) else "the host cannot be reached"


def _retry_after(said: str | None) -> float:
    """In seconds; 0 where it is not said, or cannot be read."""
    try:
        return max(0.0, float(said)) if said is not None else 0.0
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said or "").timestamp() - time())
    except (ValueError, OverflowError):
        return 0.0
