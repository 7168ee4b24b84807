"""Scheduler: which rows compute how many tokens in the next step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from graftwork.engine.chunk import MAX_RATED, Chunk, num_rated
from graftwork.engine.dominant_shares import DominantShares
from graftwork.engine.fair_queue import FairQueue
from graftwork.engine.fair_shares import FairShares
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.prefix_reuse import PrefixReuse
from graftwork.engine.prompt_shares import TenantShares
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_cost import StepCost, prompt_budget
from graftwork.kernels.attention import PAGE_TOKENS

#: What is expected of a step before there was one.
UNKNOWN = StepCost()


class Scheduler:
    """Owns the waiting and running rows.

    NOTE: A step gives every running row that only lacks its newest token that one token, so decoding never waits for
    prompts; prompts get tokens beside it, in chunks (https://arxiv.org/abs/2308.16369): all of the step's token budget
    while nothing decodes, else as many as keep the step within the target that decoding rows are promised. Rows wait
    in a `FairQueue`; in a full batch others may give way to them, as `DominantShares` says. When pages run out, the
    newest running row of the tenant that holds most gives up its own. Rows that gave way are computed again later, and
    not paid for again. A row begins with the blocks that the prefix cache has of its beginning.

    Args:
        max_num_seqs: most running rows.
        max_num_batched_tokens: most tokens of a step.
        inter_token_target_s: longest step, in seconds, while rows decode and prompts wait; 0: as long as it takes.
    """

    def __init__(
        self, kv: KvCache, max_num_seqs: int, max_num_batched_tokens: int, inter_token_target_s: float = 0.0
    ) -> None:
        self._kv, self.reuse = kv, PrefixReuse(kv)
        self._max_num_seqs = max_num_seqs
        self._budget = max(max_num_batched_tokens, max_num_seqs)  # room for one token of every row
        self._target_s = inter_token_target_s
        self._dominant = DominantShares(max_num_seqs, kv.pool.num_pages)
        self._shares = FairShares()
        self._tenants = TenantShares()
        self.waiting = FairQueue(self._shares)
        self.running: list[Sequence] = []  # oldest first
        self.num_preemptions = 0

    def add(self, sequence: Sequence) -> None:
        """Queue a row whose adapter, if any, is pinned."""
        self.waiting.add(sequence)

    def recall(self) -> list[Sequence]:
        """Waiting rows with an adapter, which are no longer here afterwards: their pins are needed for others."""
        recalled = [row for row in self.waiting if row.slot is not None and not row.may_stay]
        for row in recalled:
            self.waiting.discard(row)
        return recalled

    def remove(self, sequence: Sequence, *, failed: bool = False) -> None:
        """Forget a row and free its pages; no-op for a row that is not here.

        After a failure nobody can vouch for what it has computed or read, so no other row begins with it any more.
        """
        if failed:
            self.reuse.forget(sequence)
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.discard(sequence)
        self._kv.release(sequence.pages)
        here = self.waiting.tenants.union(row.caller.tenant for row in self.running)
        if sequence.caller.tenant not in here:
            self._shares.forget(here)

    def schedule(self, cost: StepCost = UNKNOWN) -> list[Chunk]:
        """The next step's chunks, single tokens first, with pages reserved; empty when there is nothing to do.

        Args:
            cost: what a step is expected to take.
        """
        chosen: dict[str, Chunk] = {}
        if self.waiting:
            self._give_way(next(iter(self.waiting)))
        preempted = self.num_preemptions
        decoding = [row for row in self.running if row.num_pending == 1]
        self._extend(dict.fromkeys(decoding, 1), chosen)
        prompts = self._prompts()
        if not prompts and not self.waiting:
            return self._paid(chosen.values())
        arrivals = self._admissible()
        most = min(len(self.running) + len(self.waiting), self._max_num_seqs)
        budget = prompt_budget(cost, len(chosen), most, self._budget - len(chosen), self._target_s)
        rows = [*prompts, *arrivals]
        shares = self._prompt_shares(rows, budget, chosen)
        self._extend(dict(zip(prompts, shares, strict=False)), chosen)
        if preempted == self.num_preemptions:
            self._admit(dict(zip(arrivals, shares[len(prompts) :], strict=True)), chosen)
        computed = [chosen[row.id].count if row.id in chosen else 0 for row in rows]
        self._tenants.taken(computed, [row.caller for row in rows], budget)
        for sequence in arrivals:
            if sequence.id not in chosen:
                self.reuse.give_back(sequence)
        return self._paid(chosen.values())

    def _paid(self, chunks: Collection[Chunk]) -> list[Chunk]:
        """The chunks of a step, the tokens that they end with counted in their tenants' shares."""
        for chunk in chunks:
            if chunk.samples:
                self._shares.generated(chunk.sequence.caller)
                chunk.sequence.paid = len(chunk.sequence.tokens) + 1
        return list(chunks)

    def _give_way(self, owed: Sequence) -> None:
        """Find a place in a full batch for the row whose turn it is, where its tenant has less than its share."""
        if all(row.caller.tenant == owed.caller.tenant for row in self.running):
            return
        self.reuse.take(owed)
        missing = self._missing(owed)
        short_of = 1 + missing + sum(map(self._missing, self.running)) - self._kv.num_free
        found: list[Sequence] = []
        if len(self.running) == self._max_num_seqs or short_of > 0:
            found = self._dominant.giving_way(owed, missing, short_of, self.running, self._shares)
        self.reuse.give_back(owed)
        for row in found:
            self._preempt(row)
            row.kept_until = len(row.tokens) * 3 // 2

    def _prompts(self) -> list[Sequence]:
        return [row for row in self.running if row.num_pending > 1]

    def _extend(self, counts: Mapping[Sequence, int], chosen: dict[str, Chunk]) -> None:
        """Choose so many tokens of running rows, oldest first, as far as there are pages."""
        for sequence, most in counts.items():
            chunk = Chunk.of(sequence, most, chosen.values())
            if chunk.count and sequence in self.running and self._make_room(chunk, chosen):
                chosen[sequence.id] = chunk

    def _make_room(self, chunk: Chunk, chosen: dict[str, Chunk]) -> bool:
        """Grow a row's pages, preempting others while needed; False when the row itself had to go."""
        while not self._kv.grow(chunk.sequence.pages, chunk.stop):
            victim = self._dominant.youngest_of_largest(self.running, self._shares)
            self._preempt(victim)
            chosen.pop(victim.id, None)
            if victim is chunk.sequence:
                return False
        return True

    def _preempt(self, victim: Sequence) -> None:
        self.running.remove(victim)
        self.reuse.give_back(victim)
        self.waiting.put_back(victim)
        self.num_preemptions += 1

    def _admissible(self) -> list[Sequence]:
        """Waiting rows for which there are places and pages, in the order of their turns.

        The whole of a row must fit beside the rows that run already, and a page stay free: else it would be
        preempted as soon as it ran. None is passed that waits for pages: it would starve.
        """
        found: list[Sequence] = []
        missing = sum(map(self._missing, self.running))
        for sequence in islice(self.waiting, self._max_num_seqs - len(self.running)):
            self.reuse.take(sequence)
            missing += self._missing(sequence)
            if self._kv.num_free - missing < (1 if self.running or found else 0):
                self.reuse.give_back(sequence)
                break
            found.append(sequence)
        return found

    def _admit(self, counts: Mapping[Sequence, int], chosen: dict[str, Chunk]) -> None:
        """Let admissible rows run that have a share of this step."""
        for sequence, most in counts.items():
            chunk = Chunk.of(sequence, most, chosen.values())
            if chunk.count:
                grown = self._kv.grow(sequence.pages, chunk.stop)
                assert grown, "free pages were counted before"
                self.waiting.take(sequence)
                self.running.append(sequence)
                sequence.may_stay = False
                chosen[sequence.id] = chunk
                self.reuse.count(sequence)

    def _prompt_shares(self, rows: list[Sequence], budget: int, chosen: Mapping[str, Chunk]) -> list[int]:
        """Of `budget`, each prompt's tokens; what prompts that are rated may not take goes to the others."""
        wanted = [min(row.num_pending, MAX_RATED) if row.unrated else row.num_pending for row in rows]
        callers = [row.caller for row in rows]
        shares = self._tenants.shares(wanted, callers, budget)
        if not any(row.unrated for row in rows):
            return shares
        left = MAX_RATED - num_rated(chosen.values())
        for place, row in enumerate(rows):
            if row.unrated:
                wanted[place] = min(shares[place], left)
                left -= len(Chunk(row, wanted[place]).rates)
        return self._tenants.shares(wanted, callers, budget)

    def _missing(self, sequence: Sequence) -> int:
        """Pages that a row lacks for what is pending and, where that is a prompt, the token that follows it."""
        follows = sequence.num_pending > 1 and sequence.max_tokens > 0
        return self._kv.missing(sequence.pages, len(sequence.tokens) + follows)

    def check(self) -> None:
        """Rows are in one place each; pages are held by running rows only, enough for what is computed.

        Of a row's pages others may hold only those that are full, which it does not write any more.
        """
        self.waiting.check()
        assert not set(map(id, self.running)) & set(map(id, self.waiting)), "a row runs and waits"
        assert len(self.running) <= self._max_num_seqs, "too many rows run"
        self._kv.check([row.pages for row in self.running])
        for row in self.waiting:
            assert not row.pages and not row.num_computed, "a waiting row holds pages"
        for row in self.running:
            assert self._kv.missing(row.pages, row.num_computed) == 0, "a computed token has no page"
            assert row.num_shared <= row.num_computed // PAGE_TOKENS, "a block is shared that is not full"
            own = row.pages[row.num_computed // PAGE_TOKENS :]
            assert all(self._kv.pool.holders(page) == 1 for page in own), "a page is shared that is written"
