"""Runner: turns a step's chunks into one forward pass over all of them."""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graftwork.adapters.serving_form import Site, Traits
from graftwork.engine.chunk import Chunk
from graftwork.engine.kv_cache import KvCache
from graftwork.kernels.attention import AttentionRows
from graftwork.kernels.select import Kernels
from graftwork.models.adapter_plan import AdapterPlan, AdapterRow, run_part
from graftwork.models.adapter_slots import AdapterSlots
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from graftwork.models.model import Model

SCORE = Site("score")
_NO_TRAITS = Traits()


class Runner:
    """Holds what every step shares: the model, its kernels, the pages and the resident adapters' places."""

    def __init__(self, model: Model, kernels: Kernels, kv: KvCache, slots: AdapterSlots) -> None:
        self.model = model
        self._kernels = kernels
        self._kv = kv
        self._slots = slots

    def traits(self, slot: int | None) -> Traits:
        """What the adapter in a slot asks of its rows."""
        return _NO_TRAITS if slot is None else self._slots.traits[slot]

    def run(self, chunks: Rows[Chunk]) -> ForwardResult:
        """Compute every chunk: the logits of its `logits` and its `pooled` hidden states, in the chunks' order."""
        counts = np.asarray([chunk.count for chunk in chunks], np.int32)
        starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
        rows = AttentionRows(
            query_start=starts,
            context_len=np.asarray([chunk.sequence.num_computed + chunk.count for chunk in chunks], np.int32),
            page_table=_page_table(chunks),
        )
        wanted = [chunk.logits for chunk in chunks]  # positions in each row
        first_at = starts[:-1] - np.asarray([chunk.sequence.num_computed for chunk in chunks])  # of position 0
        logits_at = [at + first for first, places in zip(first_at.tolist(), wanted, strict=True) for at in places]
        batch = ForwardBatch(
            token_ids=torch.tensor([token for chunk in chunks for token in _new_tokens(chunk)]),
            positions=torch.from_numpy(rows.positions),
            rows=rows,
            keys=self._kv.keys,
            values=self._kv.values,
            logits_at=torch.tensor(logits_at, dtype=torch.int64),
            plan=self._plan(chunks, starts, wanted),
            hidden_at=_pooled(chunks, starts),
        )
        return self.model.forward(batch)

    def pool(self, chunks: Rows[Chunk], hidden: Tensor | None) -> None:
        """Hand each pooling row its share of the step's hidden states [pooled, hidden]; None: no row wants any."""
        if hidden is None:
            return
        begin = 0
        for chunk in chunks:
            row, pooled = chunk.sequence, chunk.pooled
            if row.pooler is None:
                continue
            states, begin = hidden[begin : begin + len(pooled)], begin + len(pooled)
            if row.pooler.pooling == "classes" and pooled:
                states = self.classes(row.slot, states, pooled.start)
            row.pooler.take(row.num_computed, states)

    def classes(self, slot: int | None, hidden: Tensor, first: int) -> Tensor:
        """Class logits [tokens, labels] by the head of the adapter in `slot`, of states from position `first`."""
        parts = self._slots.parts[slot].get(SCORE, ()) if slot is not None else ()
        assert parts, "a row for classes has an adapter with labels, and these come with a head"
        logits = hidden.new_zeros((hidden.shape[0], max(part.width for part in parts)))
        for part in parts:
            run_part(part, hidden, logits, first, self._kernels)
        return logits

    def _plan(self, chunks: Rows[Chunk], starts: npt.NDArray[np.int32], wanted: Rows[range]) -> AdapterPlan | None:
        rows, before = [], 0  # rows of logits that belong to earlier chunks
        for index, (chunk, logits) in enumerate(zip(chunks, wanted, strict=True)):
            row = chunk.sequence
            if row.slot is not None and row.acts_from is not None:
                first = max(row.num_computed, row.acts_from)
                start, stop = int(starts[index]) + first - row.num_computed, int(starts[index + 1])
                if start < stop:
                    acting = logits[max(0, first - logits.start) :]
                    stop_at = before + len(logits)
                    rows.append(
                        AdapterRow(start, stop, row.slot, first, (stop_at - len(acting), stop_at), acting.start)
                    )
            before += len(logits)
        return AdapterPlan(rows, self._slots, self._kernels, self.model.outline.vocab_size) if rows else None


def _pooled(chunks: Rows[Chunk], starts: npt.NDArray[np.int32]) -> Tensor | None:
    """Where in the batch the wanted hidden states are: [pooled] int64; None when no row wants any."""
    if not any(chunk.sequence.pooler for chunk in chunks):
        return None
    return torch.tensor(
        [
            int(start) - chunk.sequence.num_computed + position
            for start, chunk in zip(starts, chunks, strict=False)
            for position in chunk.pooled
        ],
        dtype=torch.int64,
    )


def _new_tokens(chunk: Chunk) -> list[int]:
    first = chunk.sequence.num_computed
    return chunk.sequence.tokens[first : first + chunk.count]


def _page_table(chunks: Rows[Chunk]) -> npt.NDArray[np.int32]:
    """[rows, longest] page numbers; rows with fewer pages are filled with zeros that nothing reads."""
    table = np.zeros((len(chunks), max(len(chunk.sequence.pages) for chunk in chunks)), np.int32)
    for row, chunk in enumerate(chunks):
        table[row, : len(chunk.sequence.pages)] = chunk.sequence.pages
    return table
