"""InProcessTransport: an ASGI app as an httpx transport: synchronous, streaming, with its own event loop.

httpx's own ASGI transport collects a whole answer before it shows any of it. Here the loop runs only while
the caller waits for something: the head of an answer, or its next chunk. Between calls the app stands still;
there is no thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Any

import httpx

from graftwork.client.lifespan import ASGIApp, Lifespan, Message
from graftwork.errors import Unavailable

#: Chunks that an app may be ahead of its reader.
_AHEAD = 8
_FAREWELL_S = 30.0
#: An ASGI extension that no server sets: whoever made the app in this process asks, and no key is wanted of them.
IN_PROCESS = "graftwork.in_process"


class InProcessTransport(httpx.BaseTransport):
    """Drives `app` while called; its lifespan begins with the first request and ends with `close`.

    Raises, beside what the app raises:
        Unavailable: the app's start-up failed, or the calling thread already runs an event loop.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lifespan: Lifespan | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        loop = self._started()
        exchange = _Exchange(request)
        exchange.task = loop.create_task(_run(self._app, _scope(request, self._state), exchange))
        try:
            loop.run_until_complete(exchange.head())
        except BaseException:
            loop.run_until_complete(exchange.leave())
            raise
        return httpx.Response(exchange.status, headers=exchange.headers, stream=_Body(loop, exchange))

    def close(self) -> None:
        """End the app's lifespan and the loop; answers that are still open are cut off."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            if self._lifespan is not None:
                loop.run_until_complete(self._lifespan.end())
            loop.run_until_complete(_cancel_all())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            self._lifespan = None
            loop.close()

    @property
    def _state(self) -> dict[str, Any]:
        return self._lifespan.state if self._lifespan is not None else {}

    def _started(self) -> asyncio.AbstractEventLoop:
        if _loop_is_running():
            raise Unavailable("An event loop runs in this thread already; serve the app and give Client its url.")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._lifespan = Lifespan(self._app)
            try:
                self._loop.run_until_complete(self._lifespan.begin())
            except BaseException:
                self.close()
                raise
        return self._loop


class _Exchange:
    """One request and its answer, seen from the app's side (`receive`, `send`) and from the reader's."""

    def __init__(self, request: httpx.Request) -> None:
        assert isinstance(request.stream, httpx.SyncByteStream), "a sync client sends sync bodies"
        self._upload = iter(request.stream)
        self._missing = _body_length(request)
        self._uploaded = self._left = self._complete = False
        self._chunks: deque[bytes] = deque()
        self._news, self._room, self._leaving = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self.task: asyncio.Task[None] | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    async def receive(self) -> Message:
        if not self._uploaded and not self._left:
            chunk = next(self._upload, None) if self._missing != 0 else None
            if self._missing is not None:
                self._missing -= len(chunk or b"")
            self._uploaded = chunk is None or self._missing == 0
            return {"type": "http.request", "body": chunk or b"", "more_body": not self._uploaded}
        await self._leaving.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
            self._news.set()
        elif message["type"] == "http.response.body" and not self._left:
            if body := bytes(message.get("body", b"")):
                self._chunks.append(body)
            self._complete = not message.get("more_body", False)
            if self._complete:
                self._leaving.set()  # as servers do: after the whole answer the exchange is over
            self._news.set()
            if len(self._chunks) >= _AHEAD and not self._complete:
                self._room.clear()
                await self._room.wait()

    async def head(self) -> None:
        """Return when the status is there; raises what the app raised instead."""
        while not self.status:
            await self._wait()

    async def chunk(self) -> bytes | None:
        """The next part of the body, or None after the last."""
        while not self._chunks:
            if self._complete:
                await self._finish()
                return None
            await self._wait()
        chunk = self._chunks.popleft()
        self._room.set()
        return chunk

    async def leave(self) -> None:
        """Tell the app that its reader is gone, and let it clean up."""
        self._left = True
        self._leaving.set()
        self._room.set()
        await self._finish()

    async def _finish(self) -> None:
        assert self.task is not None, "set before the exchange is driven"
        done, _ = await asyncio.wait({self.task}, timeout=_FAREWELL_S)
        if not done:
            self.task.cancel()
            await asyncio.wait({self.task})
        if not self.task.cancelled() and (error := self.task.exception()) is not None and not self._left:
            raise error

    async def _wait(self) -> None:
        """Until something new was sent; raises when the app ends without having said all."""
        assert self.task is not None, "set before the exchange is driven"
        self._news.clear()
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({news, self.task}, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        if self.task.done() and not self._complete and not self._chunks:
            self.task.result()
            raise httpx.RemoteProtocolError("The app ended before its answer was complete.")


class _Body(httpx.SyncByteStream):
    """The answer's body: each chunk is made while it is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, exchange: _Exchange) -> None:
        self._loop = loop
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._loop.run_until_complete(self._exchange.chunk())) is not None:
            yield chunk

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._exchange.leave())


async def _run(app: ASGIApp, scope: MutableMapping[str, Any], exchange: _Exchange) -> None:
    await app(scope, exchange.receive, exchange.send)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _scope(request: httpx.Request, state: dict[str, Any]) -> MutableMapping[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port or 80),
        "client": ("127.0.0.1", 0),
        "state": dict(state),
        "extensions": {IN_PROCESS: {}},
    }


def _body_length(request: httpx.Request) -> int | None:
    """Bytes of the request's body; None where only its end will tell."""
    if "transfer-encoding" in request.headers:
        return None
    return int(request.headers.get("content-length", "0"))


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
