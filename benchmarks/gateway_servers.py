"""The servers that gateway.py asks, each in a process of its own: the floor, and the whole gateway, on one engine.

    python benchmarks/gateway_servers.py '{"kind": "floor"}'

tells on one line of JSON where it listens and what it is to be asked, and serves until it is killed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Connection, Engine, event
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from graftwork.access.quotas import Quotas
from graftwork.access.tenants import LOCAL, Tenant
from graftwork.client import Client, InProcessTransport
from graftwork.engine.request import ChatPrompt, Delta, GenerationRequest
from graftwork.engine.sampling_params import SamplingParams
from graftwork.gateway.app import build_app
from graftwork.gateway.server import run_app
from graftwork.process import set_turns
from graftwork.protocol.routes import MAX_RULES, RouteSpec
from graftwork.settings import Settings
from graftwork.testing import FAKE_BASE, FakeEngine, fake_outline, write_lora

OLD, NEW = "1.0.0", "2.0.0"
#: What is rolled back, in turn.
ADAPTERS = ("tone", "voice")
HOST = "127.0.0.1"
#: What is asked, of whom: a key, a model, a user.
Ask = tuple[str | None, str, str]
_QUOTAS = Quotas(requests_per_minute=10**8, tokens_per_minute=10**10, concurrent=10**4, adapters=100)


@dataclass(frozen=True)
class Town:
    """Who lives in a registry: tenants with a key, quotas and an adapter each, and their routes."""

    tenants: int
    routes: int
    rules: int
    records: str = "relaxed"


@dataclass(frozen=True)
class Wanted:
    """A server to start: the floor, one with a town, or one of a pair, whose second finds adapters in the registry."""

    kind: Literal["floor", "town", "pair", "second"]
    home: Path | None = None
    database: str | None = None
    records: str = "relaxed"
    town: Town | None = None


@dataclass(frozen=True)
class Started:
    """Where a server listens, and what it is to be asked."""

    port: int
    asks: list[Ask] = field(default_factory=list)
    #: Of a route that has as many rules as one may have.
    large: list[Ask] = field(default_factory=list)
    settled_s: float = 0.0


@contextmanager
def started(wanted: Wanted) -> Iterator[Started]:
    """A server in a process of its own, which is gone at the end."""
    told = json.dumps(asdict(wanted), default=str)
    process = subprocess.Popen([sys.executable, __file__, told], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server could not start; what it said is above"
        yield Started(**json.loads(line))
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class EchoEngine(FakeEngine):
    """Answers at once with what it was told, in one piece, and remembers nothing."""

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta, None]:
        assert isinstance(request.prompt, ChatPrompt), "gateway.py chats"
        said = str(request.prompt.messages[-1]["content"])
        yield Delta(said, (0,), (), "stop", prompt_tokens=len(said) // 5, completion_tokens=1)


class Committed:
    """Says at `/committed` when this process last began to commit a rollback; all else it hands on.

    The clock is `time.perf_counter`, which processes share.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app, self._at, self._inside = app, 0.0, threading.local()
        registry = app.state.services.registry
        self._database, real = registry._database, registry.rollback

        def rollback(*given: Any, **named: Any) -> Any:
            self._inside.now = True
            try:
                return real(*given, **named)
            finally:
                self._inside.now = False

        registry.rollback = rollback
        event.listen(Engine, "commit", self._commits)

    def _commits(self, connection: Connection) -> None:
        """Called when all is written and nothing is committed; readers commit, too, and have nothing to."""
        inside = getattr(self._inside, "now", False)
        if inside and connection.engine is self._database._backend.writer:
            self._at = time.perf_counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = PlainTextResponse(repr(self._at)) if scope.get("path") == "/committed" else self._app
        await app(scope, receive, send)


class Floor:
    """The least that answers a chat over HTTP."""

    def __init__(self) -> None:
        self._engine = EchoEngine()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = bytearray()
        while (message := await receive()).get("more_body", False):
            raw += message["body"]
        body = json.loads(raw + message["body"])
        params = SamplingParams(max_tokens=body["max_tokens"])
        pieces = self._engine.generate(GenerationRequest("1", ChatPrompt(tuple(body["messages"])), params))
        text, last = "", None
        async for last in pieces:
            text += last.text
        assert last is not None, "an answer has a piece at least"
        answer = {
            "model": body["model"],
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": last.finish_reason}],
            "usage": {"prompt_tokens": last.prompt_tokens, "completion_tokens": last.completion_tokens},
        }
        content = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def main() -> None:
    told = json.loads(sys.argv[1])
    if told["kind"] == "floor":
        _serve_floor()
        return
    settings = Settings(
        home=Path(told["home"]),
        base=FAKE_BASE,
        base_name=FAKE_BASE,
        host=HOST,
        port=0,
        record_mode=told["records"],
        database_url=told["database"],
    )
    began = time.perf_counter()
    asks, large = _settle(settings, told)
    settled_s = round(time.perf_counter() - began, 1)
    set_turns()
    app = _app(settings)
    app.state.services.snapshots.current()  # as a server that has been asked before

    def announce(url: str) -> None:
        _tell(Started(int(url.rpartition(":")[2]), asks, large, settled_s))

    run_app(Committed(app), app.state.services.engine, settings, announce)


