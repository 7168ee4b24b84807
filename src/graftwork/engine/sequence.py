"""Sequence: one request while the engine works on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from graftwork.engine.detokenizer import Detokenizer
from graftwork.engine.request import AdapterHandle
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.stop import StopMatcher


@dataclass(eq=False)
class Sequence:
    """Prompt and answer so far. `num_computed` tokens have their keys and values in `pages`; the rest is pending.

    There is no prefill or decode phase: a step computes some of the pending tokens, and when none is left the next
    token is sampled. Owned by the loop thread from submission on.
    """

    id: str
    tokens: list[int]
    num_prompt: int
    params: SamplingParams
    seed: int
    max_tokens: int
    stop_ids: frozenset[int]
    adapter: AdapterHandle | None
    detokenizer: Detokenizer
    stop: StopMatcher
    arrival: int = 0
    slot: int | None = None  # of the pinned adapter
    num_computed: int = 0
    pages: list[int] = field(default_factory=list)

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt :]
