"""Scheduler: which rows compute how many tokens in the next step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from graftwork.engine.kv_cache import KvCache
from graftwork.engine.sequence import Sequence

#: Most prompt tokens that one step rates: what their logits, [tokens, vocab], take is bounded by it.
MAX_RATED = 256


@dataclass(frozen=True)
class Chunk:
    """The next `count` pending tokens of a row."""

    sequence: Sequence
    count: int

    @property
    def completes(self) -> bool:
        """Whether no token is pending after it."""
        return self.count == self.sequence.num_pending

    @property
    def samples(self) -> bool:
        """Whether a token is sampled after it."""
        return self.completes and self.sequence.max_tokens > 0

    @property
    def rates(self) -> range:
        """Positions in it whose logits rate the prompt's next token."""
        unrated = self.sequence.unrated
        return range(unrated.start, max(unrated.start, min(unrated.stop, self._stop))) if unrated else unrated

    @property
    def logits(self) -> range:
        """Positions in it whose logits the step needs: those that rate a token, then the one that is sampled from."""
        rates = self.rates
        if not self.samples:
            return rates
        return range(rates.start if rates else self._stop - 1, self._stop)

    @property
    def pooled(self) -> range:
        """Positions in it whose final hidden state is wanted."""
        row = self.sequence
        if row.pooler is None:
            return range(0)
        return row.pooler.wanted(row.num_computed, self._stop, first=row.num_virtual, end=row.num_prompt)

    @property
    def _stop(self) -> int:
        return self.sequence.num_computed + self.count


class Scheduler:
    """Owns the waiting and running rows; first come, first served.

    NOTE: A step gives every running row that only lacks its newest token that one token, so decoding never waits for
    prompts; what is left of the token budget goes to prompts, in chunks (https://arxiv.org/abs/2308.16369). When pages
    run out, the newest running row gives up its own and is computed again later.
    """

    def __init__(self, kv: KvCache, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        self._kv = kv
        self._max_num_seqs = max_num_seqs
        self._budget = max(max_num_batched_tokens, max_num_seqs)  # room for one token of every row
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # oldest first
        self.num_preemptions = 0

    def add(self, sequence: Sequence) -> None:
        """Queue a row whose adapter, if any, is pinned."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a row and free its pages; no-op for a row that is not here."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self._kv.release(sequence.pages)

    def schedule(self) -> list[Chunk]:
        """The next step's chunks, single tokens first, with pages reserved; empty when there is nothing to do."""
        chosen: dict[str, Chunk] = {}
        preempted = self.num_preemptions
        budget = self._budget
        for sequence in sorted(self.running, key=lambda row: row.num_pending > 1):  # stable: oldest first in each half
            count = _count(sequence, budget, chosen)
            if count and sequence in self.running and self._make_room(sequence, count, chosen):
                chosen[sequence.id] = Chunk(sequence, count)
                budget -= count
        if preempted == self.num_preemptions:
            self._admit(budget, chosen)
        return list(chosen.values())

    def _make_room(self, sequence: Sequence, count: int, chosen: dict[str, Chunk]) -> bool:
        """Grow a row's pages, preempting newer rows while needed; False when the row itself had to go."""
        while not self._kv.grow(sequence.pages, sequence.num_computed + count):
            victim = self.running[-1]
            self._preempt(victim)
            chosen.pop(victim.id, None)
            if victim is sequence:
                return False
        return True

    def _preempt(self, victim: Sequence) -> None:
        self.running.remove(victim)
        self._kv.release(victim.pages)
        victim.num_computed = 0
        self.waiting.appendleft(victim)
        self.num_preemptions += 1

    def _admit(self, budget: int, chosen: dict[str, Chunk]) -> None:
        passed: list[Sequence] = []  # rows to rate, of which this step has enough; they hold nobody else back
        while self.waiting and budget > 0 and len(self.running) < self._max_num_seqs:
            sequence = self.waiting[0]
            # The whole of it must fit now, and a page stay free: else it would be preempted as soon as it ran.
            spare = 1 if self.running else 0
            whole = len(sequence.tokens) + (sequence.max_tokens > 0)
            if self._kv.missing(sequence.pages, whole) + spare > self._kv.pool.num_free:
                break
            self.waiting.popleft()
            count = _count(sequence, budget, chosen)
            if not count:
                passed.append(sequence)
                continue
            grown = self._kv.grow(sequence.pages, sequence.num_computed + count)
            assert grown, "free pages were counted above"
            self.running.append(sequence)
            chosen[sequence.id] = Chunk(sequence, count)
            budget -= count
        self.waiting.extendleft(reversed(passed))

    def check(self) -> None:
        """Rows are in one place each; pages are held by running rows only, enough for what is computed."""
        self._kv.pool.check()
        assert not set(map(id, self.running)) & set(map(id, self.waiting)), "a row runs and waits"
        assert len(self.running) <= self._max_num_seqs, "too many rows run"
        held = [page for row in self.running for page in row.pages]
        assert len(set(held)) == len(held) == self._kv.pool.num_used, "a page is lost or shared"
        for row in self.waiting:
            assert not row.pages and not row.num_computed, "a waiting row holds pages"
        for row in self.running:
            assert self._kv.missing(row.pages, row.num_computed) == 0, "a computed token has no page"


def _count(sequence: Sequence, budget: int, chosen: Mapping[str, Chunk]) -> int:
    """Tokens that a row may compute in this step, beside the chunks chosen already."""
    count = min(sequence.num_pending, budget)
    if not sequence.unrated:
        return count
    return min(count, MAX_RATED - sum(len(chunk.rates) for chunk in chosen.values()))
