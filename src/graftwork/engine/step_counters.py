"""StepCounters: what the steps of a loop have done since its start."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

from graftwork.engine.chunk import Chunk
from graftwork.engine.step_record import StepRecord


@dataclass
class StepCounters:
    """Read by anyone, written by the loop thread only."""

    steps: int = 0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    failed_rows: int = 0
    max_distinct_adapters_in_step: int = 0

    def count(self, chunks: Rows[Chunk], start_s: float) -> StepRecord:
        """A step that began at `start_s` has run, and its chunks are not counted as computed yet."""
        prefill = sum(
            max(0, min(chunk.count, chunk.sequence.num_prompt - chunk.sequence.num_computed)) for chunk in chunks
        )
        self.steps += 1
        self.generated_tokens += sum(chunk.samples for chunk in chunks)
        self.prompt_tokens += prefill
        distinct = len({chunk.sequence.slot for chunk in chunks} - {None})
        self.max_distinct_adapters_in_step = max(self.max_distinct_adapters_in_step, distinct)
        return StepRecord(start_s, len(chunks), sum(chunk.count for chunk in chunks), prefill)
