"""AdapterPlan: what the adapters of one step do, bound to its tokens; made once per step, read at every site."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from graftwork.adapters.serving_form import Part, Place, Site
from graftwork.kernels.lowrank import Segment
from graftwork.kernels.select import Kernels
from graftwork.models.adapter_slots import AdapterSlots

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdapterRow:
    """Tokens [start, stop) of the batch that use the adapter in `slot`: those of one row on which it acts.

    `sampled` is the place of those whose logits are wanted among the rows of logits, [start, stop) of them.
    """

    start: int
    stop: int
    slot: int
    first: int  # position of token `start` in its own row
    sampled: tuple[int, int] = (0, 0)
    sampled_first: int = 0  # position of the first of `sampled` in its own row


@dataclass(frozen=True)
class _Acting:
    part: Part
    rows: slice
    first: int


class AdapterPlan:
    """One step's rows with adapters. A site asks it before and after W; where nothing acts, nothing is called."""

    def __init__(self, rows: Sequence[AdapterRow], slots: AdapterSlots, kernels: Kernels, vocab_size: int) -> None:
        self._kernels, self._vocab_size = kernels, vocab_size
        segments = [Segment(row.start, row.stop, row.slot) for row in rows]
        self._lowrank = kernels.prepare(segments, slots.lowrank)
        with_vectors = [segment for segment in segments if slots.affine.any[segment.slot]]
        self._affine = kernels.prepare_affine(with_vectors, slots.affine) if with_vectors else None
        self._acting: dict[Site, list[_Acting]] = defaultdict(list)
        for row in rows:
            for site, parts in slots.parts[row.slot].items():
                at_head = site.place == "head"
                within = slice(*row.sampled) if at_head else slice(row.start, row.stop)
                first = row.sampled_first if at_head else row.first
                if within.stop > within.start:
                    self._acting[site] += [_Acting(part, within, first) for part in parts]
        self._places: frozenset[Place] = frozenset(site.place for site in self._acting)

    def before(self, x: Tensor, site: int) -> Tensor:
        """The input [tokens, in] of a linear layer as W shall see it: x itself, or a copy."""
        return x if self._affine is None else self._kernels.scale_inputs(x, site, self._affine)

    def after(self, x: Tensor, y: Tensor, site: int) -> None:
        """Change the output y [tokens, out] of a linear layer in place; x [tokens, in] is its input before `before`."""
        if self._affine is not None:
            self._kernels.change_outputs(y, site, self._affine)
        self._kernels.lowrank_add(x, y, site, self._lowrank)
        if "linear" in self._places:
            self.act(Site("linear", site), x, y)

    def widened(self, logits: Tensor) -> Tensor:
        """Room for the tokens that only some rows know: logits [rows, vocab] as they are, or wider and -inf there."""
        widest = max((one.part.width for one in self._acting.get(Site("head"), ())), default=0)
        if widest <= logits.shape[1]:
            return logits
        wide = logits.new_full((logits.shape[0], widest), float("-inf"))
        wide[:, : logits.shape[1]] = logits
        return wide

    def hide(self, logits: Tensor) -> None:
        """Make sure that no row can choose a token beyond its own vocabulary, whatever the model did after the head."""
        if logits.shape[1] > self._vocab_size:
            known = [(one.rows, one.part.width) for one in self._acting[Site("head")]]
            for row in range(logits.shape[0]):
                widths = [width for rows, width in known if rows.start <= row < rows.stop]
                logits[row, max([self._vocab_size, *widths]) :] = float("-inf")

    def act(self, site: Site, x: Tensor, y: Tensor) -> None:
        """Let the parts at a site change y (at `keys` also x) in place, each its own rows.

        A part that fails makes its own rows NaN, which ends them and nobody else's.
        """
        if site.place not in self._places:
            return
        for one in self._acting.get(site, ()):
            self._kernels.launches += 1
            try:
                one.part.act(x[one.rows], y[one.rows], one.first)
            except Exception:
                log.exception("%s failed at %s; its rows end with an error.", type(one.part).__name__, site)
                y[one.rows] = float("nan")
