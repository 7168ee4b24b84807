"""EngineLoop: the thread that serves. Each turn: read the inbox, schedule, run, sample, update, send one message."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from graftwork.engine.adapter_cache import CalledOff
from graftwork.engine.answer import advance, pooled_result
from graftwork.engine.chunk import Chunk
from graftwork.engine.grammar_masks import GrammarMasks
from graftwork.engine.inbox import Abort, Inbox, Loaded, Message, Submit
from graftwork.engine.prompt_rating import rate_prompts, take_ratings
from graftwork.engine.request import Delta, Pooled
from graftwork.engine.row_grammar import Mask
from graftwork.engine.runner import Runner
from graftwork.engine.sampler import RowFailure, Sampled, Sampler, SamplingRow
from graftwork.engine.scheduler import UNKNOWN, Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_counters import StepCounters
from graftwork.engine.step_record import Observer, StepRecord
from graftwork.engine.waiting_room import WaitingRoom
from graftwork.errors import SHUTTING_DOWN, GenerationFailed, GraftworkError, InvalidRequest, Unavailable

log = logging.getLogger(__name__)

#: What a step has for one request: a piece of its answer, what its prompt became, or the error that ends it.
Output = tuple[str, Delta | Pooled | GraftworkError]
#: Takes all outputs of one step at once; called in the loop thread.
Deliver = Callable[[list[Output]], None]


class EngineLoop:
    """Owns the scheduler and every sequence; others talk to it through its inbox only."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        room: WaitingRoom,
        inbox: Inbox,
        max_context: int,
        deliver: Deliver,
        clock: Callable[[], float],
    ) -> None:
        self._runner, self._scheduler, self._room, self._inbox = runner, scheduler, room, inbox
        self._max_context = max_context
        self._sampler, self._masks = Sampler(), GrammarMasks()
        self._deliver = deliver
        self._clock = clock
        self._cost = UNKNOWN
        self._sequences: dict[str, Sequence] = {}
        self._arrivals = 0
        self._thread = threading.Thread(target=self._serve, name="graftwork-loop", daemon=True)
        self.counters = StepCounters()
        #: Told of every step, if there is one.
        self.observer: Observer | None = None
        #: True once the thread has ended, on request or because it broke.
        self.stopped = False

    # -- any thread ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the running step; rows that are left fail with `Unavailable`."""
        self._inbox.put(None)
        self._thread.join()

    def submit(self, sequence: Sequence) -> None:
        """Take a new row in.

        Raises:
            Unavailable: when the loop has ended.
        """
        sequence.submitted_at = self._clock()
        self._inbox.put(Submit(sequence))
        if self.stopped:
            raise Unavailable("The engine has stopped; the server must be restarted.")

    def abort(self, request_id: str) -> None:
        """Free the row, its pages and its pin before the next step."""
        self._inbox.put(Abort(request_id))

    def waits(self, request_id: str) -> bool:
        """Whether the row is here and has no place in steps: it has had none yet, or gave way to others."""
        row = self._sequences.get(request_id)
        return row is not None and row not in tuple(self._scheduler.running)

    def loaded(self, digest: str, error: GraftworkError | None) -> None:
        """A load has ended; on success the version holds one pin, which the loop takes over."""
        self._inbox.put(Loaded(digest, error))

    @property
    def num_running(self) -> int:
        return len(self._scheduler.running)

    @property
    def num_waiting(self) -> int:
        return len(self._sequences) - len(self._scheduler.running)

    # -- the loop thread -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        reason, broken = Unavailable(SHUTTING_DOWN), False
        try:
            while self._turn():
                pass
        except BaseException:  # a broken invariant, or a panic in Rust: nothing can be trusted, so everyone is told
            log.critical("The engine loop broke; the server must be restarted.", exc_info=True)
            reason = Unavailable("The engine has stopped after an internal error; the server must be restarted.")
            broken = True
        self._masks.close()
        self.stopped = True  # from here on `submit` refuses; what came before is in the inbox
        for message in self._inbox.read():
            if isinstance(message, Submit):
                self._sequences[message.sequence.id] = message.sequence
        self._send([(key, reason) for key in self._sequences])
        if not broken:
            for sequence in list(self._sequences.values()):
                self._drop(sequence)

    def _turn(self) -> bool:
        """Read the inbox and run one step; False when told to stop."""
        idle = not self._scheduler.running and not self._scheduler.waiting
        if not self._read(self._inbox.wait(self._room.look_again_s) if idle else self._inbox.read()):
            return False
        self._fail(self._room.overdue(), Unavailable("The adapter was not loaded in time; try again."))
        if self._room.barred:
            self._room.take_back(self._scheduler.recall())
        self._seat(self._room.admit())
        if chunks := self._scheduler.schedule(self._cost):
            decoding = sum(chunk.count == 1 and chunk.completes for chunk in chunks)
            prompt_tokens = sum(chunk.count for chunk in chunks) - decoding
            began = self._clock()
            for chunk in chunks:
                if chunk.sequence.queued_s is None:
                    chunk.sequence.queued_s = began - chunk.sequence.submitted_at
            self._step(chunks)
            self._cost = self._cost.after(decoding, prompt_tokens, self._clock() - began)
        return True

    def _read(self, messages: list[Message]) -> bool:
        """Do what others ask; False when told to stop."""
        outputs: list[Output] = []
        for message in messages:
            if message is not None:
                self._handle(message, outputs)
        self._send(outputs)
        return None not in messages

    def _handle(self, message: Submit | Abort | Loaded, outputs: list[Output]) -> None:
        if isinstance(message, Submit):
            self._arrivals += 1
            message.sequence.arrival = self._arrivals
            self._sequences[message.sequence.id] = message.sequence
            self._room.enter(message.sequence)
        elif isinstance(message, Abort):
            if (sequence := self._sequences.get(message.id)) is not None:
                self._drop(sequence)
        elif message.error is None:
            self._seat(self._room.arrived(message.digest))
        elif isinstance(message.error, CalledOff):
            self._room.called_off(message.digest)
        else:
            for sequence in self._room.failed(message.digest):
                outputs.append((sequence.id, message.error))
                self._drop(sequence)

    def _seat(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            try:
                sequence.meet(self._runner.traits(sequence.slot), self._max_context)
            except InvalidRequest as error:
                self._send([(sequence.id, error)])
                self._drop(sequence)
            else:
                self._scheduler.add(sequence)

    def _step(self, chunks: list[Chunk]) -> None:
        start_s = time.perf_counter()
        completed = [chunk.sequence for chunk in chunks if chunk.completes and chunk.sequence.pooler is None]
        sampled = [chunk.sequence for chunk in chunks if chunk.samples]
        finding = self._masks.begin(sampled)
        try:
            forward = self._runner.run(chunks)
            logits, ratings = rate_prompts(chunks, forward.logits)
            masks = finding.result()
            results = iter(self._sampler.sample(logits, [_sampling_row(one, masks.get(one.id)) for one in sampled]))
            self._runner.pool(chunks, forward.hidden)
        except Exception as error:  # the step's rows fail; the loop must go on for everyone else
            log.exception("A step failed; its %d rows end with an error.", len(chunks))
            reason = GenerationFailed(f"The step of this request failed: {type(error).__name__}: {error}")
            self._fail([chunk.sequence for chunk in chunks], reason)
            return
        self._observe(self.counters.count(chunks, start_s))
        for chunk in chunks:
            chunk.sequence.num_computed += chunk.count
        outcomes: dict[str, tuple[Sequence, Sampled | RowFailure | None]]
        outcomes = {one.id: (one, next(results) if one.max_tokens else None) for one in completed}
        outcomes |= take_ratings(ratings, chunks)
        outputs = self._finish_pooled(chunks)
        for sequence, result in outcomes.values():
            if isinstance(result, RowFailure):
                self.counters.failed_rows += 1
                fault = _grammars_fault(sequence) or GenerationFailed(result.reason)
                outputs.append((sequence.id, fault))
                self._drop(sequence, failed=isinstance(fault, GenerationFailed))
                continue
            if result is not None:
                self._scheduler.reuse.vouch(sequence)
            try:
                delta = advance(sequence, result)
            except Exception as error:  # one row's text must not end everyone's
                log.exception("An answer could not be put into words; its row ends with an error.")
                outputs.append((sequence.id, GenerationFailed(f"{type(error).__name__}: {error}")))
                self._drop(sequence)
                continue
            outputs.append((sequence.id, delta))
            if delta.finish_reason is not None:
                self._drop(sequence)
        self._send(outputs)

    def _finish_pooled(self, chunks: list[Chunk]) -> list[Output]:
        """The results of pooling rows whose prompt is computed now; they leave."""
        outputs: list[Output] = []
        for sequence in (chunk.sequence for chunk in chunks):
            if sequence.pooler is not None and not sequence.num_pending:
                labels = self._runner.traits(sequence.slot).labels or ()
                result = pooled_result(sequence, labels)
                if failed := isinstance(result, GraftworkError):
                    self.counters.failed_rows += 1
                else:
                    self._scheduler.reuse.vouch(sequence)
                outputs.append((sequence.id, result))
                self._drop(sequence, failed=failed)
        return outputs

    def _observe(self, record: StepRecord) -> None:
        if (observer := self.observer) is None:
            return
        try:
            observer(record)
        except Exception:  # whoever watches must not end what is watched
            log.exception("The observer of steps failed, and is told of no more of them.")
            self.observer = None

    def _fail(self, sequences: list[Sequence], error: GraftworkError) -> None:
        self._send([(sequence.id, error) for sequence in sequences])
        self.counters.failed_rows += len(sequences)
        for sequence in sequences:
            self._drop(sequence, failed=True)

    def _drop(self, sequence: Sequence, *, failed: bool = False) -> None:
        """Free everything a row holds, wherever it is; after a failure nobody else begins with what it computed."""
        del self._sequences[sequence.id]
        self._scheduler.remove(sequence, failed=failed)
        self._room.leave(sequence)

    def _send(self, outputs: list[Output]) -> None:
        if outputs:
            self._deliver(outputs)


def _grammars_fault(sequence: Sequence) -> InvalidRequest | None:
    """What the caller asked for and cannot be gone on with, if it is that."""
    if sequence.grammar is None or (problem := sequence.grammar.problem) is None:
        return None
    field = sequence.grammar.field
    return InvalidRequest(f"{field} cannot be followed to the end: {problem}", field=field)


def _sampling_row(sequence: Sequence, mask: Mask | None) -> SamplingRow:
    seen = sequence.prompt if sequence.params.penalised else ()  # only penalties read it
    barred = sequence.stop_ids if sequence.num_generated < sequence.params.min_tokens else ()
    return SamplingRow(sequence.params, sequence.seed, seen, sequence.output, barred, mask)
