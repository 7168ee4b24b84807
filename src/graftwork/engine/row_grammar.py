"""RowGrammar: where one row stands in its grammar."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

_MAX_CHARS = 300
#: What llguidance calls it.
_NOTHING = "NoExtensionBias"

#: One bit for each token id, lowest first: whether it may come next.
Mask = npt.NDArray[np.uint32]


class RowGrammar:
    """One row's own; it stays with the row when that is preempted. Only one thread uses it at a time.

    Args:
        matcher: at the beginning of the answer, nobody else's.
        vocab_size: of the tokenizer that it was made for.
        field: where the request says it, for errors.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int, field: str) -> None:
        self._matcher, self.field = matcher, field
        self._width = -(-vocab_size // 32)

    def mask(self) -> Mask:
        """What may come next, `[ceil(vocab_size / 32)]`; nothing where there is a `problem`. Without the GIL."""
        mask = np.zeros(self._width, np.uint32)
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if self._matcher.is_error():
            mask[:] = 0  # llguidance allows an end there
        return mask

    def take(self, token_id: int) -> bool:
        """Go on by a token that the mask allows; whether nothing can follow it."""
        self._matcher.consume_token(token_id)
        return bool(self._matcher.is_stopped()) and self.problem is None

    @property
    def problem(self) -> str | None:
        """Why it cannot go on, in words; the row must end."""
        if not self._matcher.is_error():
            return None
        return f"it became too complex: {reason_of(self._matcher.get_error())}"


def reason_of(error: str) -> str:
    """The line of llguidance's error that says it; the others repeat the grammar."""
    lines = error.splitlines() or [error]
    reason = next((line for line in lines if line.startswith("error: ")), lines[0]).removeprefix("error: ")
    return "no text matches it." if reason == _NOTHING else reason[:_MAX_CHARS]
