"""PARITY as DESIGN defines it: what our answer may differ from PEFT's, in float32 and in bfloat16."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from torch import Tensor

from graftwork.engine.async_engine import AsyncEngine
from support.engines import Answer, ask, request
from support.oracle import Oracle


def assert_float32_parity(oracle: Oracle, prompt: Sequence[int], got: Answer, tolerance: float) -> None:
    """Every greedy token equal, and each one's log-probability within `tolerance`."""
    tokens, logprobs = oracle.greedy(list(prompt), len(got.tokens))
    assert got.tokens == tokens
    assert max(abs(a - b) for a, b in zip(got.chosen, logprobs, strict=True)) <= tolerance


async def assert_bfloat16_parity(
    engine: AsyncEngine,
    rows: Sequence[tuple[Sequence[int], str | None]],
    oracles: dict[str | None, tuple[Oracle, Oracle]],
    count: int,
) -> None:
    """Teacher-forced on the float32 oracle's tokens, all rows and all their positions at once.

    Our largest error may be 1.5 times that of PEFT's own bfloat16 run plus 0.02; the likeliest token is the same
    wherever the truth's first two lie further apart than twice that.
    """
    await asyncio.gather(*(_row(engine, prompt, adapter, *oracles[adapter], count) for prompt, adapter in rows))


async def _row(
    engine: AsyncEngine, prompt: Sequence[int], adapter: str | None, exact: Oracle, rounded: Oracle, count: int
) -> None:
    start = len(prompt) - 1
    tokens = [*prompt, *exact.greedy(list(prompt), count)[0]]
    truth, theirs = exact.logprobs(tokens)[start:-1], rounded.logprobs(tokens)[start:-1]  # [count, vocab]
    limit = 1.5 * float((theirs - truth).gather(1, _ids(tokens, start)).abs().max()) + 0.02
    asked = [request(tuple(tokens[: start + 1 + n]), adapter, max_tokens=1, logprobs=20) for n in range(count)]
    for n, answer in enumerate(await asyncio.gather(*(ask(engine, one) for one in asked))):
        ours = {top.token_id: top.logprob for top in answer.logprobs[0].top}
        want = tokens[start + 1 + n]
        first, second = truth[n].topk(2).values.tolist()
        if want in ours:
            assert abs(ours[want] - float(truth[n, want])) <= limit, f"{adapter}, token {n}"
        if first - second > 2 * limit:
            assert answer.tokens == [want], f"{adapter}, token {n}"


def _ids(tokens: Sequence[int], start: int) -> Tensor:
    import torch

    return torch.tensor(tokens[start + 1 :])[:, None]
