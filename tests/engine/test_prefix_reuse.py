"""Cached prefixes in real engines: answers as without, only from the same version, tenant and salt, and no poison."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.request import Caller
from graftwork.engine.runner import Runner
from graftwork.errors import GenerationFailed
from graftwork.models.decoder import Decoder
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from support.engines import Answer, FolderSource, Named, ask, ask_all, prompt_of, reading, request, running, settled
from support.fixtures import Tiny
from support.oracle import Oracle
from support.scale import times
from support.tiny import save_peft

FP32 = 1e-4
LONG = prompt_of(1, 200)  # three blocks and some tokens
POISONED = 77


@cache
def oracle(root: Path, adapter: str | None) -> Oracle:
    return Oracle(root / "base", root / adapter if adapter else None)


@cache
def truth(root: Path, adapter: str | None, prompt: tuple[int, ...], count: int) -> tuple[list[int], list[float]]:
    return oracle(root, adapter).greedy(list(prompt), count)


async def parity(
    engine: AsyncEngine, tiny: Tiny, prompt: tuple[int, ...], adapter: str | None = None, **asked: Any
) -> Answer:
    """The answer, which must be the one without any cache."""
    got = await ask(engine, request(prompt, adapter, **asked))
    tokens, chosen = truth(tiny.root, adapter, prompt, len(got.tokens))
    assert got.tokens == tokens and got.chosen == pytest.approx(chosen, abs=FP32)
    return got


async def test_one_prompt_of_two_versions_and_the_base_in_series_and_together(tiny: Tiny) -> None:
    order = ("a1", "a2", None, "a1")
    async with running(tiny) as engine:
        got = [await parity(engine, tiny, LONG, adapter) for adapter in order]
        assert [one.cached_tokens for one in got] == [0, 0, 0, 192]
        got = await asyncio.gather(*(parity(engine, tiny, LONG, adapter) for adapter in order))
        assert [one.cached_tokens for one in got] == [192] * 4
        stats = engine.stats()
        assert (stats.prefix_cache_queried_tokens, stats.prefix_cache_hit_tokens) == (8 * 200, 5 * 192)
        assert stats.prompt_tokens == 8 * 200 - 5 * 192 and stats.kv_pages_cached == 3 * 3


async def test_the_base_after_an_adapter_in_the_same_place(tiny: Tiny) -> None:
    async with running(tiny, max_num_seqs=1, kv_cache_bytes=1 << 20) as engine:
        assert (await parity(engine, tiny, LONG, "a1")).cached_tokens == 0
        assert (await parity(engine, tiny, LONG)).cached_tokens == 0


async def test_tenants_and_salts_share_nothing(tiny: Tiny) -> None:
    callers = [Caller(), Caller("other"), Caller(salt="x"), Caller("other", salt="x")]
    async with running(tiny) as engine:
        for cached in (0, 192):
            for caller in callers:
                for adapter in ("a1", None):
                    assert (await parity(engine, tiny, LONG, adapter, caller=caller)).cached_tokens == cached


async def test_a_conversation_goes_on_from_its_own_answer(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        first = await parity(engine, tiny, LONG, "a1", max_tokens=100)
        turn = (*LONG, *first.tokens, *prompt_of(5, 30))
        assert (await parity(engine, tiny, turn, "a1")).cached_tokens == 256, "of the answer all blocks that are full"


async def test_the_last_token_is_always_computed(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        for length, cached in ((128, 64), (129, 128), (64, 0), (65, 64), (1, 0)):
            await parity(engine, tiny, LONG[:length])
            assert (await parity(engine, tiny, LONG[:length])).cached_tokens == cached


async def test_switched_off_nothing_is_kept(tiny: Tiny) -> None:
    async with running(tiny, prefix_caching=False) as engine:
        for _ in range(2):
            assert (await parity(engine, tiny, LONG, "a1")).cached_tokens == 0
        stats = engine.stats()
        assert stats.prefix_cache_queried_tokens == stats.kv_pages_cached == 0


async def test_rated_prompts_read_nothing_and_leave_their_blocks(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        await parity(engine, tiny, LONG)
        rated_by = oracle(tiny.root, None).logprobs(list(LONG))
        ways: tuple[dict[str, Any], ...] = ({"prompt_logprobs": 1}, {"echo": True, "logprobs": 1, "max_tokens": 0})
        for asked in ways:
            rated = await ask(engine, request(LONG, **asked))
            found = rated.prompt_logprobs or rated.logprobs
            want = [float(rated_by[place, token]) for place, token in enumerate(LONG[1:])]
            assert [one.logprob for one in found[1:200]] == pytest.approx(want, abs=FP32)
            assert rated.cached_tokens == 0
        other = prompt_of(2, 200)
        await ask(engine, request(other, prompt_logprobs=1))
        assert (await parity(engine, tiny, other)).cached_tokens == 192


async def test_embeddings_read_what_they_can_and_only_their_own_versions(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        for hit in (0, 192):
            for adapter in ("a1", "a2", None):
                before = engine.stats().prefix_cache_hit_tokens
                got = torch.tensor((await engine.pool(reading(LONG, adapter, "last"))).values)
                want = oracle(tiny.root, adapter).hidden(list(LONG))
                assert (normalize(got, dim=0) - normalize(want[-1], dim=0)).abs().max() <= FP32
                assert engine.stats().prefix_cache_hit_tokens - before == hit
                mean = torch.tensor((await engine.pool(reading(LONG, adapter, "mean"))).values)
                assert (normalize(mean, dim=0) - normalize(want.mean(0), dim=0)).abs().max() <= FP32
                assert engine.stats().prefix_cache_hit_tokens - before == hit, "a mean needs every token's state"


async def test_a_composition_has_blocks_of_its_own(tiny: Tiny) -> None:
    half: Named = (("a1", 0.5), ("a2", 0.5))
    other: Named = (("a1", 0.5), ("a2", 0.6))
    async with running(tiny) as engine:
        cached = [(await ask(engine, request(LONG, named))).cached_tokens for named in ("a1", half, other, half)]
        assert cached == [0, 0, 0, 192]


async def test_virtual_tokens_are_shared_by_their_own_version_alone(tiny: Tiny, tmp_path: Path) -> None:
    for seed, name in enumerate(("p1", "p2")):
        torch.manual_seed(seed)
        save_peft("PrefixTuningConfig", {"num_virtual_tokens": 4}, tiny.root / "base", tmp_path / name, std=1.0)
    async with running(tiny, FolderSource(tmp_path)) as engine:
        await ask(engine, request((0, 0, 0, 0, *LONG)))  # the very tokens that stand for virtual ones
        first = await ask(engine, request(LONG, "p1"))
        other = await ask(engine, request(LONG, "p2"))
        again = await ask(engine, request(LONG, "p1"))
        assert [one.cached_tokens for one in (first, other, again)] == [0, 0, 188], "192 places, of which 4 are virtual"
        assert again.tokens == first.tokens and again.chosen == pytest.approx(first.chosen, abs=FP32)
        assert first.prompt_tokens == 200
        assert (await parity(engine, tiny, (0, 0, 0, 0, *LONG))).cached_tokens == 192


def going_wrong(wrong: Callable[[list[int], int], bool]) -> Callable[[Decoder, ForwardBatch], ForwardResult]:
    """A forward pass that leaves NaN in pages and logits of a row where `wrong` says so of its tokens and length."""
    plain = Decoder.forward

    def forward(self: Decoder, batch: ForwardBatch) -> ForwardResult:
        result = plain(self, batch)
        logits = result.logits.clone()
        for row, (start, stop) in enumerate(pairwise(batch.rows.query_start.tolist())):
            length = int(batch.rows.context_len[row])
            if wrong(batch.token_ids[start:stop].tolist(), length):
                batch.values[batch.rows.page_table[row, : -(-length // 64)].tolist()] = float("nan")
                logits[(batch.logits_at >= start) & (batch.logits_at < stop)] = float("nan")
        return ForwardResult(logits, result.hidden)

    return forward


async def test_a_row_that_fails_leaves_nothing_that_it_has_written_or_read(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = (*prompt_of(2, 199), POISONED)
    async with running(tiny) as engine:
        await parity(engine, tiny, LONG)
        with monkeypatch.context() as patch:
            patch.setattr(Decoder, "forward", going_wrong(lambda tokens, _: tokens[-1] == POISONED))
            for bad in ((*LONG, POISONED), unread):
                with pytest.raises(GenerationFailed, match="not finite"):
                    await ask(engine, request(bad))
        assert engine.stats().kv_pages_cached == 0, "what it had read may be what was wrong"
        assert (await parity(engine, tiny, LONG)).cached_tokens == 0
        assert (await parity(engine, tiny, (*LONG, POISONED))).cached_tokens == 192
        assert (await parity(engine, tiny, unread)).cached_tokens == 0


async def test_a_row_that_fails_late_takes_back_what_it_has_shared(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tiny) as engine:
        whole = await ask(engine, request(LONG, max_tokens=90))
        assert engine.stats().kv_pages_cached == 4
        reader = engine.generate(request(LONG, max_tokens=60))
        await anext(reader)  # holds the blocks and goes on, whatever becomes of others that do
        with monkeypatch.context() as patch:
            patch.setattr(Decoder, "forward", going_wrong(lambda _, length: length == 280))
            with pytest.raises(GenerationFailed, match="not finite"):
                await ask(engine, request(LONG, max_tokens=90))
        await reader.aclose()
        await settled(engine)
        assert engine.stats().kv_pages_cached == 1, "the first row's last block, which the failed one had made anew"
        again = await ask(engine, request((*LONG, *whole.tokens), max_tokens=1))
        assert again.cached_tokens == 0
        assert (await parity(engine, tiny, LONG)).cached_tokens == 192


async def test_a_step_that_breaks_leaves_nothing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tiny) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(Runner, "run", lambda *_: 1 / 0)
            with pytest.raises(GenerationFailed):
                await ask(engine, request(LONG))
        assert engine.stats().kv_pages_cached == 0
        assert (await parity(engine, tiny, LONG)).cached_tokens == 0


async def test_a_client_that_leaves_takes_nothing_along(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        async with aclosing(engine.generate(request(LONG, "a1", max_tokens=200))) as stream:
            await anext(stream)
        assert (await parity(engine, tiny, LONG, "a1")).cached_tokens == 192


async def test_pages_that_run_out_in_the_midst_of_shared_prompts(tiny: Tiny) -> None:
    """Sixteen pages for rows that want twice as many: preempted, evicted and come back, every answer is the same."""
    draw = random.Random(5)
    beginnings = [prompt_of(seed, 130) for seed in (1, 2)]
    rows = []
    for index in range(times(24, 600)):
        prompt = (*draw.choice(beginnings)[: draw.choice((70, 130))], *prompt_of(index % 5, draw.randrange(1, 40)))
        rows.append((prompt, draw.choice(("a1", "a2", None)), draw.randrange(50, 86)))
    async with running(tiny, prefix_caching=False) as engine:
        want = await ask_all(engine, [request(prompt, adapter, max_tokens=count) for prompt, adapter, count in rows])
    turns = asyncio.Semaphore(10)
    async with running(tiny, kv_cache_bytes=1 << 20, max_model_len=256, max_num_batched_tokens=128) as engine:
        assert engine.stats().kv_pages_total == 16

        async def one(prompt: tuple[int, ...], adapter: str | None, count: int) -> Answer:
            async with turns:
                return await ask(engine, request(prompt, adapter, max_tokens=count))

        got = await asyncio.gather(*(one(*row) for row in rows))
        stats = engine.stats()
        assert stats.preemptions and stats.prefix_cache_hit_tokens
    for alone, together in zip(want, got, strict=True):
        assert together.tokens == alone.tokens
        assert together.chosen == pytest.approx(alone.chosen, abs=FP32)


async def test_hits_and_misses_share_a_batch(tiny: Tiny) -> None:
    async with running(tiny, max_num_batched_tokens=64) as engine:
        await parity(engine, tiny, LONG, "a1")
        rows = [(LONG, "a1"), (prompt_of(4, 190), "a1"), ((*LONG[:150], 3, 4), "a1"), (LONG, None), (LONG[:66], "a1")]
        got = await asyncio.gather(*(parity(engine, tiny, *row) for row in rows))
        assert [one.cached_tokens for one in got] == [192, 0, 128, 0, 64]
