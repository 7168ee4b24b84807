"""Wire: sends one request and turns what goes wrong into our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from graftwork.client.in_process import InProcessTransport
from graftwork.client.lifespan import ASGIApp
from graftwork.errors import InvalidRequest, Unavailable
from graftwork.protocol.errors import error_from

Json = dict[str, Any]
_IN_PROCESS = "http://in-process"


class Wire:
    """An httpx client for a server at `url`, or for an ASGI `app` in this process, or one of the caller's."""

    def __init__(
        self,
        url: str | None,
        app: ASGIApp | None,
        http: httpx.Client | None,
        timeout_s: float,
        api_key: str | None = None,
    ) -> None:
        if sum(given is not None for given in (url, app, http)) != 1:
            raise InvalidRequest("Give Client either a url, an app or an httpx.Client.", field="url")
        if http is not None:
            self._http = http
            return
        headers = {} if api_key is None else {"authorization": f"Bearer {_checked_key(api_key)}"}
        transport = InProcessTransport(app) if app is not None else None
        base_url = _checked(url) if url is not None else _IN_PROCESS
        self._http = httpx.Client(base_url=base_url, transport=transport, timeout=timeout_s, headers=headers)

    def json(self, method: str, path: str, **options: Any) -> Json:
        """The JSON object that a successful request answers with; raises like `send`."""
        body: Json = self.send(method, path, **options).json()
        return body

    def pages(self, path: str, field: str, **params: str) -> list[Json]:
        """The entries called `field` of all pages."""
        return [entry for page in self.each_page(path, **params) for entry in page[field]]

    def each_page(self, path: str, **params: str) -> Iterator[Json]:
        """All pages of a list, each asked for when it is wanted."""
        token = ""
        while True:
            page = self.json("GET", path, params=params | ({"page_token": token} if token else {}))
            yield page
            token = page.get("next_page_token") or ""
            if not token:
                return

    def send(self, method: str, path: str, *, stream: bool = False, **options: Any) -> httpx.Response:
        """A successful response.

        Raises:
            GraftworkError: of the type that the server's answer means; Unavailable where nobody answers.
        """
        response = self.open(method, path, stream=stream, **options)
        if response.is_success:
            return response
        body: object = None
        with suppress(ValueError):
            response.read()
            body = response.json()
        response.close()
        raise error_from(response.status_code, body, retry_after=response.headers.get("retry-after"))

    def open(self, method: str, path: str, *, stream: bool = False, **options: Any) -> httpx.Response:
        """The response, whatever its status; raises Unavailable where nobody answers.

        A name that is no part of a path (empty, or dots, by which one would ask of what lies above) is InvalidRequest.
        """
        if any(part in ("", ".", "..") for part in path.split("/")[1:]):
            raise InvalidRequest(f"{path!a} cannot be asked for: a name in it is empty, or nothing but dots.")
        try:
            request = self._http.build_request(method, path, **options)
        except (ValueError, TypeError, RecursionError) as error:  # NaN is no JSON, half a surrogate pair no text
            raise InvalidRequest(f"The request cannot be sent as JSON: {error}.") from error
        try:
            return self._http.send(request, stream=stream)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        self._http.close()

    def _unreachable(self, error: Exception) -> Unavailable:
        reason = str(error) or type(error).__name__
        return Unavailable(f"No answer from {self._http.base_url}: {reason}. Is a server running there?")


def _checked_key(api_key: str) -> str:
    if api_key.isascii() and api_key.isprintable() and " " not in api_key:
        return api_key
    raise InvalidRequest("The API key has characters in it that no key has.", field="api_key")


def _checked(url: str) -> str:
    """`url` without the `/v1` that OpenAI's clients want at its end."""
    url = url.rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parsed = urlsplit(url)
        if parsed.scheme in ("http", "https") and parsed.hostname and (parsed.port or 1) > 0:
            httpx.URL(url)
            return url
    except (ValueError, httpx.InvalidURL):
        pass
    raise InvalidRequest(f"The url {url!r} is not one like http://127.0.0.1:8080.", field="url")
