"""World: one engine under a soak: what is asked of it, what may come of that, and what must be left of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.request import AdapterHandle, Caller, GenerationRequest
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.step_record import StepRecord
from graftwork.errors import Damaged, GraftworkError, Refused, Unavailable
from soak.drawer import Drawn
from soak.shelf import Shelf
from soak.truths import Truth, Truths
from support.engines import Answer, Named, ask

#: Most operations under way at a time: more than rows fit a step, and more pages than there are.
AT_ONCE = 40
#: Largest difference between two right runs in float32.
TOLERANCE = 1e-3
#: Longest wait for what was asked to be let go of, in seconds: another process may have the machine for a while.
PATIENCE_S = 300.0

Work = Coroutine[Any, Any, None]
#: Draws what it will do when it is called, in the order of the operations; then does it, beside others.
Operation = Callable[["World"], Work]


@dataclass(frozen=True)
class Question:
    """What to ask: `named` is in the words of the truths, `handle` in the engine's."""

    named: Named
    handle: AdapterHandle | None
    truth: Truth
    caller: Caller = field(default_factory=Caller)

    @property
    def names(self) -> tuple[str, ...]:
        if self.named is None:
            return ()
        return (self.named,) if isinstance(self.named, str) else tuple(name for name, _ in self.named)


