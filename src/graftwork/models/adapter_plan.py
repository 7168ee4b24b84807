"""AdapterPlan: what the adapters of one step do, bound to its tokens; made once per step, read at every site."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from graftwork.adapters.serving_form import Part, Place, Site
from graftwork.kernels.lowrank import Group, LowRankPlan, Segment
from graftwork.kernels.select import Kernels
from graftwork.models.adapter_slots import AdapterSlots
from graftwork.models.part_tiles import act_in_tiles

HEAD, EMBED = Site("head"), Site("embed")

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

    def linear(self, x: Tensor, group: Group, base: Callable[[Tensor], Tensor]) -> Tensor:
        """y [tokens, all outs] of linear layers that read x [tokens, in] and share one product, `base`.

        Where an adapter scales the input of one layer of several, its rows are multiplied once more for that layer.
        """
        if self._affine is None and not self.acts("linear"):  # low-rank pairs only, the rule
            y = base(x)
            self._kernels.lowrank_add(x, y, group, self._lowrank)
            return y
        alone = len(group.sites) == 1
        y = base(self._scaled(x, group.sites[0]) if alone else x)
        if self._affine is not None:
            for site, columns in zip(group.sites, group.columns, strict=True):
                mine = y[:, columns]
                if not alone and self._affine.before[site]:
                    rows = self._affine.scaled_rows(site)
                    mine[rows] = base(self._scaled(x, site)[rows])[:, columns]
                self._kernels.change_outputs(mine, site, self._affine)
        self._kernels.lowrank_add(x, y, group, self._lowrank)
        if "linear" in self._places:
            for site, columns in zip(group.sites, group.columns, strict=True):
                self.act(Site("linear", site), x, y[:, columns])
        return y

    def _scaled(self, x: Tensor, site: int) -> Tensor:
        """x as one layer's W shall see it: x itself, or a copy."""
        return x if self._affine is None else self._kernels.scale_inputs(x, site, self._affine)

    @property
    def lowrank_alone(self) -> LowRankPlan | None:
        """The step's low-rank pairs, where they are all that its adapters have."""
        return None if self._affine is not None or self._acting else self._lowrank

    def acts(self, place: Place) -> bool:
        """Whether any part acts at a place of this kind, in any layer."""
        return place in self._places

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
            run_part(one.part, x[one.rows], y[one.rows], one.first, self._kernels)


def run_part(part: Part, x: Tensor, y: Tensor, first: int, kernels: Kernels) -> None:
    """Let a part act on its own rows, as `Part.act`; where it fails they become NaN, which ends them and no others."""
    kernels.launches += 1
    try:
        if kernels.deterministic:
            act_in_tiles(part, x, y, first)
        else:
            part.act(x, y, first)
    except Exception:
        log.exception("%s failed at %s; its rows end with an error.", type(part).__name__, part.site)
        y.fill_(float("nan"))
