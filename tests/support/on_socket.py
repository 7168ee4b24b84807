"""on_socket: an app behind a real socket, in a thread: what it does beside its requests goes on between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from graftwork.gateway.router import make_doors
from support.waiting import eventually


@contextmanager
def on_socket(app: FastAPI) -> Iterator[str]:
    """Its URL; it ends when the block does."""
    make_doors()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
