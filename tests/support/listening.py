"""Listening: a whole server on a real engine behind a real socket, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.create import create_engine
from graftwork.gateway.app import build_app
from graftwork.gateway.engine_slot import Stage
from graftwork.settings import Settings
from support.fixtures import Tiny

_START_S = 60.0


@dataclass(frozen=True)
class Listening:
    """Where it listens, and what it serves with."""

    port: int
    engine: AsyncEngine
    home: Path
    _server: uvicorn.Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def held(self) -> dict[str, Any]:
        """What some request still holds: rows, pages, pins, streams, connections, files of its upload."""
        stats = self.engine.stats()
        opened = [str(found.readlink()) for found in Path("/proc/self/fd").iterdir() if found.is_symlink()]
        everything = {
            "running": stats.running,
            "waiting": stats.waiting,
            "pages": stats.kv_pages_used,
            "pins": stats.adapters_pinned,
            "streams": self.engine._streams,
            "connections": self._server.server_state.connections,
            "files": [path for path in opened if path.startswith(str(self.home)) and "graftwork.db" not in path],
        }
        return {name: found for name, found in everything.items() if found}


@contextmanager
def listening(tiny: Tiny, settings: Settings) -> Iterator[Listening]:
    """Started and ready; it ends when the block does."""
    engines: list[AsyncEngine] = []

    def make_engine(settings: Settings, source: object, stage: Stage) -> AsyncEngine:
        engines.append(create_engine(settings, tiny.base, source, stage))  # type: ignore[arg-type]
        return engines[0]

    app = build_app(settings, make_engine=make_engine, outline_of=lambda: tiny.outline)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), name="server")
    thread.start()
    try:
        deadline = time.monotonic() + _START_S
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Listening(port, engines[0], settings.home, server)
    finally:
        server.should_exit = True
        thread.join()
