"""AsyncEngine: answers end for the right reason, bad prompts are refused, and nothing is held when nobody listens."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from graftwork.engine.create import create_engine
from graftwork.engine.event_loops import call_in
from graftwork.engine.request import Caller, ChatPrompt
from graftwork.errors import Damaged, GenerationFailed, InvalidRequest, Refused, Unavailable
from support.engines import FolderSource, ask, ask_all, prompt_of, request, running, settled
from support.fixtures import Tiny
from support.scale import times


async def test_counts_and_finish_reason(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        answer = await ask(engine, request(prompt_of(1, 10), max_tokens=7))
        assert (answer.finish_reason, answer.prompt_tokens, answer.completion_tokens) == ("length", 10, 7)


async def test_the_first_delta_says_how_long_the_row_has_waited_for_its_first_step(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        told = [delta.queued_s async for delta in engine.generate(request(prompt_of(1, 10), max_tokens=3))]
        assert told[0] is not None and 0 <= told[0] < 60 and told[1:] == [None, None]


async def test_stops_at_an_end_token_unless_told_to_ignore_it(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        free = await ask(engine, request(prompt_of(1, 10)))
        end = free.tokens[4]
        first = free.tokens.index(end)
        answer = await ask(engine, request(prompt_of(1, 10), stop_token_ids=(end,)))
        assert answer.finish_reason == "stop" and answer.tokens == free.tokens[: first + 1]
        assert free.text.startswith(answer.text)


async def test_no_end_token_and_no_stop_string_before_the_least_number_of_tokens(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        free = await ask(engine, request(prompt_of(1, 10), max_tokens=40))
        ends = tuple(set(free.tokens[:6]))
        barred = await ask(engine, request(prompt_of(1, 10), "a1", stop_token_ids=ends, min_tokens=20, max_tokens=40))
        assert barred.completion_tokens > 20 and not set(barred.tokens[:20]) & set(ends)
        early, late = free.text[2:4], free.text[25:28]
        stopped = await ask(engine, request(prompt_of(1, 10), stop=(early, late), min_tokens=12, max_tokens=40))
        assert stopped.tokens[:12] == free.tokens[:12] and stopped.completion_tokens > 12


async def test_logit_bias_moves_its_own_row_only(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        plain = [await ask(engine, request(prompt_of(i, 9), adapter)) for i, adapter in enumerate(("a1", None))]
        biased = request(prompt_of(0, 9), "a1", logit_bias=((65, 100.0),))
        got = await ask_all(engine, [biased, request(prompt_of(1, 9)), request(prompt_of(0, 9), "a1")])
        assert got[0].tokens == [65] * 16
        assert [got[2].tokens, got[1].tokens] == [one.tokens for one in plain]
        banned = tuple((token, -100.0) for token in set(plain[0].tokens))
        without = await ask(engine, request(prompt_of(0, 9), "a1", logit_bias=banned))
        assert not set(without.tokens) & set(plain[0].tokens)
        with pytest.raises(InvalidRequest, match=r"names 256.*0 to 255") as caught:
            await ask(engine, request((1, 2), logit_bias=((256, 1.0),)))
        assert caught.value.field == "logit_bias"


async def test_stops_at_a_string_that_is_split_over_tokens(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        free = await ask(engine, request(ChatPrompt(({"role": "user", "content": "hello"},)), max_tokens=40))
        stop = free.text[7:10]
        answer = await ask(
            engine, request(ChatPrompt(({"role": "user", "content": "hello"},)), max_tokens=40, stop=(stop,))
        )
        assert answer.finish_reason == "stop"
        assert answer.text == free.text[: free.text.index(stop)]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_a_rows_tokens_do_not_depend_on_batch_mates(tiny: Tiny, temperature: float) -> None:
    async with running(tiny) as engine:
        asked = {"temperature": temperature, "seed": 7, "top_p": 0.9}
        alone = await ask(engine, request(prompt_of(1, 12), "a1", **asked))
        for mates in (1, 3, 7):
            rows = [request(prompt_of(9 + i, 5 + i), ("a2", None, "a3")[i % 3], temperature=0.7) for i in range(mates)]
            together = await ask_all(engine, [*rows, request(prompt_of(1, 12), "a1", **asked)])
            assert together[-1].tokens == alone.tokens
            assert together[-1].chosen == pytest.approx(alone.chosen, abs=1e-4)


@pytest.mark.parametrize(
    ("prompt", "params", "field"),
    [
        ((), {}, "prompt"),
        ("", {}, "prompt"),
        ((1, 256), {}, "prompt"),
        ((1, -1), {}, "prompt"),
        (ChatPrompt(()), {}, "messages"),
        (tuple(range(1, 200)) * 3, {}, "prompt"),
        ((1, 2, 3), {"max_tokens": 510}, "max_tokens"),
    ],
)
async def test_a_bad_prompt_is_refused_before_anything_is_reserved(
    tiny: Tiny, prompt: object, params: dict[str, object], field: str
) -> None:
    async with running(tiny) as engine:
        with pytest.raises(InvalidRequest) as caught:
            await ask(engine, request(prompt, "a1", **params))
        assert caught.value.field == field
        assert engine.stats().adapters_resident == 0


async def test_too_long_a_prompt_names_both_numbers(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        with pytest.raises(InvalidRequest, match=r"600 tokens.*512"):
            await ask(engine, request((1,) * 600))


async def test_a_text_that_cannot_fit_is_refused_before_it_is_encoded(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        began = time.process_time()
        with pytest.raises(InvalidRequest, match="20000000 characters") as caught:
            await ask(engine, request("x" * 20_000_000))
        assert caught.value.field == "prompt" and time.process_time() - began < 1.0
        with pytest.raises(InvalidRequest) as caught:
            await ask(engine, request(ChatPrompt(({"role": "user", "content": "x" * 1_000_000},))))
        assert caught.value.field == "messages"


async def test_closing_the_iterator_frees_row_pages_and_pin(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        async with aclosing(engine.generate(request(prompt_of(1, 10), "a1", max_tokens=400))) as stream:
            await anext(stream)
            assert engine.stats().adapters_pinned == 1
        steps = engine.stats().steps
        await settled(engine)
        assert engine.stats().steps <= steps + 2  # the one that ran, and at most one begun before the message came


async def test_a_hundred_requests_closed_at_any_time_leave_nothing(tiny: Tiny) -> None:
    async with running(tiny, max_num_seqs=4) as engine:

        async def leave(index: int) -> None:
            stream = engine.generate(request(prompt_of(index, 30), ("a1", "a2", None)[index % 3], max_tokens=100))
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.0005 * (index % 20))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.aclose()

        for _ in range(times(1, 20)):
            await asyncio.gather(*map(leave, range(100)))
        await settled(engine)
        engine.check()
        assert (await ask(engine, request(prompt_of(1, 5), "a1"))).finish_reason == "length"


async def test_fifty_first_requests_load_an_adapter_once(tiny: Tiny) -> None:
    source = FolderSource(tiny.root)
    async with running(tiny, source) as engine:
        answers = await ask_all(engine, [request(prompt_of(2, 12), "a1") for _ in range(50)])
        assert source.reads == ["a1", "a1"]  # once for its words, once for its weights
        assert len({tuple(answer.tokens) for answer in answers}) == 1


async def test_a_failing_load_fails_its_rows_only_and_is_tried_afresh(tiny: Tiny) -> None:
    source = FolderSource(tiny.root, failure=Damaged("the blob is damaged"))
    async with running(tiny, source) as engine:
        before = engine.stats()
        asked = [request(prompt_of(i, 8), "a1") for i in range(10)] + [request(prompt_of(i, 8)) for i in range(3)]
        got = await asyncio.gather(*(ask(engine, one) for one in asked), return_exceptions=True)
        assert all(isinstance(one, Damaged) for one in got[:10])
        assert not any(isinstance(one, BaseException) for one in got[10:])
        assert engine.stats().adapter_bytes == before.adapter_bytes == 0
        source.failure = None
        assert (await ask(engine, request(prompt_of(1, 8), "a1"))).finish_reason == "length"


async def test_a_source_that_breaks_is_an_error_and_not_a_hang(tiny: Tiny) -> None:
    async with running(tiny, FolderSource(tiny.root, failure=RuntimeError("no route"))) as engine:
        with pytest.raises(Unavailable, match="no route"):
            await ask(engine, request(prompt_of(1, 8), "a1"))


async def test_a_bad_adapter_is_refused_and_nothing_is_kept(tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny.adapter("a1"), tmp_path / "bad")
    file = tmp_path / "bad" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    async with running(tiny, FolderSource(tmp_path)) as engine:
        with pytest.raises(Refused) as caught:
            await ask(engine, request(prompt_of(1, 8), "bad"))
        assert "adapter_model.safetensors" in " ".join(caught.value.problems)
        assert engine.stats().adapters_resident == engine.stats().adapter_bytes == 0


async def test_more_adapters_than_memory_all_answer(tiny: Tiny) -> None:
    async with running(tiny, adapter_cache_bytes=192 << 10) as engine:  # any two of the three
        rows = [request(prompt_of(i, 6), ("a1", "a2", "a3", None)[i % 4], max_tokens=6) for i in range(24)]
        answers = await ask_all(engine, rows)
        assert all(answer.finish_reason == "length" for answer in answers)


async def test_an_adapter_waits_for_memory_behind_steady_traffic_and_is_served(tiny: Tiny, tmp_path: Path) -> None:
    """Adapter memory for one, always held by traffic on a1: a2 is served all the same, within seconds."""
    source = FolderSource(tiny.root)
    async with running(tiny, source, adapter_cache_bytes=128 << 10) as engine:
        stop = asyncio.Event()

        async def traffic() -> None:
            while not stop.is_set():
                await ask(engine, request(prompt_of(1, 6), "a1", max_tokens=200))

        tasks = [asyncio.create_task(traffic()) for _ in range(3)]
        while not engine.stats().adapters_pinned:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(20):
            assert (await ask(engine, request(prompt_of(1, 6), "a2", max_tokens=3))).finish_reason == "length"
        stop.set()
        await asyncio.gather(*tasks)


async def test_a_row_waits_before_it_has_a_place_and_when_it_gave_way_after_some_tokens(tiny: Tiny) -> None:
    """Two places; of two copies that have begun one gives its own to whoever asks."""
    async with running(tiny, max_num_seqs=2) as engine:
        aside = Caller("local/shadow", 0.01)
        copies = [request(prompt_of(number, 6), max_tokens=400, caller=aside) for number in range(2)]
        assert not any(engine.waits(one.id) for one in copies), "nobody has asked for them"
        async with asyncio.timeout(20):
            answers = [engine.generate(one) for one in copies]
            for answer in answers:
                await anext(answer)
            assert not any(engine.waits(one.id) for one in copies)
            callers = [request(prompt_of(number, 6), max_tokens=300) for number in (2, 3)]
            answering = [asyncio.create_task(ask(engine, one)) for one in callers]
            while not any(engine.waits(one.id) for one in copies):
                await asyncio.sleep(0)
            assert engine.stats().preemptions == 1
            while not any(engine.waits(one.id) for one in callers):
                await asyncio.sleep(0)
            await asyncio.gather(*answering)
            for answer in answers:
                await answer.aclose()


class SlowSource(FolderSource):
    """Takes its time for one adapter: a slow disk, or a store far away."""

    wait_s = 1.5

    def folder(self, tenant: str, digest: str) -> Path:
        if digest == "a2":
            time.sleep(self.wait_s)
        return super().folder(tenant, digest)


async def test_a_slow_load_delays_nobody_else(tiny: Tiny) -> None:
    async with running(tiny, SlowSource(tiny.root)) as engine:
        await ask(engine, request(prompt_of(1, 6), "a1", max_tokens=1))
        slow = asyncio.create_task(ask(engine, request(prompt_of(1, 6), "a2", max_tokens=1)))
        await asyncio.sleep(0.05)
        for adapter in ("a1", "a3", None):
            await ask(engine, request(prompt_of(1, 6), adapter, max_tokens=1))
            assert not slow.done()
        assert (await slow).finish_reason == "length"


class HangingSource(FolderSource):
    """Never comes back with one adapter, until it is let go."""

    gone = threading.Event()

    def folder(self, tenant: str, digest: str) -> Path:
        if digest == "a2":
            assert self.gone.wait(60)
        return super().folder(tenant, digest)


async def test_a_load_that_hangs_fails_its_rows_in_time(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    source = HangingSource(tiny.root)
    async with running(tiny, source, adapter_companions=False) as engine:
        try:
            await ask(engine, request(prompt_of(1, 6), "a1"))
            monkeypatch.setattr(engine._room, "_timeout_s", 0.1)  # a1 did not have to be so fast
            with pytest.raises(Unavailable, match="in time"):
                await ask(engine, request(prompt_of(1, 6), "a2"))
            assert (await ask(engine, request(prompt_of(1, 6), "a1"))).finish_reason == "length"
        finally:
            source.gone.set()


async def test_a_row_whose_text_breaks_fails_alone(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from graftwork.engine import loop
    from graftwork.engine.answer import advance
    from graftwork.engine.request import Delta
    from graftwork.engine.sampler import Sampled
    from graftwork.engine.sequence import Sequence

    def broken(sequence: Sequence, sampled: Sampled) -> Delta:
        if sequence.num_prompt == 3:
            raise ValueError("no words")
        return advance(sequence, sampled)

    async with running(tiny) as engine:
        monkeypatch.setattr(loop, "advance", broken)
        bad = asyncio.create_task(ask(engine, request((1, 2, 3))))
        assert (await ask(engine, request((1, 2, 3, 4)))).finish_reason == "length"
        with pytest.raises(GenerationFailed, match="no words"):
            await bad


async def test_pinned_adapters_stay_and_their_failure_is_told(tiny: Tiny) -> None:
    from graftwork.engine.request import AdapterHandle

    source = FolderSource(tiny.root)
    async with running(tiny, source) as engine:
        source.failure = Damaged("gone")
        with pytest.raises(Damaged):
            await engine.load(AdapterHandle("a2", "local", "a2:1.0.0"))
        source.failure = None
        answer = await ask(engine, request(prompt_of(1, 5), "a1"))
        assert answer.finish_reason == "length" and engine.stats().adapters_resident == 1


async def test_a_row_that_is_not_finite_fails_alone(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from graftwork.models.decoder import Decoder
    from graftwork.models.forward_batch import ForwardBatch, ForwardResult

    plain = Decoder.forward
    poisoned = 77

    def forward(self: Decoder, batch: ForwardBatch) -> ForwardResult:
        logits = plain(self, batch).logits.clone()
        logits[batch.token_ids[batch.logits_at] == poisoned] = float("nan")
        return ForwardResult(logits, None)

    async with running(tiny) as engine:
        want = await ask(engine, request((1, 2, 3)))
        monkeypatch.setattr(Decoder, "forward", forward)
        bad = asyncio.create_task(ask(engine, request((1, poisoned))))
        good = await ask(engine, request((1, 2, 3)))
        with pytest.raises(GenerationFailed, match="not finite"):
            await bad
        assert good.tokens == want.tokens and good.chosen == pytest.approx(want.chosen, abs=1e-5)


async def test_a_step_that_breaks_fails_its_rows_and_the_engine_goes_on(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graftwork.engine.runner import Runner

    async with running(tiny) as engine:
        with monkeypatch.context() as patch:

            def broken(self: Runner, chunks: object) -> None:
                raise RuntimeError("out of luck")

            patch.setattr(Runner, "run", broken)
            with pytest.raises(GenerationFailed, match="out of luck"):
                await ask(engine, request((1, 2, 3), "a1"))
        assert (await ask(engine, request((1, 2, 3), "a1"))).finish_reason == "length"


async def test_an_observer_that_raises_is_told_of_no_more_steps_and_the_engine_goes_on(tiny: Tiny) -> None:
    told = []

    def observer(record: object) -> None:
        told.append(record)
        raise RuntimeError("I cannot count")

    async with running(tiny) as engine:
        engine.observe(observer)
        assert (await ask(engine, request((1, 2, 3), max_tokens=3))).finish_reason == "length"
        assert len(told) == 1 and engine.ready


async def test_requests_beyond_the_queue_are_told_to_come_back(tiny: Tiny) -> None:
    async with running(tiny, max_waiting=1, max_num_seqs=1) as engine:
        got = await asyncio.gather(
            *(ask(engine, request(prompt_of(i, 5), max_tokens=60)) for i in range(30)), return_exceptions=True
        )
        assert any(isinstance(one, Unavailable) for one in got) and any(not isinstance(one, Unavailable) for one in got)


async def test_stopping_ends_running_requests_with_a_reason(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        task = asyncio.create_task(ask(engine, request(prompt_of(1, 5), max_tokens=490)))
        while not engine.stats().running:
            await asyncio.sleep(0.001)
        await engine.stop()
        with pytest.raises(Unavailable, match="shutting down"):
            await task
        with pytest.raises(Unavailable):
            await ask(engine, request((1, 2)))


async def test_an_idle_engine_waits_for_a_batch_up_to_its_size(tiny: Tiny) -> None:
    async with running(tiny, batch_wait_ms=1000.0, max_num_seqs=3) as engine:
        requests = [request(prompt_of(i, 5), max_tokens=8, ignore_eos=True) for i in range(3)]
        await ask_all(engine, requests)
        assert engine.stats().steps == 8, "all three ran in every step"


async def test_the_event_loop_gets_one_message_per_step(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = []

    def counted(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
        messages.append(args)
        call_in(loop, call, *args)

    async with running(tiny, batch_wait_ms=1000.0, max_num_seqs=4) as engine:
        monkeypatch.setattr("graftwork.engine.streams.call_in", counted)
        requests = [request(prompt_of(i, 5), max_tokens=6, ignore_eos=True) for i in range(4)]
        await ask_all(engine, requests)
        assert len(messages) == engine.stats().steps == 6


async def test_a_panic_in_the_loop_is_told_to_everyone(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As one that comes out of Rust."""

    def broken(*_: object) -> None:
        raise Panic

    engine = create_engine(tiny.settings, tiny.base, FolderSource(tiny.root))
    await engine.start()
    try:
        monkeypatch.setattr(engine._scheduler, "schedule", broken)
        with pytest.raises(Unavailable, match="stopped after an internal error"):
            await ask(engine, request(prompt_of(1, 5)))
        assert not engine.ready
    finally:
        await engine.stop()
