"""Lifespan: an ASGI app's start-up and shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from graftwork.errors import Unavailable

Message = MutableMapping[str, Any]
ASGIApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class Lifespan:
    """Begins and ends one app; between them its lifespan waits in a task of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start the app up; raises Unavailable when it says that it failed."""
        self._task = asyncio.create_task(self._run())
        if not await self._say("startup"):
            self._task = None

    async def end(self) -> None:
        """Shut the app down, if it began."""
        if self._task is not None and not self._task.done():
            await self._say("shutdown")
            await self._task

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        await self._app(scope, self._to_app.get, self._from_app.put)

    async def _say(self, what: str) -> bool:
        """Whether the app answered; an app without a lifespan may just end."""
        assert self._task is not None, "begun"
        self._to_app.put_nowait({"type": f"lifespan.{what}"})
        answer = asyncio.ensure_future(self._from_app.get())
        await asyncio.wait({answer, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            self._task.result()
            return False
        message = answer.result()
        if message["type"] == f"lifespan.{what}.failed":
            raise Unavailable(f"The app's {what} failed: {message.get('message') or 'it does not say why'}")
        return True
