"""Grammars: prepares what requests ask of their answers' form, beside the step loop, and keeps it for the next."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from llguidance import LLMatcher, LLTokenizer

from graftwork.engine.fair_workers import FairWorkers, Job
from graftwork.engine.grammar import MAX_GRAMMAR_BYTES, Grammar
from graftwork.engine.grammar_limits import PARSER_LIMITS
from graftwork.engine.grammar_tokenizer import grammar_tokenizer
from graftwork.engine.limited_process import LimitedProcess, ProcessLimits
from graftwork.engine.row_grammar import RowGrammar, reason_of
from graftwork.engine.shared_future import result_of
from graftwork.engine.text import Text, Vocabulary
from graftwork.errors import SHUTTING_DOWN, GraftworkError, InvalidRequest, Unavailable

log = logging.getLogger(__name__)

#: So many grammars are prepared at once, half of them for one tenant; a bad one holds up its own thread for as long as
#: it may take. Of one tenant so many may wait.
_THREADS, MOST_WAITING = 4, 128
#: What a thread does beside the trial, which has a limit of its own: start its process, and prepare, in seconds.
_BESIDE_S = 1.0
#: How long it is remembered that a grammar cannot be used, in seconds.
_FAILED_S = 60.0
#: What is kept: so much memory of grammars, and tokenizers, some 20 MB each.
_ROOM_BYTES, _TOKENIZERS = 256 << 20, 8
_MOST = 1024
#: A grammar in llguidance's words is not much longer than in the request's.
_ANSWER_BYTES = 16 * MAX_GRAMMAR_BYTES

#: The tokens that it is for, and the digest of the grammar.
Key = tuple[Vocabulary, str]


@dataclass(frozen=True)
class Prepared:
    """A grammar for one vocabulary, at its beginning: rows get copies."""

    matcher: LLMatcher
    vocab_size: int
    num_bytes: int


class Grammars:
    """Owns prepared grammars, by vocabulary and digest: one is prepared once for all who wait for it.

    NOTE: each is first tried out in a process with limits: llguidance bounds most of what a grammar costs, but a long
    chain of references overflows the stack, and a large `multipleOf` takes gigabytes.
    """

    def __init__(
        self, limits: ProcessLimits, room_bytes: int = _ROOM_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._room_bytes, self._clock = limits, room_bytes, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Job[Prepared]] = OrderedDict()
        self._failed: OrderedDict[Key, tuple[float, str]] = OrderedDict()  # until when, why; the oldest first
        self._tokenizers: OrderedDict[Vocabulary, LLTokenizer] = OrderedDict()
        self._processes: list[LimitedProcess] = []
        self._own = threading.local()
        self._closed = False
        self._workers = FairWorkers[Prepared](_THREADS, MOST_WAITING, limits.time_s + _BESIDE_S, "grammars")

    async def row(self, grammar: Grammar, text: Text, tenant: str) -> RowGrammar:
        """A row's place at the beginning of `grammar`, over the tokens of `text`; tenants take turns to have one made.

        Raises:
            InvalidRequest: it cannot be used, or takes too much time or memory; `field` is the grammar's.
            TooManyRequests: as many new ones of the tenant wait as may.
            Unavailable: the process that tries it does not start, or the server stops.
        """
        size = len(grammar.encoded)
        if size > MAX_GRAMMAR_BYTES:
            raise InvalidRequest(
                f"{grammar.field} has {size} bytes; at most {MAX_GRAMMAR_BYTES} are read.", field=grammar.field
            )
        key = await asyncio.to_thread(text.vocabulary), digest_of(grammar)
        try:
            job = self._join(key, grammar, text, tenant)
            try:
                made = await result_of(job.future)
            finally:
                self._leave(key, job, tenant)
        except _Unusable as error:
            raise InvalidRequest(f"{grammar.field} cannot be used: {error}", field=grammar.field) from error
        return RowGrammar(made.matcher.deep_copy(), made.vocab_size, grammar.field)

    def close(self) -> None:
        """Take no more calls, end what is being tried, and wait for the threads; whoever waits is told."""
        with self._lock:
            self._closed = True
        for process in self._processes:
            process.end()
        self._workers.close()

    @property
    def num_bytes(self) -> int:
        """About how much memory is taken by what is kept."""
        with self._lock:
            return sum(map(_bytes_of, self._kept.values()))

    def _join(self, key: Key, grammar: Grammar, text: Text, tenant: str) -> Job[Prepared]:
        with self._lock:
            if self._closed:
                raise Unavailable(SHUTTING_DOWN)
            self._check_known(key)
            job = self._kept.get(key) or Job(partial(self._prepare, key, grammar, text))
            self._workers.join(tenant, job)
            self._kept[key] = job
            self._kept.move_to_end(key)
            return job

    def _check_known(self, key: Key) -> None:
        """Raise what a grammar failed of a short time ago."""
        if (known := self._failed.get(key)) is not None:
            until, why = known
            if self._clock() < until:
                raise _Unusable(why)
            del self._failed[key]

    def _leave(self, key: Key, job: Job[Prepared], tenant: str) -> None:
        """One waits no longer; what nobody waits for is not begun, so that it holds up nobody."""
        with self._lock:
            if self._workers.leave(tenant, job):
                del self._kept[key]

    def _prepare(self, key: Key, grammar: Grammar, text: Text) -> Prepared:
        try:
            words, num_bytes = self._try(grammar)
            matcher = LLMatcher(self._tokenizer(key[0], text), words, limits=PARSER_LIMITS, log_level=0)
            row = RowGrammar(matcher.deep_copy(), text.vocab_size, grammar.field)
            row.mask()
            if matcher.is_error() or row.problem is not None:
                raise _Unusable(row.problem or reason_of(matcher.get_error()))
            self._make_room(num_bytes)
            return Prepared(matcher, text.vocab_size, num_bytes)
        except BaseException as error:
            if not isinstance(error, GraftworkError | _Unusable):  # a panic in Rust is no Exception
                log.exception("A grammar could not be prepared.")
                error = _Unusable(f"{type(error).__name__}: {error}")
            self._forget(key, error)
            raise error

    def _forget(self, key: Key, error: BaseException) -> None:
        """It is not there; why is remembered where that is its own fault."""
        with self._lock:
            del self._kept[key]
            if isinstance(error, _Unusable):
                self._failed[key] = self._clock() + _FAILED_S, str(error)
                if len(self._failed) > _MOST:
                    self._failed.popitem(last=False)

    def _try(self, grammar: Grammar) -> tuple[str, int]:
        """The grammar in llguidance's words, and its size in bytes, of a process that this thread keeps for it."""
        process: LimitedProcess | None = getattr(self._own, "process", None)
        if process is None:
            process = LimitedProcess("graftwork.engine.grammar_worker", "tries grammars", self._limits)
            self._own.process = process
            with self._lock:
                self._processes.append(process)
                if self._closed:
                    process.end()
        answer = process.ask({"kind": grammar.kind, "source": grammar.source}, _ANSWER_BYTES)
        if self._closed:
            raise Unavailable(SHUTTING_DOWN)
        if answer is None:
            raise _Unusable(f"it is nested too deeply, or takes more than {self._limits}.")
        if "error" in answer:
            raise _Unusable(answer["error"])
        return answer["grammar"], answer["bytes"]

    def _tokenizer(self, vocabulary: Vocabulary, text: Text) -> LLTokenizer:
        with self._lock:
            if (known := self._tokenizers.get(vocabulary)) is not None:
                self._tokenizers.move_to_end(vocabulary)
                return known
        try:
            made = grammar_tokenizer(text)
        except ValueError as error:
            raise _Unusable(f"this model's tokenizer cannot be followed: {error}") from error
        with self._lock:
            self._tokenizers[vocabulary] = made
            if len(self._tokenizers) > _TOKENIZERS:
                self._tokenizers.popitem(last=False)
        return made

    def _make_room(self, num_bytes: int) -> None:
        """Let go of what was used the longest ago."""
        with self._lock:
            kept = sum(map(_bytes_of, self._kept.values()))
            for key, job in list(self._kept.items()):
                if kept + num_bytes <= self._room_bytes and len(self._kept) <= _MOST:
                    return
                if job.future.done():
                    kept -= _bytes_of(job)
                    del self._kept[key]


class _Unusable(Exception):
    """Why a grammar cannot be used; whoever asked knows by which field."""


def digest_of(grammar: Grammar) -> str:
    return hashlib.sha256(grammar.kind.encode() + b"\0" + grammar.encoded).hexdigest()


def _bytes_of(job: Job[Prepared]) -> int:
    future = job.future
    return future.result().num_bytes if future.done() and future.exception() is None else 0
