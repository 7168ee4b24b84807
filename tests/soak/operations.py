"""OPERATIONS: what may happen to a server in a soak, and how often beside the others; a new one is one entry."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from graftwork.engine.grammar import Grammar
from graftwork.engine.request import PoolingRequest
from graftwork.errors import Conflict, Damaged, GenerationFailed, InvalidRequest, Refused, Unavailable
from soak.truths import LONGEST, MOST_BOUND, speaks
from soak.world import PATIENCE_S, Operation, Question, Work, World
from support.engines import Answer, ask
from support.scale import times

#: Two adapters that together fill the memory for adapters, so that every other one has to leave it.
LARGE = ("rank-63", "rank-48")
#: Requests of a flood: more than may wait.
FLOOD = 100
#: No language, and one whose first token is an item of a row of a million.
BAD_GRAMMARS = (
    Grammar("regex", "("),
    Grammar("json", '{"type": 3}'),
    Grammar("grammar", 'start: ("a"{1000000}){1000000}'),
)
#: Editions of an adapter that are pushed; from then on they are registered already.
EDITIONS = times(5, 100)


def answer(world: World) -> Work:
    """A whole answer."""
    question = world.question()
    return world.answered(question, max_tokens=world.draw.randint(1, question.certain))


def stop(world: World) -> Work:
    """An answer that a token ends."""
    question = world.question()
    tokens = question.truth.answer.tokens[: question.certain]
    end = world.draw.choice(tokens)
    wanted = tokens[: tokens.index(end) + 1]

    async def work() -> None:
        with world.judged(question):
            got = await ask(world.engine, world.request(question, stop_token_ids=(end,)))
            assert got.tokens == wanted and got.finish_reason == "stop"

    return work()


def rate(world: World) -> Work:
    """An answer, and the prompt's own log-probabilities."""
    question = world.question()

    async def work() -> None:
        with world.judged(question):
            got = await ask(world.engine, world.request(question, prompt_logprobs=0))
            world.compare(got, question.truth)
            world.compare_numbers(_rated(got), _rated(question.truth.answer))

    return work()


def _rated(answer: Answer) -> list[float]:
    assert answer.prompt_logprobs is not None, "it was asked for"
    return [one.logprob for one in answer.prompt_logprobs if one.logprob is not None]


def pool(world: World) -> Work:
    """A prompt as a vector, or as classes."""
    classes = world.draw.random() < 0.2
    question = world.question_for("classifier") if classes else world.question()

    async def work() -> None:
        asked = PoolingRequest(
            world.next_id(), question.truth.prompt, "classes" if classes else "mean", question.handle,
            caller=question.caller,
        )  # fmt: skip
        with world.judged(question):
            got = await world.engine.pool(asked)
            assert question.truth.vector is not None
            world.compare_numbers(got.values, question.truth.vector.values)

    return work()


def leave(world: World) -> Work:
    """A stream that is closed after some pieces of its answer."""
    question = world.question()
    pieces = world.draw.randint(1, question.certain)

    async def work() -> None:
        got = Answer()
        with world.judged(question):
            async with aclosing(world.engine.generate(world.request(question))) as deltas:
                async for delta in deltas:
                    got.tokens += delta.token_ids
                    got.logprobs += delta.logprobs
                    if len(got.tokens) >= pieces:
                        break
            world.compare(got, question.truth)

    return work()


def abort(world: World) -> Work:
    """A request that is called off wherever it is: on its way in, waiting, loading, in its prompt, in its answer."""
    question, turns, wait_s = world.question(), world.draw.randrange(12), world.draw.choice((0.0, 0.0, 0.003, 0.01))

    async def work() -> None:
        task = asyncio.create_task(world.answered(question))
        for _ in range(turns):
            await asyncio.sleep(wait_s / 12)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return work()


def refused(world: World) -> Work:
    """A request for an adapter that cannot answer."""
    return world.answered(world.question_for(world.draw.choice(("overflows", "nan", "cut"))))


def wrong(world: World) -> Work:
    """A request that nobody can answer."""
    question = world.question()
    prompt: tuple[int, ...] = world.draw.choice(((), (1, 256), (1,) * 600))

    async def work() -> None:
        with world.judged(question), suppress(InvalidRequest):
            await world.engine.pool(PoolingRequest(world.next_id(), prompt, "mean", question.handle))
            raise AssertionError(f"{prompt[:3]} was answered")

    return work()


