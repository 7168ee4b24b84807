"""Recorder: has every inference answered with a record of it: behind the answer, or before its end leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.principal import Principal
from graftwork.errors import GraftworkError, Unavailable
from graftwork.gateway.draft import Draft
from graftwork.gateway.errors import CLIENT_CLOSED_REQUEST, answer_error, sse_error
from graftwork.gateway.in_thread import in_thread
from graftwork.registry.snapshot import Snapshot
from graftwork.telemetry import Telemetry
from graftwork.traffic.decision import Asked
from graftwork.traffic.records.entry import Entries, Entry
from graftwork.traffic.records.journal import Journal
from graftwork.traffic.records.recording import Mode, RecordingRules
from graftwork.traffic.records.records import Records

log = logging.getLogger(__name__)

#: Longest that the end of an answer waits for its record in the mode `strict`, in seconds.
STRICT_S: Final = 10.0
#: How often records are looked through for those that are kept no longer, in seconds.
SWEEP_S: Final = 60.0


class Recorder:
    """Owns the journal. `mode` is the server's own, `engine` what answers here, for the records."""

    def __init__(
        self,
        entries: Entries,
        records: Records,
        telemetry: Telemetry,
        *,
        mode: Mode,
        base: str,
        engine: str,
        clock: Clock = utc_now,
    ) -> None:
        self._entries, self._records, self._counter = entries, records, telemetry.prediction_records
        self._mode, self._base, self._engine, self._clock = mode, base, engine, clock
        self._journal = Journal(self._write, dropped=self._counter.labels("dropped").inc)

    def open(
        self, request: Request, principal: Principal, asked: Asked, snapshot: Snapshot, *, user: str | None
    ) -> Draft:
        """The draft of a request that is decided on `snapshot`; it is written when the request has ended.

        `user` is whom the body names: an application's own word for whom it asks, where nobody else says who that is.
        """
        named = asked.adapter_id or asked.header or asked.model or asked.route
        draft = Draft(
            request_id=request.state.request_id,
            principal=principal,
            door=request.scope["route"].path,
            at=timestamp(self._clock()),
            position=snapshot.position,
            recording=snapshot.part(RecordingRules).of(principal.tenant, self._mode),
            engine=self._engine,
            base=self._base,
            user_id=asked.seen.user or user,
            session_id=asked.seen.session,
            asked=named or "+".join(reference for reference, _ in asked.adapters) or None,
            size=request.state.body_bytes,
        )
        request.state.draft = draft
        return draft

    async def settle(self, draft: Draft, status: int) -> None:
        """The request has ended, but for what is still to be sent.

        Raises:
            Unavailable: the tenant wants its records before the answers, and this one could not be written.
        """
        draft.settled = True
        entry = draft.entry(status, gone=status == CLIENT_CLOSED_REQUEST)
        if draft.recording.mode != "strict":
            self._journal.put(entry)
            return
        try:
            async with asyncio.timeout(STRICT_S):
                await asyncio.wrap_future(self._journal.commit(entry))
        except Exception as error:
            raise Unavailable(
                "The record of this answer could not be written, and without one nothing is answered here; try again."
            ) from error

    def leave(self, draft: Draft, *, gone: bool) -> None:
        """The request has ended without its answer: its caller is gone, or we failed."""
        draft.settled = True
        self._journal.put(draft.entry(CLIENT_CLOSED_REQUEST if gone else 500, gone=gone))

    async def flush(self) -> None:
        """Return when what was answered before can be read, or cannot be written now."""
        with suppress(Exception):
            async with asyncio.timeout(STRICT_S):
                await asyncio.wrap_future(self._journal.flush())

    async def keep_swept(self) -> None:
        """Let go what is kept no longer, now and then, without end."""
        while True:
            try:
                await in_thread(self._records.sweep)
            except GraftworkError:
                pass  # the next time
            except Exception:
                log.exception("Old records of answers could not be let go; it is tried again.")
            await asyncio.sleep(SWEEP_S)

    def close(self) -> None:
        """Write what waits."""
        self._journal.close()

    def _write(self, entries: Sequence[Entry]) -> None:
        self._entries.write(entries)
        self._counter.labels("stored").inc(len(entries))


class Recorded:
    """The layer that sees answers leave: it settles each draft before the end of its answer does.

    `ended` is told of each draft when its answer has left, or its caller has.
    """

    def __init__(self, app: ASGIApp, recorder: Recorder, ended: Callable[[Draft], None]) -> None:
        self._app, self._recorder, self._ended = app, recorder, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer, gone = _Answer(self._recorder, scope, receive, send), True
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            gone = False
            raise
        finally:
            draft: Draft | None = scope["state"].get("draft")
            if draft is not None and not draft.settled:
                self._recorder.leave(draft, gone=gone)
            if draft is not None and not answer.withheld:
                self._ended(draft)


class _Answer:
    """One answer on its way out."""

    def __init__(self, recorder: Recorder, scope: Scope, receive: Receive, send: Send) -> None:
        self._recorder, self._scope, self._receive, self._send = recorder, scope, receive, send
        self._status = 0
        self._failed = False

    @property
    def withheld(self) -> bool:
        """Whether an error was sent in its place."""
        return self._failed

    async def send(self, message: Message) -> None:
        if self._failed:
            return
        starts = message["type"] == "http.response.start"
        if starts:
            self._status = message["status"]
        draft: Draft | None = self._scope["state"].get("draft")
        if draft is not None and not draft.settled and self._ends(draft, message, starts=starts):
            if draft.failure is None:
                draft.failure = self._scope["state"].get("error")
            try:
                await self._recorder.settle(draft, self._status)
            except Unavailable as error:
                if self._status < 400:
                    await self._fail(error, started=not starts, streamed=draft.streamed)
                    return
                log.warning("request %s: %s", draft.request_id, error.message)
        await self._send(message)

    def _ends(self, draft: Draft, message: Message, *, starts: bool) -> bool:
        """Whether the answer's end is about to leave; a whole answer ends with its head, while it can still fail."""
        if starts:
            return self._status >= 400 or not draft.streamed
        return draft.complete or draft.failure is not None or not message.get("more_body", False)

    async def _fail(self, error: Unavailable, *, started: bool, streamed: bool) -> None:
        self._failed = True
        if not started:
            await answer_error(self._scope["path"], error)(self._scope, self._receive, self._send)
        elif streamed:
            await self._send({"type": "http.response.body", "body": sse_error(error), "more_body": False})
        else:
            raise error
