"""AnswerRows: the answers of one request as the engine gives them, for records and comparisons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from graftwork.engine.request import Delta


@dataclass(slots=True)
class _Row:
    text: list[str] = field(default_factory=list)
    last: Delta | None = None
    logprob: float = 0.0
    rated: int = 0  # tokens of which `logprob` is the sum


class AnswerRows:
    """So many answers, from when the engine is asked for them. Used from the event loop only; times in seconds."""

    def __init__(self, count: int) -> None:
        self._rows, self._open = [_Row() for _ in range(count)], count
        self.began = time.perf_counter()
        #: When the first token came, and when the last one of all; None: not yet.
        self.first: float | None = None
        self.ended: float | None = None
        self.queued_s: float | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def took(self, index: int, delta: Delta) -> None:
        """A step added this to the answer with this index."""
        if self.first is None:
            self.first, self.queued_s = time.perf_counter(), delta.queued_s
        row = self._rows[index]
        row.text.append(delta.text)
        row.last = delta
        for one in delta.logprobs[-len(delta.token_ids) :] if delta.logprobs and delta.token_ids else ():
            if one.logprob is not None:
                row.logprob += one.logprob
                row.rated += 1
        if delta.finish_reason is not None:
            self._open -= 1
            if not self._open:
                self.ended = time.perf_counter()

    @property
    def complete(self) -> bool:
        """Whether every answer is whole."""
        return bool(self._rows) and not self._open

    @property
    def lasts(self) -> Sequence[Delta | None]:
        """The newest delta of each, which has the numbers of tokens."""
        return [row.last for row in self._rows]

    @property
    def texts(self) -> list[str]:
        return ["".join(row.text) for row in self._rows]

    @property
    def output_tokens(self) -> int:
        return sum(last.completion_tokens for last in self.lasts if last is not None)

    @property
    def mean_logprob(self) -> float | None:
        """Of all tokens whose log-probability the engine was asked for."""
        rated = sum(row.rated for row in self._rows)
        return sum(row.logprob for row in self._rows) / rated if rated else None

    @property
    def finish_reasons(self) -> list[str | None]:
        """As the engine has them: it knows of no calls of tools."""
        return [last.finish_reason if last is not None else None for last in self.lasts]


def known_first(reasons: Sequence[str | None]) -> str | None:
    """Of several answers the reason that a reader should know first: that one was cut off."""
    return "length" if "length" in reasons else next((reason for reason in reasons if reason), None)