class World:
    """The engine, its truths and its draws; `exact` when bits, not only tokens, must be those of a solo run."""

    def __init__(
        self, seed: int, engine: AsyncEngine, shelf: Shelf, drawer: Mapping[str, Drawn], truths: Truths, *, exact: bool
    ) -> None:
        self.seed, self.engine, self.shelf, self.drawer, self.truths = seed, engine, shelf, drawer, truths
        self.exact = exact
        self.draw = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.generating = [name for name, drawn in drawer.items() if drawn.generates]
        self._versions = {name: [self._first_version(drawn)] for name, drawn in drawer.items()}
        self._popular = [named for named in truths if not isinstance(named, str) or named in self.generating]
        self.draw.shuffle(self._popular)
        self._floods, self._flooded_at = 0, 0.0
        self._ids = count()
        self._broken: list[AssertionError] = []
        engine.observe(self._check)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def question(self) -> Question:
        """For any adapter that answers; a few are asked for far more often than the others."""
        return self.question_for(self._popular[int(self.draw.expovariate(0.08)) % len(self._popular)])

    def question_for(self, named: Named) -> Question:
        draw = self.draw
        caller = Caller(draw.choice(("local", "north", "south")), priority=draw.randrange(2))
        return Question(named, self._handle(named), draw.choice(self.truths[named]), caller)

    def _first_version(self, drawn: Drawn) -> AdapterHandle:
        if drawn.ends_in is Refused:
            return AdapterHandle(drawn.name, "local", f"{drawn.name}:1.0.0")
        return self.shelf.push(drawn.name)

    def _handle(self, named: Named) -> AdapterHandle | None:
        if named is None:
            return None
        if isinstance(named, str):
            return self.draw.choice(self._versions[named])
        parts = tuple((self._versions[name][0], scale) for name, scale in named)
        return AdapterHandle(f"mix:{named}", "local", "+".join(f"{one.label}*{scale}" for one, scale in parts), parts)

    def publish(self, name: str, handle: AdapterHandle) -> None:
        """A version that is asked for from now on."""
        if handle not in self._versions[name]:
            self._versions[name].append(handle)

    # -- asking ------------------------------------------------------------------------------------------------------

    def request(self, question: Question, **params: Any) -> GenerationRequest:
        greedy = {"temperature": 0.0, "max_tokens": question.truth.certain, "ignore_eos": True, "logprobs": 0}
        made = SamplingParams(**(greedy | params))
        return GenerationRequest(self.next_id(), question.truth.prompt, made, question.handle, caller=question.caller)

    def next_id(self) -> str:
        return f"soak-{next(self._ids)}"

    async def answered(self, question: Question, **params: Any) -> None:
        """Ask, and hold the answer to its truth."""
        asked = self.request(question, **params)
        with self.judged(question):
            answer = await ask(self.engine, asked)
            assert not any(self.drawer[name].ends_in for name in question.names), "nobody could answer so"
            assert answer.finish_reason == "length" and len(answer.tokens) == asked.params.max_tokens
            assert answer.completion_tokens == len(answer.tokens) and answer.prompt_tokens == len(question.truth.prompt)
            self.compare(answer, question.truth)

    def compare(self, answer: Answer, truth: Truth) -> None:
        """An answer, or the beginning of one."""
        assert answer.tokens == truth.answer.tokens[: len(answer.tokens)]
        self.compare_numbers(answer.chosen, truth.answer.chosen[: len(answer.tokens)])

    def compare_numbers(self, got: Any, want: Any) -> None:
        assert list(got) == (list(want) if self.exact else pytest.approx(list(want), abs=TOLERANCE))

    @contextmanager
    def judged(self, question: Question) -> Iterator[None]:
        """Errors that the question may end with are as good as its answer; any other is not."""
        began = time.monotonic()
        try:
            yield
        except GraftworkError as error:
            if not self._excused(error, question, began):
                raise

    def _excused(self, error: GraftworkError, question: Question, began: float) -> bool:
        if any(type(error) is self.drawer[name].ends_in for name in question.names):
            return True
        if isinstance(error, Unavailable) and "waiting already" in error.message:
            return bool(self._floods) or self._flooded_at >= began
        at_fault = any(self.shelf.was_at_fault(name, began) for name in question.names)
        return at_fault and isinstance(error, Unavailable | Damaged)

    @contextmanager
    def flooding(self) -> Iterator[None]:
        """Whoever asks meanwhile may be told that too many wait."""
        self._floods += 1
        try:
            yield
        finally:
            self._floods -= 1
            self._flooded_at = time.monotonic()

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, operations: Mapping[str, tuple[Operation, float]], number: int, *, rest_every: int) -> None:
        """So many operations by their weights, some beside others; now and then all end and nothing may be held."""
        names, weights = list(operations), [weight for _, weight in operations.values()]
        turns = asyncio.Semaphore(AT_ONCE)
        for first in range(0, number, rest_every):
            async with asyncio.TaskGroup() as group:
                for index in range(first, min(first + rest_every, number)):
                    await turns.acquire()
                    [name] = self.draw.choices(names, weights)
                    group.create_task(self._one(index, name, operations[name][0](self), turns))
            await self.rest()

    async def _one(self, index: int, name: str, work: Work, turns: asyncio.Semaphore) -> None:
        try:
            await work
            self.done[name] += 1
        except BaseException as error:
            error.add_note(f"In operation {index}, {name!r}. Again: GRAFTWORK_SOAK_SEED={self.seed}")
            raise
        finally:
            turns.release()

    def _check(self, _record: StepRecord) -> None:
        """After every step, in the loop's thread; what it finds ends the loop, and with it everything."""
        try:
            self.engine.check()
        except AssertionError as error:
            self._broken.append(error)
            raise

    async def rest(self) -> None:
        """Wait until nothing runs; fails when something is held all the same."""
        deadline = time.monotonic() + PATIENCE_S
        while (held := self.held()) and not self._broken:
            assert time.monotonic() < deadline, f"held at rest: {held}; seed {self.seed}"
            await asyncio.sleep(0.002)
        if self._broken:
            raise self._broken[0]
        self.engine.check()

    def held(self) -> dict[str, Any]:
        """Everything that somebody holds: rows, pages, pins, streams, futures, tasks, files open or not yet whole."""
        engine, stats = self.engine, self.engine.stats()
        texts = engine._intake._texts
        assert texts is not None, "companions are on"
        everything = {
            "running": stats.running,
            "waiting": stats.waiting,
            "pages": stats.kv_pages_used,
            "pins": stats.adapters_pinned,
            "streams": engine._streams,
            "futures": engine._adapters.loads,
            "loads": engine._adapters.loader._flights,
            "texts": texts._flights,
            "rooms": engine._room._loads,
            "short of room": engine._adapters.cache.short_of_room,
            "tasks": asyncio.all_tasks() - {asyncio.current_task()},
            "files": self.shelf.files_in_use,
        }
        return {name: found for name, found in everything.items() if found}
