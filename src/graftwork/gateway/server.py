"""Server: the app behind a socket; it says where it listens, and ends what it began when told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from graftwork.access.access import Access
from graftwork.errors import GraftworkError, Unavailable
from graftwork.gateway.app import build_app
from graftwork.gateway.engine_slot import EngineSlot
from graftwork.gateway.exposure import check_exposure
from graftwork.gateway.real_engine import make_engine
from graftwork.gateway.router import make_doors
from graftwork.process import set_turns
from graftwork.settings import Settings

log = logging.getLogger(__name__)

#: How long it may take, when `stop_grace_s` is over, to tell whoever still waits; then connections are cut, in seconds.
LAST_WORDS_S = 5
#: How long a client may leave unread what was sent to it before its connection is closed, in seconds.
UNREAD_S = 30


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; the base loads while /health and /ready answer already.

    Args:
        announce: called once with the URL, when connections are accepted; port 0 is a real one by then.

    Raises:
        Unavailable: the address cannot be listened on.
        Refused: others would reach it, without a key or in clear.
        GraftworkError: the base could not be loaded, or the engine broke.
    """
    set_turns()
    make_doors()
    app = build_app(settings, make_engine=make_engine, load_in_background=True)
    check_exposure(settings, app.state.services.snapshots.current().part(Access))
    run_app(app, app.state.services.engine, settings, announce)


def run_app(app: ASGIApp, slot: EngineSlot, settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve one built app; raises like `serve`."""
    listener = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=settings.log_level,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=math.ceil(settings.stop_grace_s) + LAST_WORDS_S,
        server_header=False,
        proxy_headers=False,  # who is connected to us is who it is; see `proxies.py`
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    url = _url(listener, "http" if settings.tls_cert is None else "https")
    announce(url)
    # uvicorn raises the signal again when it is done; this makes that an ordinary exit.
    before = {number: signal.signal(number, _exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _Server(config, slot, url, settings.stop_grace_s).run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()
    if slot.failure is not None:
        raise slot.failure if isinstance(slot.failure, GraftworkError) else Unavailable(str(slot.failure))


class _Server(uvicorn.Server):
    """Says once when it is ready, and stops by itself when the engine could not start or broke.

    What can never be ready must not look alive. When it is told to stop it takes nothing in any more, lets answers that
    are under way go on for `grace_s`, and then stops the engine: whoever still waits gets an error, in a stream as its
    last event, instead of a connection that is cut.
    """

    def __init__(self, config: uvicorn.Config, slot: EngineSlot, url: str, grace_s: float) -> None:
        super().__init__(config)
        self._slot, self._url, self._grace_s = slot, url, grace_s
        self._said_ready = False

    async def on_tick(self, counter: int) -> bool:
        if not self._said_ready and not self._slot.reasons():
            self._said_ready = True
            _settle_memory()
            log.info("ready at %s; Ctrl-C stops it", self._url)
        return await super().on_tick(counter) or self._slot.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._slot.closing = True
        ending = asyncio.create_task(self._end_answers())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_answers(self) -> None:
        await asyncio.sleep(self._grace_s)
        if self._slot.started is not None:
            log.warning("answers that are still under way after %g s end with an error", self._grace_s)
            await self._slot.stop()


def _settle_memory() -> None:
    """What is there when a server is ready stays. To look through all of it now and then for garbage would hold up
    every answer for a tenth of a second."""
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is said does asyncio turn Nagle's algorithm off. With it, the body of an answer waits for
    # the client to confirm its head, which on a connection that stays open takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it; it counts while the peer's window is shut
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise Unavailable(f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port.") from error
    return listener


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _exit(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
