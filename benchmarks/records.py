"""What a record adds to an answer: the gateway on a fake engine, without records, behind the answers, and before them.

One client asks the three servers in turn, so that whatever else the machine does falls on all of them.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from starlette.types import ASGIApp, Message, Scope

from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FAKE_BASE, FakeEngine
from script import parser, report

MODES: tuple[Literal["off", "relaxed", "strict"], ...] = ("off", "relaxed", "strict")
#: Requests to one server before the next has its turn.
BLOCK = 50
BODY = json.dumps({"messages": [{"role": "user", "content": "word " * 60}], "user": "ann", "max_tokens": 8}).encode()
PATH = "/v1/chat/completions"
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
SCOPE: Scope = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": PATH,
    "raw_path": PATH.encode(),
    "query_string": b"",
    "headers": HEADERS,
    "client": ("127.0.0.1", 1),
    "server": ("127.0.0.1", 80),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--requests", type=int, default=2000, help="to each server")
    given = options.parse_args()
    report(given, asyncio.run(measure(given.requests)))


async def measure(count: int) -> dict[str, Any]:
    """Milliseconds of a request by mode, and what its record adds."""
    async with AsyncExitStack() as stack:
        apps: dict[str, ASGIApp] = {}
        for mode in MODES:
            home = Path(stack.enter_context(TemporaryDirectory(prefix="graftwork-bench-")))
            engine = FakeEngine()
            settings = Settings(home=home, base=FAKE_BASE, base_name=FAKE_BASE, record_mode=mode)
            app = build_app(settings, engine=engine, outline_of=lambda engine=engine: engine.outline)  # type: ignore[misc]
            await stack.enter_async_context(app.router.lifespan_context(app))
            apps[mode] = app
        taken: dict[str, list[float]] = {mode: [] for mode in MODES}
        for number in range(-1, count // BLOCK):  # the first to warm up
            for name, asgi in apps.items():
                for _ in range(BLOCK):
                    began = time.perf_counter()
                    assert await ask(asgi) == 200
                    if number >= 0:
                        taken[name].append(1000 * (time.perf_counter() - began))
    figures = {mode: {"p50_ms": statistics.median(of), "p99_ms": _percentile(of, 99)} for mode, of in taken.items()}
    for mode in MODES[1:]:
        for name in ("p50_ms", "p99_ms"):
            figures[mode][f"added_{name}"] = figures[mode][name] - figures["off"][name]
    return {"requests": count, **figures}


async def ask(app: ASGIApp) -> int:
    """One request, to its last byte; its status."""
    status, sent = 0, False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    await app({**SCOPE, "state": {}}, receive, send)
    return status


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


if __name__ == "__main__":
    main()