def _serve_floor() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else Nagle's algorithm is on
    listener.bind((HOST, 0))
    listener.listen()
    _tell(Started(listener.getsockname()[1], [(None, FAKE_BASE, "ann")], [(None, FAKE_BASE, "ann")]))
    set_turns()
    config = uvicorn.Config(
        Floor(), log_config=None, access_log=False, lifespan="off", server_header=False, proxy_headers=False
    )
    uvicorn.Server(config).run(sockets=[listener])


def _tell(started: Started) -> None:
    print(json.dumps(asdict(started)), flush=True)


def _app(settings: Settings) -> FastAPI:
    engine = EchoEngine()
    return build_app(settings, engine=engine, outline_of=lambda: engine.outline)


def _settle(settings: Settings, told: dict[str, Any]) -> tuple[list[Ask], list[Ask]]:
    """Fill the registry, and say what to ask."""
    if told["kind"] == "second":
        return [], []
    app = _app(settings)
    with httpx.Client(transport=InProcessTransport(app), base_url=f"http://{HOST}") as http:
        if told["kind"] == "town":
            return _fill(app, http, Town(**told["town"]), settings.home)
        for name in ADAPTERS:
            _push(http, settings.home, name, {})
    return [], []


def _fill(app: FastAPI, http: httpx.Client, town: Town, folder: Path) -> tuple[list[Ask], list[Ask]]:
    services = app.state.services
    keys = []
    for number in range(town.tenants):
        tenant = services.tenancy.tenants.create(Tenant(f"tenant-{number}", quotas=_QUOTAS), actor=LOCAL)[0].name
        scopes = ("inference", "read", "manage")
        token = services.tenancy.keys.create(tenant, name="", role="admin", scopes=scopes, actor=LOCAL)[1]
        _push(http, folder, "tone", {"authorization": f"Bearer {token}"})
        keys.append((tenant, token))
    asks: list[Ask] = []
    for number in range(town.routes):
        tenant, token = keys[number % len(keys)]
        services.routes.set(tenant, f"route-{number}", _spec(town.rules), actor=LOCAL)
        asks.append((token, f"route-{number}", f"user-{number}"))
    tenant, token = keys[0]
    services.routes.set(tenant, "large", _spec(MAX_RULES), actor=LOCAL)
    return asks, [(token, "large", f"user-{number}") for number in range(100)]


def _push(http: httpx.Client, folder: Path, name: str, headers: dict[str, str]) -> None:
    """Two versions of an adapter, the first in production."""
    http.headers.clear()
    http.headers.update(headers)
    client = Client(http=http)
    for seed, version in enumerate((OLD, NEW)):
        client.push(write_lora(folder / f"lora-{seed}", fake_outline(), seed=seed), f"{name}:{version}")
    client.promote(f"{name}:{OLD}")


def _spec(rules: int) -> RouteSpec:
    """Rules of several kinds, of which the last one decides: a canary of one in ten users."""
    conditions: list[dict[str, Any]] = [
        {"task": "task-{}"},
        {"locale": "fr"},
        {"headers": [{"name": "x-team", "exact": "team-{}"}]},
        {"user": "user-of-rule-{}"},
    ]
    made: list[dict[str, Any]] = []
    for number in range(rules - 1):
        match = json.loads(json.dumps(conditions[number % len(conditions)]).replace("{}", str(number)))
        made.append({"name": f"rule-{number}", "matches": [match], "targets": [{"reference": f"tone:{OLD}"}]})
    split = [{"reference": f"tone:{OLD}", "weight": 9, "arm": "stable"}]
    split.append({"reference": f"tone:{NEW}", "weight": 1, "arm": "canary"})
    made.append({"name": "rest", "targets": split})
    return RouteSpec.model_validate({"rules": made})


if __name__ == "__main__":
    main()
