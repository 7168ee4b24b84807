"""Layers: all decoder layers of a step in one parallel region, for as many tokens as most steps have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from graftwork.kernels.attention import AttentionRows
from graftwork.kernels.attention_cpu import attend_call
from graftwork.kernels.decoder import Heads, Rotary
from graftwork.kernels.decoder_cpu import add_norm_call, gated_call, rotate_and_write_call
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.lowrank import Group, LowRankPlan
from graftwork.kernels.lowrank_cpu import CpuLowRankPlan
from graftwork.kernels.parallel import Call
from graftwork.kernels.program import Program

MOST_TOKENS = 512  # of a step: with more, what lies between kernels counts for little


class Linear(Protocol):
    """Linear layers that read one input, packed as one."""

    group: Group
    packed: PackedLinear


class Layer(Protocol):
    """What a layer of the Llama family is made of; norms are [hidden] float32."""

    @property
    def attention_norm(self) -> Tensor: ...
    @property
    def qkv(self) -> Linear: ...
    @property
    def rotary(self) -> Rotary: ...
    @property
    def out(self) -> Linear: ...
    @property
    def mlp_norm(self) -> Tensor: ...
    @property
    def gate_up(self) -> Linear: ...
    @property
    def down(self) -> Linear: ...


@dataclass(frozen=True)
class _Room:
    """What the kernels of a layer hand to one another, [tokens, ...] each."""

    residual: Tensor
    delta: Tensor
    h: Tensor
    qkv: Tensor
    attended: Tensor
    gate_up: Tensor
    act: Tensor

    def of(self, tokens: int) -> _Room:
        return _Room(*(getattr(self, field.name)[:tokens] for field in fields(self)))


@dataclass(frozen=True)
class _Step:
    """One step's inputs, and where its layers put what they make."""

    room: _Room
    positions: Tensor
    keys: Tensor
    values: Tensor
    rows: AttentionRows
    plan: CpuLowRankPlan | None


class Layers:
    """The layers of one model, and the memory between their kernels. Call it from one thread."""

    def __init__(self, layers: Sequence[Layer], heads: Heads, scale: float, eps: float) -> None:
        self._layers, self._heads, self._scale, self._eps = layers, heads, scale, eps
        one = layers[0]
        hidden, inner = one.down.packed.out_features, one.down.packed.in_features
        outs = one.qkv.packed.out_features, heads.queries * heads.head_dim, 2 * inner, inner
        self._room = _Room(*(torch.empty(MOST_TOKENS, out, dtype=torch.bfloat16) for out in (*[hidden] * 3, *outs)))
        self._programs: dict[bool, tuple[tuple[int, ...], Program]] = {}  # with low-rank pairs, and without

    @classmethod
    def of(cls, layers: Sequence[Layer], heads: Heads, scale: float, eps: float) -> Layers | None:
        """None where a product is not one of our kernels, so that it needs a region of its own."""
        linears = [linear for one in layers for linear in (one.qkv, one.out, one.gate_up, one.down)]
        return cls(layers, heads, scale, eps) if all(one.packed.pairs for one in linears) else None

    def run(
        self, stream: Tensor, positions: Tensor, keys: Tensor, values: Tensor, rows: AttentionRows,
        plan: LowRankPlan | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The residual stream [tokens, hidden] after the last layer but for its last sum, and what that adds.

        Both lie in memory that the next call writes to. `stream` is what enters the first layer, at most MOST_TOKENS;
        keys and values are written to their pages.
        """
        assert plan is None or isinstance(plan, CpuLowRankPlan), "these are the CPU's kernels"
        plan = None if plan is None or plan.acts_nowhere else plan
        step = _Step(self._room.of(len(stream)), positions, keys, values, rows, plan)
        step.room.residual.copy_(stream)
        step.room.delta.zero_()  # so that the first layer is like the others
        made_for = keys.data_ptr(), values.data_ptr(), torch.get_num_threads()  # each thread has arguments of its own
        known, program = self._programs.get(plan is not None, (None, None))
        if program is None or known != made_for:
            program = Program([self._calls(number, step) for number in range(len(self._layers))])
            self._programs[plan is not None] = made_for, program
        program.run(self._calls(0, step))
        return step.room.residual, step.room.delta

    def _calls(self, number: int, step: _Step) -> list[Call]:
        """A layer's kernels in their order."""
        layer, room, eps = self._layers[number], step.room, self._eps
        pages = step.keys, step.values, number, step.rows
        q = self._heads.split(room.qkv)[0]
        return [
            add_norm_call(room.residual, room.delta, layer.attention_norm, eps, room.h),
            *_products(layer.qkv, room.h, room.qkv, step.plan),
            rotate_and_write_call(room.qkv, self._heads, layer.rotary, step.positions, *pages),
            attend_call(q, *pages, self._scale, room.attended),
            *_products(layer.out, room.attended, room.delta, step.plan),
            add_norm_call(room.residual, room.delta, layer.mlp_norm, eps, room.h),
            *_products(layer.gate_up, room.h, room.gate_up, step.plan),
            gated_call(room.gate_up, room.act),
            *_products(layer.down, room.act, room.delta, step.plan),
        ]


def _products(linear: Linear, x: Tensor, y: Tensor, plan: CpuLowRankPlan | None) -> Iterator[Call]:
    assert linear.packed.pairs is not None, "`of` looked"
    yield linear.packed.pairs.call(x, y)
    if plan is not None:
        yield plan.call(x, y, linear.group)
