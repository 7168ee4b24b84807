"""Draws on CPUs: one token per row of weights, by rank, by share and by luck; a job per row.

NOTE: weights are whole numbers whose sums float64 holds exactly (`engine/token_source.py`), so what comes out is what
the plain torch version gives, bit for bit. A threshold is found without sorting: weights are not negative, so they
compare as their bits do, and are counted by the upper bits, then by the middle ones of those that share the upper ones,
then by the lowest. Where few large weights are enough, which is the rule, the others are not counted at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels.jit import FLOAT32, address, array_at, floats_at, ints_at, jit, take_number
from graftwork.kernels.parallel import ParallelKernel, launch

_COLUMNS = 5  # of the table of rows: bits of luck, top_k, top_p and the least weight (as bits of float64), the token
_BLOCK = 512  # weights that are summed before it is asked whether the draw is among them
_BUCKETS = 2048
_FEW = 64  # weights that are looked at one by one where any of them is large
_FEWER = 2.0**-4  # the few that are looked at first are at least so much of the largest


def draw(
    weights: Tensor,
    largest: int,
    bits: Sequence[int],
    top_k: Sequence[int],
    top_p: Sequence[float],
    least: Sequence[float],
) -> list[int]:
    """One token per row: the weights are cut below `least`, then to the `top_k` largest, then to the fewest that have
    `top_p` of what is left (equals stay or go together); `bits / 2^53` is the draw from the rest, by token id.

    Args:
        weights: `[rows, vocab]` float32, whole numbers of at least 0, at most 2^53 in all; the largest of each row
            is `largest`.
        top_k: 0 or below, or from the vocabulary's size on: all.
        top_p: 1 or above: all.
    """
    assert weights.dtype == torch.float32 and weights.is_contiguous(), "rows of float32 lie one after another"
    rows, vocab = weights.shape
    table = np.empty((_COLUMNS, rows), np.int64)
    table[0], table[1] = bits, top_k
    table[2:4].view(np.float64)[:] = top_p, least
    launch(_KERNEL.compiled(torch.float32), rows, weights.nbytes, weights.data_ptr(), vocab, address(table), largest)
    tokens: list[int] = table[4].tolist()
    return tokens


def warm() -> None:
    """Compile, or read from the disk cache."""
    _KERNEL.compiled(torch.float32)


def _draw_rows(arguments: int) -> None:
    given = ints_at(arguments, 6)
    jobs, weights_at, vocab, table_at, largest = given[1:6]
    bits, top_k, tokens = (
        ints_at(table_at, jobs),
        ints_at(table_at + 8 * jobs, jobs),
        ints_at(table_at + 32 * jobs, jobs),
    )
    top_p, least = floats_at(table_at + 16 * jobs, jobs), floats_at(table_at + 24 * jobs, jobs)
    scratch = np.empty(vocab + 1, np.float32), np.empty(_BUCKETS, np.int64), np.empty(_BUCKETS, np.float64)
    while True:
        row = take_number(arguments)
        if row >= jobs:
            break
        weights = array_at(weights_at + 4 * row * vocab, vocab, FLOAT32)
        floor = np.float32(max(least[row], 1.0))  # what weighs nothing changes nothing
        if 0 < top_k[row] < vocab:
            floor = max(floor, _floor(weights, largest, float(top_k[row]), False, scratch))
        if top_p[row] < 1.0:
            _, total = _over(weights, floor)
            floor = max(floor, _floor(weights, largest, top_p[row] * total, True, scratch))
        tokens[row] = _at(weights, floor, bits[row])


@jit
def _over(weights: Any, floor: Any) -> tuple[int, float]:
    """How many weights are not below `floor`, and their sum."""
    count, total = 0, 0.0
    for i in range(len(weights)):
        kept = weights[i] >= floor
        count += 1 if kept else 0
        total += np.float64(weights[i]) if kept else 0.0
    return count, total


@jit
def _floor(weights: Any, largest: float, wanted: float, by_sum: bool, scratch: Any) -> Any:
    """The largest weight from which on there are `wanted` weights, or a sum of `wanted`; 0 where there is none."""
    found, counts, sums = scratch
    least = np.float32(largest)
    while True:  # a few large weights are mostly enough
        least = least * np.float32(_FEWER) if least > 1 else np.float32(0.0)
        count, total = _over(weights, least)
        if least == 0 or (total if by_sum else float(count)) >= wanted:
            break
    likely = found[: _collect(weights, least, found)]
    bits = likely.view(np.int32)
    reached, prefix = 0.0, 0
    for shift, above in ((20, 31), (9, 20), (0, 9)):  # bits of this digit; those above it are settled
        counts[:] = 0
        sums[:] = 0.0
        mask = (1 << (above - shift)) - 1
        for i in range(len(bits)):
            if bits[i] >> above == prefix >> above:
                digit = bits[i] >> shift & mask
                counts[digit] += 1
                sums[digit] += likely[i]
        digit = mask
        while digit > 0:
            more = sums[digit] if by_sum else float(counts[digit])
            if counts[digit] and reached + more >= wanted:
                break
            reached += more
            digit -= 1
        prefix |= digit << shift
    return np.int32(prefix).view(np.float32)


@jit
def _collect(weights: Any, least: Any, found: Any) -> int:
    """Put all weights that are not below `least` into `found`; how many there are."""
    count = 0
    for start in range(0, len(weights), _FEW):
        stop = min(start + _FEW, len(weights))
        if _over(weights[start:stop], least)[0]:
            for i in range(start, stop):
                found[count] = weights[i]
                count += 1 if weights[i] >= least else 0
    return count


@jit
def _at(weights: Any, floor: Any, bits: int) -> int:
    """The first token whose weight, with those of lower ids, is more than `bits / 2^53` of all that is not cut."""
    _, total = _over(weights, floor)
    target = float(_share(bits, int(total)))
    start = 0
    reached = 0.0
    while start + _BLOCK < len(weights):
        _, block = _over(weights[start : start + _BLOCK], floor)
        if reached + block > target:
            break
        reached += block
        start += _BLOCK
    for token in range(start, len(weights)):
        if weights[token] >= floor:
            reached += weights[token]
            if reached > target:
                return token
    return len(weights) - 1  # never: the last sum is the total, which is more than any share of it


@jit
def _share(bits: int, total: int) -> int:
    """`bits * total >> 53` of numbers up to 2^53, whose product 64 bits do not hold: by halves of 27 bits."""
    low = (1 << 27) - 1
    middle = (bits >> 27) * (total & low) + (bits & low) * (total >> 27)
    rest = ((middle & ((1 << 26) - 1)) << 27) + (bits & low) * (total & low)
    return 2 * (bits >> 27) * (total >> 27) + (middle >> 26) + (rest >> 53)


_KERNEL = ParallelKernel(_draw_rows, _draw_rows)
