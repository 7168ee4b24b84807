"""Shadowing: sends copies of requests to the versions that shadow others: beside the requests, never in their way.

A copy is made when its answer has ended, so that nobody waits for one; it begins when nobody has been answered for a
moment, or, where that does not come soon, when nobody waits for a place: beside callers, copies run a small part of the
time. In the engine its rows are of a tenant of their own with a
small share, so that whoever asks comes first, and gives way first when memory is short. What is behind is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from graftwork.engine.request import AdapterHandle, Caller, GenerationRequest
from graftwork.errors import GraftworkError, TimedOut, Unavailable
from graftwork.gateway.answer_rows import AnswerRows, known_first
from graftwork.gateway.draft import Again, Draft
from graftwork.gateway.engine_slot import EngineSlot, GenerationEngine
from graftwork.protocol.errors import kind_of
from graftwork.telemetry import Telemetry
from graftwork.traffic.mirror import Shadow
from graftwork.traffic.records.journal import Journal
from graftwork.traffic.shadows.copied import Copied, Side
from graftwork.traffic.shadows.diff import TIMED_OUT
from graftwork.traffic.shadows.diffs import Diffs

log = logging.getLogger(__name__)

#: What came of a copy. `skipped` is what cannot be copied, or not here; `dropped` what there was no room or time for;
#: `no_turn` what waited for a place in the engine, before it began or put back behind callers, when its time was over:
#: that is nothing the version has done.
End = Literal["compared", "failed", "timed_out", "skipped", "dropped", "no_turn", "lost"]

#: How long nobody is to have been answered before a copy begins, in seconds: whoever asks one thing after the other
#: should not find copies in between.
QUIET_S: Final = 0.1
#: How long a copy waits for such a moment, in seconds; then for one at which nobody waits.
PATIENCE_S: Final = 1.0
#: Part of the time in which copies may run that did not find such a moment.
BESIDE: Final = 0.1
#: How often it is looked for one, in seconds.
LOOK_S: Final = 0.02
#: Part of the tenant's own weight that its copies have in the engine.
SHARE: Final = 0.01
#: Most answers to one request that are copied.
MOST_ROWS: Final = 8
#: Longest that who reads waits for what is being written, in seconds.
FLUSH_S: Final = 10.0
#: Most bytes that waiting copies hold.
MOST_BYTES: Final = 64 << 20


@dataclass
class _Copy:
    """One that waits or runs; its other side is still without an answer."""

    shadow: Shadow
    again: Again
    copied: Copied
    per_prompt: int  # answers to each prompt
    at: float = field(default_factory=time.monotonic)
    unwanted: bool = False  # its user is to be forgotten

    @property
    def handle(self) -> AdapterHandle:
        version = self.shadow.version
        return AdapterHandle(version.digest, version.tenant, version.label)


class Shadowing:
    """Owns the copies that wait and run; used from the event loop only.

    Args:
        most: copies that may wait.
        at_once: copies that may run.
        timeout_s: longest that one may take, in seconds.
    """

    def __init__(
        self, slot: EngineSlot, diffs: Diffs, telemetry: Telemetry, *, most: int, at_once: int, timeout_s: float
    ) -> None:
        self._slot, self._most, self._at_once, self._timeout_s = slot, most, at_once, timeout_s
        self._ends, self._gauge = telemetry.shadow_copies, telemetry.shadow_waiting
        self._waiting: deque[_Copy] = deque()
        self._bytes = 0
        self._running: list[_Copy] = []
        self._rows = 0  # of copies, in the engine
        self._answered = self._rested = -math.inf  # by `time.monotonic`: when somebody was; when copies may run beside
        self._arrived = asyncio.Event()
        self._journal = Journal(diffs.write, dropped=self._ends.labels("lost").inc, what="comparisons of copies")

    def offer(self, draft: Draft) -> None:
        """A request has ended: have the copies made that its decision names; never waits."""
        self._answered = time.monotonic()
        if draft.decision is None:
            return
        for shadow in draft.decision.shadows:
            copied = _whole(draft, shadow)
            if copied is None or draft.again is None:
                self._count("skipped")
            elif self._slot.closing or len(self._waiting) >= self._most or self._bytes + copied.size > MOST_BYTES:
                self._count("dropped")
            else:
                self._waiting.append(_Copy(shadow, draft.again, copied, draft.choices_per_prompt))
                self._bytes += copied.size
                self._gauge.set(len(self._waiting))
                self._arrived.set()

    async def run(self) -> None:
        """Make copies until it is cancelled; what waits or runs then is dropped."""
        workers = [asyncio.ensure_future(self._work()) for _ in range(self._at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            await _end(workers)
            self._drop(lambda _: True)

    async def forget(self, tenant: str, user: str) -> None:
        """Make no more copies of what a user asked; returns when what was compared of it is written."""

        def theirs(copy: _Copy) -> bool:
            return (copy.copied.tenant, copy.copied.user_id) == (tenant, user)

        self._drop(theirs)
        for copy in self._running:
            copy.unwanted = copy.unwanted or theirs(copy)
        await self.flush()

    async def flush(self) -> None:
        """Return when what was compared before can be read, or cannot be written now."""
        done, _ = await asyncio.wait([asyncio.wrap_future(self._journal.flush())], timeout=FLUSH_S)
        for one in done:
            one.exception()

    def close(self) -> None:
        """Write what was compared."""
        self._journal.close()

    def check(self) -> None:
        """Assert the invariants."""
        assert self._bytes == sum(one.copied.size for one in self._waiting)
        assert len(self._waiting) <= self._most
        assert len(self._running) <= self._at_once
        assert self._rows >= 0 and (self._running or not self._rows)

    async def _work(self) -> None:
        while True:
            copy = await self._next()
            self._running.append(copy)
            end: End = "dropped"
            began = time.monotonic()
            try:
                end = await self._made(copy)
            except Exception:
                log.exception("A copy of request %s could not be made.", copy.copied.request_id)
                end = "failed"
            finally:
                self._running.remove(copy)
                self._count(end)
                now = time.monotonic()
                self._rested = now + (now - began) * (1 / BESIDE - 1)

    async def _next(self) -> _Copy:
        """The oldest that waits, as soon as there is room for it beside the callers."""
        while True:
            await self._arrived.wait()
            if self._slot.closing:
                self._drop(lambda _: True)
            if not self._waiting:
                self._arrived.clear()
            elif self._may_begin(self._waiting[0]):
                copy = self._waiting.popleft()
                self._bytes -= copy.copied.size
                self._gauge.set(len(self._waiting))
                return copy
            else:
                await asyncio.sleep(LOOK_S)

    def _may_begin(self, copy: _Copy) -> bool:
        stats = self._slot.stats()
        waiting = int(stats.get("waiting", 0))
        now = time.monotonic()
        if int(stats.get("running", 0)) + waiting <= self._rows and now - self._answered >= QUIET_S:
            return True
        return not waiting and now - copy.at >= PATIENCE_S and now >= self._rested

    async def _made(self, copy: _Copy) -> End:
        """Have one answered and compared, and say what came of it."""
        engine, handle = self._slot.started, copy.handle
        if engine is None:
            return "dropped"
        began, rows, error = time.perf_counter(), AnswerRows(0), None
        try:
            if not _resident(engine, handle):  # a load would want room that callers may need
                return "skipped"
            async with asyncio.timeout(self._timeout_s):
                requests = [_aside(one) for one in await copy.again(handle)]
            rows = AnswerRows(len(requests))
            left_s = self._timeout_s - (rows.began - began)
            if not await self._answered_within(left_s, engine, requests, rows):
                return "no_turn" if _resident(engine, handle) else "skipped"
        except (TimeoutError, TimedOut):
            error = TIMED_OUT
        except Unavailable:  # the server is full, or ends: nothing that the version has done
            return "dropped"
        except Exception as wrong:
            error = kind_of(wrong).code
            log.log(
                logging.INFO if isinstance(wrong, GraftworkError) else logging.ERROR,
                "%s could not answer a copy of request %s: %s",
                handle.label,
                copy.copied.request_id,
                wrong,
                exc_info=None if isinstance(wrong, GraftworkError) else wrong,
            )
        if copy.unwanted:
            return "dropped"
        took_s = (rows.ended or time.perf_counter()) - (rows.began if len(rows) else began)
        prompts = sum(last.prompt_tokens for last in rows.lasts[:: copy.per_prompt] if last is not None)
        side = replace(copy.copied.shadow, latency_s=took_s, prompt_tokens=prompts, error=error)
        self._journal.put(replace(copy.copied, shadow=_answered(side, rows)))
        return "timed_out" if error == TIMED_OUT else "compared" if error is None else "failed"

    async def _answered_within(
        self, left_s: float, engine: GenerationEngine, requests: Sequence[GenerationRequest], rows: AnswerRows
    ) -> bool:
        """False where one waits for a place when the time is over.

        Raises:
            TimedOut: all have one then.
            Exception: what a row failed of.
        """

        async def one(index: int, request: GenerationRequest) -> None:
            self._rows += 1
            try:
                async with aclosing(engine.generate(request)) as deltas:
                    async for delta in deltas:
                        rows.took(index, delta)
            finally:
                self._rows -= 1

        answering = [asyncio.ensure_future(one(index, request)) for index, request in enumerate(requests)]
        try:
            done, late = await asyncio.wait(answering, timeout=left_s, return_when=asyncio.FIRST_EXCEPTION)
            for ended in done:
                ended.result()
            if not late:
                return True
            if any(engine.waits(request.id) for request in requests):  # asked before they are ended
                return False
            raise TimedOut("The copy was not answered in time.")
        finally:
            await _end(answering)

    def _drop(self, which: Callable[[_Copy], bool]) -> None:
        """Let go of some that wait."""
        kept = [one for one in self._waiting if not which(one)]
        self._count("dropped", len(self._waiting) - len(kept))
        self._waiting = deque(kept)
        self._bytes = sum(one.copied.size for one in kept)
        self._gauge.set(len(kept))

    def _count(self, end: End, many: int = 1) -> None:
        self._ends.labels(end).inc(many)


def _whole(draft: Draft, shadow: Shadow) -> Copied | None:
    """The request with its answer; None where there is no whole one, or nothing may be kept of it."""
    decision, rows = draft.decision, draft.rows
    if draft.recording.mode == "off" or draft.failure is not None or not rows.complete or len(rows) > MOST_ROWS:
        return None
    assert decision is not None and decision.digest is not None and rows.ended is not None, "a version has answered"
    texts = rows.texts
    answer = _answered(Side(decision.model, decision.digest, latency_s=rows.ended - rows.began), rows)
    return Copied(
        tenant=draft.principal.tenant,
        request_id=draft.request_id,
        at=draft.at,
        door=draft.door,
        route=decision.route,
        rollout=shadow.rollout,
        arm=shadow.arm,
        user_id=draft.kept_user,
        sampled=draft.params is not None and draft.params.temperature > 0,
        answer=answer,
        shadow=Side(shadow.version.label, shadow.version.digest),
        keep_text=draft.recording.keep_text,
        size=draft.size + sum(map(len, texts)),
    )


def _answered(side: Side, rows: AnswerRows) -> Side:
    side = replace(side, ttft_s=None if rows.first is None else rows.first - rows.began)
    if side.error is not None:
        return replace(side, output_tokens=rows.output_tokens)
    return replace(
        side,
        texts=tuple(rows.texts),
        output_tokens=rows.output_tokens,
        mean_logprob=rows.mean_logprob,
        finish_reason=known_first(rows.finish_reasons),
    )


def _resident(engine: GenerationEngine, handle: AdapterHandle) -> bool:
    """Whether it is in memory; raises what it cannot be loaded for."""
    here = engine.residency().get(handle.digest)
    if here is not None and here.error is not None and not isinstance(here.error, Unavailable):
        raise here.error
    return here is not None and here.state == "resident"


def _aside(request: GenerationRequest) -> GenerationRequest:
    """The same as a row that everybody else's go before, and that is not counted as asked for."""
    caller = request.caller
    aside = Caller(f"{caller.tenant}/shadow", caller.weight * SHARE, salt=caller.salt)
    return replace(request, id=f"{request.id}-shadow", caller=aside, counts=False)


async def _end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
