"""The in-process transport: real streaming, real disconnects, a lifespan, errors in the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
import pytest

from graftwork.client import InProcessTransport
from graftwork.errors import (
    Unavailable,
)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]


class RecordingApp:
    """Streams `chunks` and keeps what happened, in order; it has no lifespan."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self.log: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        self.log.append("head")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(self.chunks):
            self.log.append(f"made {number}")
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.log.append("end")


def with_lifespan(app: Any, log: list[str], *, fail: bool = False) -> Any:
    """`app` with a lifespan that is written to `log`."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        assert (await receive())["type"] == "lifespan.startup"
        log.append("startup")
        if fail:
            await send({"type": "lifespan.startup.failed", "message": "no database"})
            return
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        log.append("shutdown")
        await send({"type": "lifespan.shutdown.complete"})

    return wrapped


def client_of(app: Any) -> httpx.Client:
    return httpx.Client(transport=InProcessTransport(app), base_url="http://app")


def no_lifespan(app: Any) -> Any:
    return with_lifespan(app, [])


def test_the_first_chunk_is_there_before_the_last_is_made() -> None:
    app = RecordingApp(chunks=20)
    with client_of(no_lifespan(app)) as http, http.stream("GET", "/") as response:
        chunks = response.iter_raw()
        assert next(chunks) == b"0"
        assert "made 19" not in app.log
        assert list(chunks)[-1] == b"19"
        assert app.log[-1] == "end"


def test_an_app_is_never_far_ahead_of_its_reader() -> None:
    app = RecordingApp(chunks=1000)
    with client_of(no_lifespan(app)) as http, http.stream("GET", "/") as response:
        chunks = response.iter_raw()
        for _ in range(10):
            next(chunks)
        assert len(app.log) < 40


def test_closing_early_is_a_disconnect_that_the_app_hears() -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        heard.append((await receive())["type"])

    with client_of(no_lifespan(app)) as http:
        with http.stream("GET", "/") as response:
            assert next(response.iter_raw()) == b"first"
            assert heard == []
        assert heard == ["http.disconnect"]


def test_two_streams_on_one_client_take_turns() -> None:
    app = RecordingApp(chunks=12)
    with client_of(no_lifespan(app)) as http, http.stream("GET", "/") as one, http.stream("GET", "/") as two:
        pairs = list(zip(one.iter_raw(), two.iter_raw(), strict=True))
    assert pairs[-1] == (b"11", b"11")


def test_the_lifespan_begins_with_the_first_call_and_ends_with_close() -> None:
    log: list[str] = []
    http = client_of(with_lifespan(RecordingApp(chunks=1), log))
    assert log == []
    http.get("/")
    http.get("/")
    assert log == ["startup"]
    http.close()
    assert log == ["startup", "shutdown"]


def test_a_failed_startup_says_why() -> None:
    with (
        client_of(with_lifespan(RecordingApp(chunks=1), [], fail=True)) as http,
        pytest.raises(Unavailable, match="no database"),
    ):
        http.get("/")


def test_an_upload_is_streamed_and_may_be_left_unread() -> None:
    seen: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b"no", "more_body": False})

    made: list[int] = []

    def body() -> Any:
        for number in range(100):
            made.append(number)
            yield b"%d" % number

    with client_of(no_lifespan(app)) as http:
        response = http.post("/", content=body())
    assert (response.status_code, response.content, seen, len(made)) == (413, b"no", [b"0"], 1)


def test_an_app_that_breaks_raises_in_the_caller() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    with client_of(no_lifespan(app)) as http, pytest.raises(ZeroDivisionError):
        http.get("/")


def test_an_app_that_stops_midway_is_a_broken_answer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    with (
        client_of(no_lifespan(app)) as http,
        pytest.raises(httpx.RemoteProtocolError, match="before its answer"),
    ):
        http.get("/")


def test_inside_a_running_event_loop_it_says_what_to_do_instead() -> None:
    async def call() -> None:
        with (
            client_of(no_lifespan(RecordingApp(chunks=1))) as http,
            pytest.raises(Unavailable, match="give Client its url"),
        ):
            http.get("/")

    asyncio.run(call())
