"""A server that is told to stop does not wait for those who follow its events."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import uvicorn

from graftwork.gateway import server
from support.served import Served

GRACE_S = 20.0


def test_followers_do_not_hold_up_a_server_that_stops(served: Served) -> None:
    listener = server._listen("127.0.0.1", 0)
    config = uvicorn.Config(served.app, log_config=None, lifespan="off", timeout_graceful_shutdown=int(GRACE_S))
    serving = server._Server(config, served.app.state.services.engine, "here", GRACE_S)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        url = f"http://127.0.0.1:{_port(listener)}/api/v1/events?follow=true"
        with httpx.stream("GET", url, timeout=20) as answer:
            chunks = answer.iter_text()
            assert next(chunks).startswith("retry:")
            began = time.monotonic()
            serving.should_exit = True
            assert list(chunks) == []  # a whole answer, not one that was cut
        thread.join()
        assert time.monotonic() - began < GRACE_S / 2
    finally:
        serving.should_exit = True
        thread.join()
        listener.close()


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port
