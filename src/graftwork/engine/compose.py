"""Compose: the serving forms of several adapters as one, each scaled; PEFT's `cat` combination.

PEFT (`add_weighted_adapter(combination_type="cat")`) puts the A and B of all adapters one behind the other, so that
their scaled deltas add up. So do we, site by site; the ranks add up too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import LowRankSlice, ServingForm, Traits
from graftwork.errors import Refused


@dataclass(frozen=True)
class Scaled:
    """One adapter of a composition: its form in float32, so that scaling it rounds once, and what to call it."""

    label: str
    kind: str
    form: ServingForm
    scale: float


def compose(parts: Sequence[Scaled], outline: Outline, dtype: torch.dtype, max_rank: int) -> ServingForm:
    """One form in `dtype` that does what all parts do together.

    Raises:
        Refused: a part is more than low-rank pairs, a scaled value is beyond `dtype`, or the ranks of one site add up
            to more than `max_rank`; the message names the adapter or the site.
    """
    found: dict[int, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for part in parts:
        _check_plain(part)
        for low in part.form.slices:
            found[low.site].append((low.a.to(dtype), _scaled(low.b, part, dtype)))
    for site, pairs in found.items():
        rank = sum(a.shape[0] for a, _ in pairs)
        if rank > max_rank:
            raise Refused(
                f"The ranks of these adapters add up to {rank} at {outline.linears[site].path}, above this server's "
                f"max_rank {max_rank}; compose fewer of them, or raise it."
            )
    return ServingForm(
        tuple(
            LowRankSlice(site, torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs]))
            for site, pairs in sorted(found.items())
        )
    )


def _check_plain(part: Scaled) -> None:
    form = part.form
    more = [f"acts at {place}" for place in sorted({one.site.place for one in form.parts})]
    if form.affines:
        more.append("scales or shifts activations")
    if form.traits != Traits():
        more.append("has virtual tokens, an invocation or a classification head")
    if more:
        raise Refused(
            f"{part.label} cannot be composed: only adapters that are nothing but low-rank pairs can, and this one "
            f"(kind {part.kind}) {' and '.join(more)}. Serve it on its own."
        )


def _scaled(b: Tensor, part: Scaled, dtype: torch.dtype) -> Tensor:
    made = (b.double() * part.scale).to(dtype)
    if not bool(made.isfinite().all()):
        raise Refused(f"The scale {part.scale:g} of {part.label} makes its weights overflow; give a smaller one.")
    return made
