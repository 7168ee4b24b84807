"""Chunk: the tokens of one row that a step computes, and which of their logits and states are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graftwork.engine.sequence import Sequence

#: Most prompt tokens that one step rates: what their logits, [tokens, vocab], take is bounded by it.
MAX_RATED = 256


@dataclass(frozen=True)
class Chunk:
    """The next `count` pending tokens of a row."""

    sequence: Sequence
    count: int

    @classmethod
    def of(cls, sequence: Sequence, most: int, beside: Iterable[Chunk]) -> Chunk:
        """Of a row's next `most` tokens those that a step may compute `beside` other chunks."""
        if sequence.unrated:
            most = min(most, MAX_RATED - num_rated(beside))
        return cls(sequence, most)

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
        return range(unrated.start, max(unrated.start, min(unrated.stop, self.stop))) if unrated else unrated

    @property
    def logits(self) -> range:
        """Positions in it whose logits the step needs: those that rate a token, then the one that is sampled from."""
        rates = self.rates
        if not self.samples:
            return rates
        return range(rates.start if rates else self.stop - 1, self.stop)

    @property
    def pooled(self) -> range:
        """Positions in it whose final hidden state is wanted."""
        row = self.sequence
        if row.pooler is None:
            return range(0)
        return row.pooler.wanted(row.num_computed, self.stop, first=row.num_virtual, end=row.num_prompt)

    @property
    def stop(self) -> int:
        """Where it ends: so many of the row's tokens are computed then."""
        return self.sequence.num_computed + self.count


def num_rated(chunks: Iterable[Chunk]) -> int:
    """Prompt tokens that a step of these chunks rates."""
    return sum(len(chunk.rates) for chunk in chunks)