def push(world: World) -> Work:
    """A version that is new, or there already, and is asked for at once; perhaps by a name that was another's."""
    question = world.question_for(world.draw.choice(world.generating))
    edition, moves = world.draw.randrange(1, 1 + EDITIONS), world.draw.random() < 0.5

    async def work() -> None:
        assert isinstance(question.named, str), "one adapter"
        with world.judged(question):
            handle = await asyncio.to_thread(world.shelf.push, question.named, edition)
            world.engine.retry(handle.digest)
            if moves:
                assert question.handle is not None
                world.engine.moved(question.handle.digest, handle)
            world.publish(question.named, handle)
            await world.answered(replace(question, handle=handle))

    return work()


def load(world: World) -> Work:
    """A version is brought to memory for whoever asks next; he waits for that, or not."""
    name = world.draw.choice((*world.generating, "overflows", "nan", "cut"))
    question, wait_s = world.question_for(name), world.draw.choice((None, 0.0, 0.01))

    async def work() -> None:
        assert question.handle is not None
        with world.judged(question):
            there = await world.engine.load(question.handle, wait_s=wait_s)
            assert there or wait_s is not None
            assert there is False or world.drawer[name].ends_in is not Refused
        await world.answered(question)

    return work()


def call_off_load(world: World) -> Work:
    """Whoever wanted a version in memory leaves; others who want it get it all the same."""
    question, pin = world.question_for(world.draw.choice(world.generating)), world.draw.random() < 0.3
    wait_s, others = world.draw.choice((0.0, 0.0, 0.003, 0.01)), world.draw.randrange(2)

    async def work() -> None:
        assert question.handle is not None
        with world.judged(question), world.pinning(question.handle) as free:
            loading = asyncio.create_task(world.engine.load(question.handle, pin=pin and free))
            answers = asyncio.create_task(_all(world, [question] * others))
            await asyncio.sleep(wait_s)
            loading.cancel()
            with suppress(asyncio.CancelledError):
                await loading
            await answers

    return work()


def pin(world: World) -> Work:
    """A version that is pinned stays, whoever needs its room, until it is let go of."""
    question = world.question_for(world.draw.choice([name for name in world.generating if name not in LARGE]))
    others = [world.question_for(name) for name in LARGE]

    async def work() -> None:
        handle, engine = question.handle, world.engine
        assert handle is not None
        with world.judged(question), world.pinning(handle) as free:
            if free and await engine.load(handle, pin=True):
                before = engine.residency()[handle.digest]
                await _all(world, [*others, question])
                with suppress(Conflict):
                    await engine.unload(handle)
                    raise AssertionError("what is pinned was unloaded")
                after = engine.residency()[handle.digest]
                assert before.pinned and after.pinned and after.uses >= before.uses, "it left, and came back"

    return work()


def unload(world: World) -> Work:
    """A version leaves memory, and perhaps the disk, whoever uses it; they are answered, and who comes next too."""
    question = world.question_for(world.draw.choice(world.generating))
    wait_s, disk = world.draw.choice((0.0, 0.01, 1.0)), world.draw.random() < 0.5

    async def work() -> None:
        assert question.handle is not None
        began = time.monotonic()
        during = asyncio.create_task(world.answered(question))
        try:
            rows = await world.engine.unload(question.handle, wait_s=wait_s, disk=disk)
            assert not rows or time.monotonic() - began >= wait_s, "it gave up before it was to"
        except Conflict:
            assert world.was_pinned(question.handle, began)
        await during
        await world.answered(question)

    return work()


def share(world: World) -> Work:
    """One long prompt of several blocks, asked for at once, and then again by whoever may share them, or may not."""
    first, second = world.long_question(), world.long_question()
    together = [first, first, replace(first, caller=second.caller)]

    async def work() -> None:
        await _all(world, together)
        await _all(world, [first, second])

    return work()


def structured(world: World) -> Work:
    """An answer in a language of its own, beside the others."""
    question = world.question()
    truth, grammar = question.truth, question.truth.grammar
    assert grammar is not None, "whoever generates can be bound"

    async def work() -> None:
        with world.judged(question):
            request = replace(world.request(question, max_tokens=MOST_BOUND), grammar=grammar)
            got = await ask(world.engine, request)
            assert speaks(grammar, got)
            if world.exact:  # else rounding may choose
                assert (got.tokens, got.chosen) == (truth.bound.tokens, truth.bound.chosen)

    return work()


