"""Generations: runs the prompts of one request on the engine and hands on what each step adds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from graftwork.engine.request import Delta, GenerationRequest
from graftwork.gateway.draft import Draft
from graftwork.gateway.engine_slot import GenerationEngine
from graftwork.telemetry import Telemetry

#: Which prompt of the request, and what was added to its answer.
Piece = tuple[int, Delta]


@dataclass(frozen=True)
class Generations:
    """Starts generations, measures them, and tells who spends how many tokens on them."""

    telemetry: Telemetry
    spend: Callable[[str, int], None]

    def run(
        self, engine: GenerationEngine, requests: Sequence[GenerationRequest], model: str, draft: Draft
    ) -> AsyncGenerator[Piece, None]:
        """All answers of one request as one stream; closing it ends every generation. The draft is told of all.

        Raises:
            GraftworkError: at the first step, when a prompt cannot be answered; midway, when a row fails.
        """
        streams = self.each(engine, requests, model, draft)
        return _only(streams[0]) if len(streams) == 1 else _merged(streams)

    def each(
        self, engine: GenerationEngine, requests: Sequence[GenerationRequest], model: str, draft: Draft
    ) -> list[AsyncGenerator[Delta, None]]:
        """The answers of one request as streams of their own, for whoever lets each fail alone and closes them."""
        label = self.telemetry.model_label(model)
        draft.begins(requests)
        return [
            self._measured(engine.generate(request), label, request.caller.tenant, draft, index)
            for index, request in enumerate(requests)
        ]

    async def _measured(
        self, deltas: AsyncGenerator[Delta, None], model: str, tenant: str, draft: Draft, index: int
    ) -> AsyncGenerator[Delta, None]:
        telemetry, began, first, last, outcome = self.telemetry, time.perf_counter(), 0.0, None, "cancelled"
        telemetry.in_progress.inc()
        try:
            async with aclosing(deltas):
                async for delta in deltas:
                    first = first or time.perf_counter()
                    last, outcome = delta, delta.finish_reason or outcome
                    draft.took(index, delta)
                    yield delta
        except Exception as error:
            outcome = "error"
            draft.failed(error)
            raise
        finally:
            telemetry.in_progress.dec()
            telemetry.generations.labels(model, outcome).inc()
            if last is not None:
                self.spend(tenant, last.prompt_tokens + last.completion_tokens)
                self._count(last, model, first - began, time.perf_counter() - first)

    def _count(self, last: Delta, model: str, first_s: float, rest_s: float) -> None:
        self.telemetry.prompt_tokens.labels(model).inc(last.prompt_tokens)
        self.telemetry.completion_tokens.labels(model).inc(last.completion_tokens)
        self.telemetry.first_token_seconds.observe(first_s)
        if last.completion_tokens > 1:
            self.telemetry.token_seconds.observe(rest_s / (last.completion_tokens - 1))


async def _only(stream: AsyncGenerator[Delta, None]) -> AsyncGenerator[Piece, None]:
    async with aclosing(stream):
        async for delta in stream:
            yield 0, delta


async def _merged(streams: Sequence[AsyncGenerator[Delta, None]]) -> AsyncGenerator[Piece, None]:
    """Pieces of all streams in the order they arrive; the first failure ends them all."""
    arrived: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()

    async def pump(index: int, stream: AsyncGenerator[Delta, None]) -> None:
        try:
            async with aclosing(stream):
                async for delta in stream:
                    arrived.put_nowait((index, delta))
            arrived.put_nowait(None)
        except Exception as error:
            arrived.put_nowait(error)

    pumps = [asyncio.create_task(pump(index, stream)) for index, stream in enumerate(streams)]
    try:
        running = len(pumps)
        while running:
            piece = await arrived.get()
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                running -= 1
            else:
                yield piece
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
