"""Kernels: the one set of operations an engine calls, chosen once by device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from graftwork.kernels import (
    affine_cpu,
    attention,
    attention_cpu,
    decoder,
    decoder_cpu,
    draw_cpu,
    lowrank_cpu,
    pairs_cpu,
    program,
)
from graftwork.kernels.affine import AffinePlan, AffineSlots
from graftwork.kernels.attention import AttentionRows
from graftwork.kernels.decoder import Heads, Rotary
from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.layers_cpu import Layer, Layers
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.lowrank import Group, LowRankPlan, LowRankSlots, Segment
from graftwork.kernels.steady_linear import SteadyProducts
from graftwork.kernels.vectors import has_pairs

WriteKV = Callable[[Tensor, Tensor, Tensor, Tensor, int, AttentionRows], None]
AddNorm = Callable[[Tensor, Tensor | None, Tensor, float], Tensor]
Rotate = Callable[[Tensor, Heads, Rotary, Tensor], None]
RotateAndWrite = Callable[[Tensor, Heads, Rotary, Tensor, Tensor, Tensor, int, AttentionRows], None]
Attend = Callable[[Tensor, Tensor, Tensor, int, AttentionRows, float], Tensor]


@dataclass
class Kernels:
    """The operations of one device. Call them from one thread: the engine's loop."""

    name: str
    prepare: Callable[[Sequence[Segment], LowRankSlots], LowRankPlan]
    prepare_affine: Callable[[Sequence[Segment], AffineSlots], AffinePlan]
    write_kv: WriteKV
    attend: Attend
    add_norm: AddNorm
    rotate: Rotate
    rotate_and_write: RotateAndWrite
    gated: Callable[[Tensor], Tensor]
    pack_linear: Callable[[Tensor, Tensor | None], PackedLinear]
    warm: Callable[[torch.dtype], None]  # compiles every kernel for a dtype, or reads it from the disk cache
    layers: Callable[[Sequence[Layer], Heads, float, float], Layers | None]  # all of a decode step's as one call
    #: Whether a row's bits are the same whatever rows are beside it; then parts run in tiles as well.
    deterministic: bool = False
    #: Calls of adapter kernels, ever: base-only steps leave it alone. Whatever is one operation here counts as one: a
    #: group of sites, a part, or all layers of a decode step as one region, which has many kernels in it.
    launches: int = 0

    def lowrank_add(self, x: Tensor, y: Tensor, group: Group, plan: LowRankPlan) -> None:
        """Add what the step's adapters have at some sites to y [tokens, out] in place; x is [tokens, in]."""
        if plan.add(x, y, group):
            self.launches += 1

    def scale_inputs(self, x: Tensor, site: int, plan: AffinePlan) -> Tensor:
        """x [tokens, in] as the step's adapters want it before W: x itself, or a copy with rows scaled."""
        if not plan.before[site]:
            return x
        self.launches += 1
        return plan.scale_inputs(x, site)

    def change_outputs(self, y: Tensor, site: int, plan: AffinePlan) -> None:
        """Scale and shift rows of y [tokens, out] in place, where the step's adapters do so after W."""
        if plan.after[site]:
            self.launches += 1
            plan.change_outputs(y, site)

    def set_threads(self, threads: int) -> None:
        """Use so many threads in torch, whose pool is ours too; holds in every thread of the process."""
        torch.set_num_threads(threads)


def kernels_for(device: str) -> Kernels:
    """A device's kernels; "reference" gives the plain torch ones, for tests and for doubts.

    Raises:
        ValueError: no kernels exist for the device.
    """
    if device not in KERNELS:
        raise ValueError(f"There are no kernels for device {device!r}; there are {', '.join(KERNELS)}.")
    return KERNELS[device]()


def _reference() -> Kernels:
    return Kernels(
        name="reference",
        prepare=LowRankPlan,
        prepare_affine=AffinePlan,
        write_kv=attention.write_kv,
        attend=attention.attend,
        add_norm=decoder.add_norm,
        rotate=decoder.rotate,
        rotate_and_write=decoder.rotate_and_write,
        gated=decoder.gated,
        pack_linear=lambda weight, bias: PackedLinear(weight, bias, pack=False),
        layers=lambda layers, heads, scale, eps: None,
        warm=lambda dtype: None,
    )


def _cpu() -> Kernels:
    def warm(dtype: torch.dtype) -> None:
        affine_cpu.warm(dtype)
        lowrank_cpu.warm(dtype)
        attention_cpu.warm(dtype)
        decoder_cpu.warm(dtype)
        draw_cpu.warm()
        if dtype == torch.bfloat16 and has_pairs():
            pairs_cpu.warm()
            program.warm()

    return Kernels(
        name="cpu",
        prepare=lowrank_cpu.prepare,
        prepare_affine=affine_cpu.CpuAffinePlan,
        write_kv=attention_cpu.write_kv,
        attend=attention_cpu.attend,
        add_norm=decoder_cpu.add_norm,
        rotate=decoder_cpu.rotate,
        rotate_and_write=decoder_cpu.rotate_and_write,
        gated=decoder_cpu.gated,
        pack_linear=partial(PackedLinear, memory=HugePages()),
        layers=Layers.of,
        warm=warm,
    )


def _deterministic() -> Kernels:
    return replace(
        _cpu(),
        name="cpu-deterministic",
        prepare=lowrank_cpu.CpuLowRankPlan,
        pack_linear=SteadyProducts(),
        deterministic=True,
    )


KERNELS: dict[str, Callable[[], Kernels]] = {
    "cpu": _cpu,
    "cpu-deterministic": _deterministic,
    "reference": _reference,
}
