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
from graftwork.errors import Damaged, GraftworkError, Refused, TimedOut, Unavailable
from soak.drawer import Drawn
from soak.shelf import Shelf
from soak.truths import LONGEST, Truth, Truths
from support.engines import Answer, Named, ask

#: Most operations under way at a time: more than rows fit a step, and more pages than there are.
AT_ONCE = 40
#: Of tenants; and what requests are salted with.
WEIGHTS = {"local": 1.0, "north": 2.0, "south": 0.5}
SALTS = ("", "", "salt")
#: A failure that came late, in seconds: after its fault was over, and noted then.
LATE_S = 1.0
#: Most adapters that are pinned at a time: any other must find room beside them.
MOST_PINNED = 2
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
    #: So many of the answer's tokens are certain.
    certain: int
    caller: Caller = field(default_factory=Caller)

    @property
    def names(self) -> tuple[str, ...]:
        if self.named is None:
            return ()
        return (self.named,) if isinstance(self.named, str) else tuple(name for name, _ in self.named)


class World:
    """The engine, its truths and its draws; `exact` when bits, not only tokens, must be those of a solo run.

    Args:
        memory_s: how long a load that failed is remembered, in seconds.
        limit_s: longest time of a request, in seconds, if there is one.
    """

    def __init__(
        self, seed: int, engine: AsyncEngine, shelf: Shelf, drawer: Mapping[str, Drawn], truths: Truths, *,
        exact: bool, memory_s: float, limit_s: float | None,
    ) -> None:  # fmt: skip
        self.seed, self.engine, self.shelf, self.drawer, self.truths = seed, engine, shelf, drawer, truths
        self.exact, self._memory_s, self._limit_s = exact, memory_s, limit_s
        self.draw = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.num_right = 0
        #: Errors that were as good as an answer.
        self.excused: Counter[type[GraftworkError]] = Counter()
        self.generating = [name for name, drawn in drawer.items() if drawn.generates]
        self._versions = {name: [self._first_version(drawn)] for name, drawn in drawer.items()}
        self._sure = {named: [one for one in found if exact or one.certain] for named, found in truths.items()}
        assert all(self._sure.values()), "an adapter has no certain answer"
        self._popular = [named for named in truths if not isinstance(named, str) or named in self.generating]
        self.draw.shuffle(self._popular)
        self._floods, self._flooded_at = 0, 0.0
        self._pinned: set[str] = set()
        self._unpinned_at: dict[str, float] = {}
        self._ids = count()
        self._broken: list[AssertionError] = []
        engine.observe(self._check)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def question(self) -> Question:
        """For any adapter that answers; a few are asked for far more often than the others."""
        return self.question_for(self._popular[int(self.draw.expovariate(0.08)) % len(self._popular)])

    def question_for(self, named: Named) -> Question:
        return self._about(named, self.draw.choice(self._sure[named]))

    def long_question(self) -> Question:
        """With a prompt of several blocks."""
        named = self.question().named
        return self._about(named, max(self._sure[named], key=lambda truth: len(truth.prompt)))

    def version_of(self, name: str) -> AdapterHandle:
        """Any version of an adapter."""
        return self.draw.choice(self._versions[name])

    def _about(self, named: Named, truth: Truth) -> Question:
        tenant = self.draw.choice(list(WEIGHTS))
        caller = Caller(tenant, WEIGHTS[tenant], self.draw.randrange(2), self.draw.choice(SALTS))
        return Question(named, self._handle(named), truth, LONGEST if self.exact else truth.certain, caller)

    def _first_version(self, drawn: Drawn) -> AdapterHandle:
        if drawn.ends_in is Refused:
            return AdapterHandle(drawn.name, "local", f"{drawn.name}:1.0.0")
        return self.shelf.push(drawn.name)

    def _handle(self, named: Named) -> AdapterHandle | None:
        if named is None:
            return None
        if isinstance(named, str):
            return self.version_of(named)
        parts = tuple((self._versions[name][0], scale) for name, scale in named)
        return AdapterHandle(f"mix:{named}", "local", "+".join(f"{one.label}*{scale}" for one, scale in parts), parts)

    def publish(self, name: str, handle: AdapterHandle) -> None:
        """A version that is asked for from now on."""
        if handle not in self._versions[name]:
            self._versions[name].append(handle)

    # -- asking ------------------------------------------------------------------------------------------------------

    def request(self, question: Question, **params: Any) -> GenerationRequest:
        greedy = {"temperature": 0.0, "max_tokens": question.certain, "ignore_eos": True, "logprobs": 0}
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
            assert answer.completion_tokens == len(answer.tokens)
            assert answer.cached_tokens < answer.prompt_tokens == len(question.truth.prompt)
            self.compare(answer, question.truth)
            self.num_right += 1

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
                error.add_note(f"{question.names}: {getattr(error, 'problems', ())}")
                raise
            self.excused[type(error)] += 1

    def _excused(self, error: GraftworkError, question: Question, began: float) -> bool:
        if any(type(error) is self.drawer[name].ends_in for name in question.names):
            return True
        if isinstance(error, TimedOut):
            return self._limit_s is not None and time.monotonic() - began > 0.9 * self._limit_s
        if isinstance(error, Unavailable) and "waiting already" in error.message:
            return bool(self._floods) or self._flooded_at >= began
        since = began - self._memory_s - LATE_S
        at_fault = any(self.shelf.was_at_fault(name, since) for name in question.names)
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

    @contextmanager
    def pinning(self, handle: AdapterHandle) -> Iterator[bool]:
        """Whether the version may be pinned until the block ends; nobody else does then."""
        free = handle.digest not in self._pinned and len(self._pinned) < MOST_PINNED
        if free:
            self._pinned.add(handle.digest)
        try:
            yield free
        finally:
            if free:
                self.engine.unpin(handle)
                self._pinned.remove(handle.digest)
                self._unpinned_at[handle.digest] = time.monotonic()

    def was_pinned(self, handle: AdapterHandle, since: float) -> bool:
        """Whether a version was pinned at any moment since then (`time.monotonic`)."""
        return handle.digest in self._pinned or self._unpinned_at.get(handle.digest, 0.0) >= since

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, operations: Mapping[str, tuple[Operation, float]], number: int, *, rest_every: int) -> None:
        """Each operation once, then by their weights; many at a time. Now and then all end, and nothing may be held."""

        asyncio.get_running_loop().set_exception_handler(self._lost)
        names, weights = list(operations), [weight for _, weight in operations.values()]
        turns = asyncio.Semaphore(AT_ONCE)
        order = [*self.draw.sample(names, len(names)), *self.draw.choices(names, weights, k=number - len(names))]
        for first in range(0, number, rest_every):
            async with asyncio.TaskGroup() as group:
                for index, name in enumerate(order[first : first + rest_every], first):
                    await turns.acquire()
                    group.create_task(self._one(index, name, operations[name][0](self), turns))
            await self.rest()

    async def _one(self, index: int, name: str, work: Work, turns: asyncio.Semaphore) -> None:
        try:
            await work
            self.done[name] += 1
            while self._floods and name != "flood":  # who was sent away does not come back at once
                await asyncio.sleep(0.01)
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

    def _lost(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that reached nobody, which a server would log."""
        self._broken.append(AssertionError(f"{context}; seed {self.seed}"))

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
