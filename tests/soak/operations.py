"""OPERATIONS: what may happen to a server in a soak, and how often beside the others; a new one is one entry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import aclosing, suppress

from graftwork.engine.request import PoolingRequest
from graftwork.errors import Damaged, InvalidRequest, Unavailable
from soak.world import PATIENCE_S, Operation, Question, Work, World
from support.engines import Answer, ask
from support.scale import times

#: Two adapters that together fill the memory for adapters, so that every other one has to leave it.
LARGE = ("rank-63", "rank-48")
#: Requests of a flood: more than may wait.
FLOOD = 100
#: Editions of an adapter that are pushed; from then on they are registered already.
EDITIONS = times(5, 100)


def answer(world: World) -> Work:
    """A whole answer."""
    question = world.question()
    return world.answered(question, max_tokens=world.draw.randint(1, question.truth.certain))


def stop(world: World) -> Work:
    """An answer that a token ends."""
    question = world.question()
    tokens = question.truth.answer.tokens[: question.truth.certain]
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
    pieces = world.draw.randint(1, question.truth.certain)

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
    """A version that is new, or there already, and is asked for at once."""
    question = world.question_for(world.draw.choice(world.generating))
    edition = world.draw.randrange(1, 1 + EDITIONS)

    async def work() -> None:
        assert isinstance(question.named, str), "one adapter"
        with world.judged(question):
            handle = await asyncio.to_thread(world.shelf.push, question.named, edition)
            world.publish(question.named, handle)
            await world.answered(Question(question.named, handle, question.truth))

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
    "damage_form": (damage_form, 2),
    "lose_forms": (lose_forms, 0.1),
    "flood": (flood, 0.1),
}
