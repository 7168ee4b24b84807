"""Server: a client that stops reading is let go of, with all that its answer holds."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from graftwork.gateway import server
from graftwork.gateway.disconnect import EventStream

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")


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

    listener = server._listen("127.0.0.1", 0)
    serving = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            began = time.monotonic()
            assert closed.wait(20), "the answer goes on, and nobody reads it"
            assert time.monotonic() - began < 15
            assert made[0] < 1000, "what is written ahead is bounded by the system's buffers"
    finally:
        serving.should_exit = True
        thread.join()
        listener.close()
