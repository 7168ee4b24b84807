"""Server: answers leave at once, and a client that stops reading is let go of, with all that its answer holds."""

from __future__ import annotations

import asyncio
import socket
import statistics
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from graftwork.gateway import server
from graftwork.gateway.disconnect import EventStream


@contextmanager
def served(app: ASGIApp) -> Iterator[tuple[str, int]]:
    """The address of an app that is served as a server serves it, in a thread."""
    listener = server._listen("127.0.0.1", 0)
    serving = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        serving.should_exit = True
        thread.join()
        listener.close()


def test_the_body_of_an_answer_does_not_wait_for_its_head_to_be_confirmed() -> None:
    with served(PlainTextResponse("hello")) as (host, port), httpx.Client(base_url=f"http://{host}:{port}") as http:
        taken = []
        for _ in range(9):
            began = time.perf_counter()
            assert http.get("/").text == "hello"
            taken.append(time.perf_counter() - began)
    assert statistics.median(taken) < 0.035, "with Nagle's algorithm it takes 40 ms on a connection that stays open"


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")
def test_a_client_that_stops_reading_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UNREAD_S", 0.3)
    made, closed = [0], threading.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                made[0] += 1
                yield b"data: " + b"x" * 65536 + b"\n\n"
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        source = endless()
        await EventStream(source, source=source, headers={})(scope, receive, send)

    with served(app) as address, socket.create_connection(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        assert closed.wait(20), "the answer goes on, and nobody reads it"
        assert time.monotonic() - began < 15
        assert made[0] < 1000, "what is written ahead is bounded by the system's buffers"
