"""Poolings: reads the inputs of one request on the engine, some at a time, and measures them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graftwork.engine.request import AdapterHandle, Caller, Pooled, Pooling, PoolingRequest
from graftwork.errors import InvalidRequest
from graftwork.gateway.draft import Draft
from graftwork.gateway.engine_slot import GenerationEngine
from graftwork.protocol.pooling import PoolingFields
from graftwork.telemetry import Telemetry

#: Inputs of one request that the engine has at a time; the others do not count as waiting.
AT_ONCE = 64


@dataclass(frozen=True)
class Poolings:
    """Starts poolings, measures them, and tells who spends how many tokens on them."""

    telemetry: Telemetry
    spend: Callable[[str, int], None]

    async def run(
        self, engine: GenerationEngine, requests: Sequence[PoolingRequest], model: str, draft: Draft
    ) -> list[Pooled]:
        """What each input becomes, in order; the first failure ends them all, and so does cancelling.

        Raises:
            GraftworkError: an input cannot be answered; InvalidRequest names it by `input.<index>`.
        """
        draft.pools(requests)
        turn, label = asyncio.Semaphore(AT_ONCE), self.telemetry.model_label(model)

        async def one(index: int, request: PoolingRequest) -> Pooled:
            async with turn:
                try:
                    return await self._measured(engine, request, label)
                except InvalidRequest as error:
                    raise _about_input(error, index if len(requests) > 1 else None) from error

        tasks = [asyncio.ensure_future(one(index, request)) for index, request in enumerate(requests)]
        try:
            made = await asyncio.gather(*tasks)
            draft.pooled(made)
            return made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _measured(self, engine: GenerationEngine, request: PoolingRequest, model: str) -> Pooled:
        telemetry, outcome = self.telemetry, "cancelled"
        telemetry.in_progress.inc()
        try:
            made = await engine.pool(request)
            outcome = "done"
            self.spend(request.caller.tenant, made.prompt_tokens)
            telemetry.prompt_tokens.labels(model).inc(made.prompt_tokens)
            return made
        except Exception:
            outcome = "error"
            raise
        finally:
            telemetry.in_progress.dec()
            telemetry.poolings.labels(model, outcome).inc()


def pooling_requests(
    request_id: str, body: PoolingFields, pooling: Pooling, adapter: AdapterHandle | None, caller: Caller
) -> list[PoolingRequest]:
    """One for each input of a body."""
    own = body.companions != "base"
    return [
        PoolingRequest(f"{request_id}-{index}", prompt, pooling, adapter, companions=own, caller=caller)
        for index, prompt in enumerate(body.inputs)
    ]


def usage(results: Sequence[Pooled]) -> dict[str, int]:
    """Tokens of all inputs."""
    total = sum(one.prompt_tokens for one in results)
    return {"prompt_tokens": total, "total_tokens": total}


def _about_input(error: InvalidRequest, index: int | None) -> InvalidRequest:
    """The engine's word is `prompt`, this door's is `input`."""
    if error.field != "prompt":
        return error
    field = "input" if index is None else f"input.{index}"
    return InvalidRequest(f"{field}: {error.message}", field=field)