def bad_grammar(world: World) -> Work:
    """An answer in a language that is none, or too much."""
    question, grammar = world.question(), world.draw.choice(BAD_GRAMMARS)

    async def work() -> None:
        with world.judged(question), suppress(InvalidRequest, GenerationFailed):
            # More than one token: the first of what is too much may be said.
            await ask(world.engine, replace(world.request(question, max_tokens=LONGEST), grammar=grammar))
            raise AssertionError(f"{grammar} was spoken")

    return work()


def late(world: World) -> Work:
    """Whoever reads the files of an adapter hangs for longer than a request may take."""
    name = world.draw.choice(world.generating)
    questions = [world.question_for(name) for _ in range(2)]
    over = threading.Event()

    async def work() -> None:
        with world.shelf.fault(name, lambda: over.wait(PATIENCE_S)):
            try:
                await _all(world, questions)
            finally:
                over.set()

    return work()


def evict(world: World) -> Work:
    """Requests for adapters that leave no room for any other."""
    return _all(world, [world.question_for(name) for name in LARGE])


def store_fails(world: World) -> Work:
    """The files of an adapter cannot be read for a while."""
    name = world.draw.choice(world.generating)
    error = world.draw.choice((Unavailable("The store is away."), OSError(5, "I/O error"), Damaged("Other bytes.")))

    def strike() -> None:
        raise error

    questions = [world.question_for(name) for _ in range(3)]

    async def work() -> None:
        with world.shelf.fault(name, strike):
            await _all(world, questions)

    return work()


def store_hangs(world: World) -> Work:
    """Whoever reads the files of an adapter hangs for a while; those who wait for it stay, or leave."""
    name = world.draw.choice(world.generating)
    questions = [world.question_for(name) for _ in range(2)]
    wait_s, stay = world.draw.choice((0.0, 0.002, 0.01)), world.draw.random() < 0.5
    over = threading.Event()

    async def work() -> None:
        with world.shelf.fault(name, lambda: over.wait(PATIENCE_S)):
            waiting = asyncio.create_task(_all(world, questions))
            await asyncio.sleep(wait_s)
            if not stay:
                waiting.cancel()
            over.set()
            with suppress(asyncio.CancelledError):
                await waiting

    return work()


def damage_blob(world: World) -> Work:
    """The stored weights of an adapter are damaged, and mended."""
    name = world.draw.choice(world.generating)
    during, after = world.question_for(name), world.question_for(name)

    async def work() -> None:
        with world.shelf.damaged(name):
            await world.answered(during)
        await world.answered(after)

    return work()


def damage_form(world: World) -> Work:
    """A form on disk is damaged: it is made again, and nobody is told."""
    question = world.question()
    world.shelf.damage_form(world.draw.randrange(1 << 30))
    return world.answered(question)


def lose_forms(world: World) -> Work:
    """No form is on disk any more."""
    question = world.question()
    world.shelf.lose_forms()
    return world.answered(question)


def flood(world: World) -> Work:
    """More requests at once than may wait: some are told to come back, the others are answered."""
    questions = [world.question_for(None) for _ in range(FLOOD)]

    async def work() -> None:
        with world.flooding():
            await _all(world, questions)

    return work()


async def _all(world: World, questions: Sequence[Question]) -> None:
    await asyncio.gather(*(world.answered(question) for question in questions))


OPERATIONS: dict[str, tuple[Operation, float]] = {
    "answer": (answer, 40),
    "stop": (stop, 8),
    "rate": (rate, 4),
    "pool": (pool, 6),
    "leave": (leave, 12),
    "abort": (abort, 16),
    "refused": (refused, 3),
    "wrong": (wrong, 2),
    "push": (push, 1.5),
    "evict": (evict, 1),
    "store_fails": (store_fails, 2),
    "store_hangs": (store_hangs, 1),
    "damage_blob": (damage_blob, 1),
    "load": (load, 3),
    "call_off_load": (call_off_load, 2),
    "pin": (pin, 1),
    "unload": (unload, 4),
    "share": (share, 1.5),
    "structured": (structured, 8),
    "bad_grammar": (bad_grammar, 1),
    "damage_form": (damage_form, 2),
    "lose_forms": (lose_forms, 0.1),
    "flood": (flood, 0.1),
}
#: Where a request has a limit.
HURRIED: dict[str, tuple[Operation, float]] = OPERATIONS | {"late": (late, 2)}
