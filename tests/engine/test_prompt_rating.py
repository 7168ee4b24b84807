"""Prompt log-probabilities are PEFT's own, however the prompt is cut, preempted and mixed; echo begins with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from graftwork.adapters.serving_form import Traits
from graftwork.engine.chunk import MAX_RATED, Chunk
from graftwork.engine.prompt_rating import rate_prompts
from graftwork.engine.request import TokenLogprob
from graftwork.engine.runner import Runner
from graftwork.engine.sampler import LEAST_LOGPROB, RowFailure
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.sequence import Sequence as Row
from graftwork.engine.text import Text
from graftwork.errors import GenerationFailed, InvalidRequest
from graftwork.models.adapter_plan import AdapterRow
from graftwork.models.decoder import Decoder
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from support.engines import Answer, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle

FP32 = 1e-4
ADAPTERS = (None, "a1", "a2", "a3")
PROMPT_ONLY: dict[str, Any] = {"echo": True, "logprobs": 5, "max_tokens": 0}


@cache
def oracle(root: Path, adapter: str | None) -> Oracle:
    return Oracle(root / "base", root / adapter if adapter else None)


def assert_rated(tiny: Tiny, adapter: str | None, tokens: Sequence[int], rated: Sequence[TokenLogprob]) -> None:
    """One record for each of `tokens`: its log-probability, its rank, and the likeliest in its place."""
    truth = oracle(tiny.root, adapter).logprobs(list(tokens))
    assert [one.token_id for one in rated] == list(tokens)
    assert (rated[0].logprob, rated[0].top, rated[0].rank) == (None, (), None)
    for place, one in enumerate(rated[1:]):
        row = truth[place]
        assert one.logprob == pytest.approx(float(row[one.token_id]), abs=FP32)
        best = row.topk(max(1, len(one.top))).values.tolist()
        assert [top.logprob for top in one.top] == pytest.approx(best[: len(one.top)], abs=FP32)
        for top in one.top:
            assert top.logprob == pytest.approx(float(row[top.token_id]), abs=FP32)
        assert one.rank is not None
        surely, perhaps = (int((row > row[one.token_id] + by).sum()) for by in (2 * FP32, -2 * FP32))
        assert surely < one.rank <= perhaps


async def test_echo_alone_rates_the_prompts_of_adapters_and_base_in_one_batch(tiny: Tiny) -> None:
    rows = [(prompt_of(seed, length), adapter) for seed, (length, adapter) in enumerate(
        [(20, "a1"), (35, "a2"), (28, None), (1, "a1"), (64, "a3"), (65, None)])]  # fmt: skip
    async with running(tiny) as engine:
        await ask_all(engine, [request((1,), adapter, **PROMPT_ONLY) for adapter in ADAPTERS])  # all resident
        long = asyncio.create_task(ask(engine, request(prompt_of(9, 500), max_tokens=1)))
        while not engine.stats().running:  # so that all the others arrive during its one long step
            await asyncio.sleep(0)
        answers = await ask_all(engine, [request(prompt, adapter, **PROMPT_ONLY) for prompt, adapter in rows])
        assert engine.stats().max_distinct_adapters_in_step == 3
        for (prompt, adapter), answer in zip(rows, answers, strict=True):
            assert (answer.finish_reason, answer.completion_tokens, answer.tokens) == ("length", 0, [])
            assert answer.prompt_tokens == len(prompt)
            assert_rated(tiny, adapter, prompt, answer.logprobs)
            assert [len(one.top) for one in answer.logprobs] == [0] + [5] * (len(prompt) - 1)
        await long
        assert engine.stats().generated_tokens == 1


@pytest.mark.parametrize("budget", [64, 512])
async def test_prompts_in_many_chunks_beside_rows_that_generate(tiny: Tiny, budget: int) -> None:
    rated = [(prompt_of(i, length), ADAPTERS[i % 4]) for i, length in enumerate((400, 63, 64, 65, 300, 129, 2))]
    plain = [(prompt_of(20 + i, 30), ADAPTERS[i % 4]) for i in range(4)]
    async with running(tiny, max_num_batched_tokens=budget, kv_cache_bytes=1 << 23) as engine:
        answers = await ask_all(
            engine,
            [request(prompt, adapter, prompt_logprobs=3, max_tokens=8) for prompt, adapter in rated]
            + [request(prompt, adapter, max_tokens=30) for prompt, adapter in plain],
        )
    for (prompt, adapter), answer in zip(rated, answers, strict=False):
        assert answer.prompt_logprobs is not None
        assert_rated(tiny, adapter, prompt, answer.prompt_logprobs)
        assert answer.tokens == oracle(tiny.root, adapter).greedy(list(prompt), 8)[0]
        assert len(answer.logprobs) == 8, "the prompt is no part of the answer's own"
    for (prompt, adapter), answer in zip(plain, answers[len(rated) :], strict=True):
        assert answer.tokens == oracle(tiny.root, adapter).greedy(list(prompt), 30)[0]
        assert answer.prompt_logprobs is None


async def test_preempted_rows_keep_what_was_rated(tiny: Tiny) -> None:
    rows = [(prompt_of(i, 60), ADAPTERS[i % 4]) for i in range(5)]
    async with running(tiny, kv_cache_bytes=1 << 20, max_model_len=256, max_num_batched_tokens=64) as engine:
        got = await ask_all(
            engine, [request(*row, max_tokens=150, prompt_logprobs=2, echo=True, logprobs=1) for row in rows]
        )
        assert engine.stats().preemptions > 0
    for (prompt, adapter), answer in zip(rows, got, strict=True):
        assert answer.prompt_logprobs is not None
        assert_rated(tiny, adapter, prompt, answer.prompt_logprobs)
        assert_rated(tiny, adapter, [*prompt, *answer.tokens], _ranked(answer))


def _ranked(answer: Answer) -> list[TokenLogprob]:
    """Echoed records with the rank that greedy tokens have by definition."""
    return [one if one.rank or one.logprob is None else replace(one, rank=1) for one in answer.logprobs]


async def test_no_step_keeps_more_logits_than_are_allowed(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    plain = Decoder.forward

    def forward(self: Decoder, batch: ForwardBatch) -> ForwardResult:
        rows.append(len(batch.logits_at))
        return plain(self, batch)

    async with running(tiny, max_num_batched_tokens=2048, kv_cache_bytes=1 << 24) as engine:
        monkeypatch.setattr(Decoder, "forward", forward)
        await ask_all(engine, [request(prompt_of(i, 500), ADAPTERS[i % 4], **PROMPT_ONLY) for i in range(4)])
    assert sum(rows) == 4 * 499, "every position once"
    assert max(rows) == MAX_RATED


async def test_nothing_is_rated_where_nobody_asks(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[int] = []
    plain = Decoder.forward

    def forward(self: Decoder, batch: ForwardBatch) -> ForwardResult:
        wanted.append(len(batch.logits_at))
        return plain(self, batch)

    async with running(tiny, max_num_batched_tokens=64) as engine:
        monkeypatch.setattr(Decoder, "forward", forward)
        answer = await ask(engine, request(prompt_of(1, 100), echo=True, logprobs=None, max_tokens=2))
    assert wanted == [0, 1, 1]
    assert answer.logprobs == [] and answer.prompt_logprobs is None


async def test_a_prompt_that_fills_the_context_can_be_rated_but_not_continued(tiny: Tiny) -> None:
    prompt = prompt_of(1, 512)
    async with running(tiny) as engine:
        assert_rated(tiny, None, prompt, (await ask(engine, request(prompt, **PROMPT_ONLY))).logprobs)
        with pytest.raises(InvalidRequest, match=r"512 tokens.*511"):
            await ask(engine, request(prompt, echo=True, max_tokens=1))


async def test_an_answer_goes_on_after_the_echo_of_its_prompt(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        for prompt, shown in (("Hello é", "Hello é"), ((40, 41, 0, 42), None)):
            plain = await ask(engine, request(prompt, "a1", max_tokens=6))
            echoed = await ask(engine, request(prompt, "a1", max_tokens=6, echo=True))
            assert echoed.tokens == plain.tokens and echoed.completion_tokens == 6
            assert echoed.text.endswith(plain.text)
            begin = echoed.text.removesuffix(plain.text)
            assert begin == (shown or begin) and begin
            spelled = b"".join(bytes(one.bytes) for one in echoed.logprobs[: echoed.prompt_tokens])
            assert spelled.decode() == begin
            assert [one.token_id for one in echoed.logprobs[echoed.prompt_tokens :]] == plain.tokens


async def test_a_prompt_that_is_not_finite_fails_alone(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, poisoned = Decoder.forward, 77

    def forward(self: Decoder, batch: ForwardBatch) -> ForwardResult:
        logits = plain(self, batch).logits.clone()
        logits[batch.token_ids[batch.logits_at] == poisoned] = float("nan")
        return ForwardResult(logits, None)

    async with running(tiny) as engine:
        monkeypatch.setattr(Decoder, "forward", forward)
        asked = [request((1, poisoned, 3), "a1", **PROMPT_ONLY), request((1, 2, 3), **PROMPT_ONLY)]
        bad, good = await asyncio.gather(*(ask(engine, one) for one in asked), return_exceptions=True)
        assert isinstance(bad, GenerationFailed) and "not finite" in str(bad)
        assert isinstance(good, Answer)
        assert_rated(tiny, None, (1, 2, 3), good.logprobs)


class Ids:
    """Records without words."""

    def token_logprob(self, token: int, logprob: float, top: Any, rank: int) -> TokenLogprob:
        return TokenLogprob(token, "", (), logprob, (), rank)


def row_of(tokens: list[int], *, virtual: int = 0, answer: int = 4, **params: Any) -> Row:
    unused = cast(Any, None)
    made = Row(
        "r",
        tokens,
        len(tokens),
        SamplingParams(**params),
        0,
        answer,
        frozenset(),
        None,
        unused,
        unused,
        cast(Text, Ids()),
    )
    if virtual:
        made.meet(Traits(virtual_tokens=virtual), 1000)
    return made


def rate(row: Row, logits: Tensor) -> list[TokenLogprob] | RowFailure:
    left, ratings = rate_prompts([Chunk(row, row.num_pending)], logits)
    assert len(left) == (1 if row.max_tokens else 0)
    return ratings[row.id]


def test_equals_rank_by_their_ids_and_tokens_beyond_the_logits_cannot_be_said() -> None:
    logits = torch.tensor([[1.0, 2.0, 2.0], [1.0, 2.0, 2.0], [5.0, 0.0, -torch.inf], [0.0, 0.0, 0.0]])
    got = rate(row_of([0, 2, 1, 7], prompt_logprobs=0), logits)
    assert isinstance(got, list)
    assert [one.rank for one in got] == [2, 1, 4]
    assert got[2].logprob == LEAST_LOGPROB


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_prompts_bad_logits_are_a_failure_of_its_row(bad: float) -> None:
    logits = torch.zeros(3, 5)
    logits[1, 2] = bad
    assert isinstance(rate(row_of([0, 1, 2], prompt_logprobs=0), logits), RowFailure)


def test_virtual_tokens_are_not_rated_and_rate_nothing() -> None:
    row = row_of([5, 6, 7], virtual=4, prompt_logprobs=1)
    assert row.unrated == range(4, 6)
    assert Chunk(row, 3).logits == range(4, 4)
    assert Chunk(row, 6).logits == range(4, 6)
    assert Chunk(row, 7).logits == range(4, 7)
    assert row_of([5, 6, 7], virtual=4).unrated == range(0)


def test_adapters_that_act_late_are_at_the_head_for_their_own_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activated LoRA: the logits of tokens before its invocation are the base's."""
    planned: list[AdapterRow] = []
    monkeypatch.setattr("graftwork.engine.runner.AdapterPlan", lambda rows, *_: planned.extend(rows))
    late, whole = row_of([1] * 10, prompt_logprobs=0), row_of([1] * 6)
    base = row_of([1] * 4, prompt_logprobs=0, max_tokens=0, answer=0)
    late.slot, late.acts_from, whole.slot = 1, 7, 2
    runner = Runner(cast(Any, type("M", (), {"outline": type("O", (), {"vocab_size": 9})})), *[cast(Any, None)] * 3)
    chunks = [Chunk(base, 4), Chunk(late, 10), Chunk(whole, 6)]
    runner._plan(chunks, np.asarray([0, 4, 14, 20], np.int32), [chunk.logits for chunk in chunks])
    assert [(row.start, row.stop, row.sampled, row.sampled_first) for row in planned] == [
        (11, 14, (3 + 7, 3 + 10), 7),
        (14, 20, (13, 14), 5),
    ]
