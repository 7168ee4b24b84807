"""Token source: draws one token per row from its tempered, filtered logits, by seed and position alone.

NOTE on exactness. A row must get the same token alone and in any batch. So each probability, relative to the
row's largest, is cut to a whole number so small that all of a row sum to at most 2^53: in float64 such sums
are exact in any order, and no parallel reduction can round them differently. The filters are thresholds on
these weights (equals stay or go together), so the order of a sort does not matter; the inverse of the
cumulative distribution is taken in order of token id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from graftwork.engine.sampling_params import SamplingParams
from graftwork.kernels import draw_cpu

#: How many of the likeliest top_k and top_p look at first; a row that keeps more is sorted whole.
HEAD = 128
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def uniform_bits(seed: int, position: int) -> int:
    """53 random bits for the token at `position` (from 0) of the answer seeded with `seed`; a pure function.

    SplitMix64 (https://doi.org/10.1145/2660193.2660195): its state is a counter, so it starts anywhere.
    """
    return _mix(_mix(seed + _GOLDEN) + (position + 1) * _GOLDEN) >> 11


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def draw_tokens(logits: torch.Tensor, params: Sequence[SamplingParams], bits: Sequence[int]) -> list[int]:
    """One token id per row: temperature, then min_p, top_k, top_p, then the inverse distribution at `bits`.

    Args:
        logits: float32 `[rows, vocab]`, no NaN and no +inf, a finite value in every row; overwritten.
        params: of each row; temperature above 0.
        bits: of each row, 0 <= bits < 2^53; the draw is `bits / 2^53`.
    """
    unit = 2.0 ** (53 - logits.shape[-1].bit_length())  # the weight of the likeliest; vocab * unit <= 2^53
    weights = _weights(logits, params, unit)  # [rows, vocab]
    if weights.device.type != "cpu":
        return draw_plainly(weights, params, bits, unit)
    return draw_cpu.draw(
        weights,
        int(unit),
        bits,
        top_k=[one.top_k for one in params],
        top_p=[one.top_p for one in params],
        least=[one.min_p * unit for one in params],
    )


def draw_plainly(
    weights: torch.Tensor, params: Sequence[SamplingParams], bits: Sequence[int], unit: float
) -> list[int]:
    """The plain version of `draw_cpu.draw`, for any device; `weights` are overwritten."""
    heads = _heads(weights, params)
    _cut(
        weights,
        [max(one.min_p * unit, _top_k_floor(weights, heads, row, one)) for row, one in enumerate(params)],
    )
    if any(one.top_p < 1.0 for one in params):
        totals = weights.double().sum(-1).tolist()  # top_p is a part of what the others left
        _cut(
            weights,
            [_top_p_floor(weights, heads, row, one.top_p, totals[row]) for row, one in enumerate(params)],
        )
    cumulative = weights.double().cumsum_(-1)  # [rows, vocab], rises exactly at the tokens kept
    ends = cumulative[:, -1].tolist()
    targets = [float(bit * int(end) >> 53) for bit, end in zip(bits, ends, strict=True)]
    chosen: list[int] = torch.searchsorted(cumulative, _column(targets, cumulative), right=True)[:, 0].tolist()
    return chosen


def _weights(logits: torch.Tensor, params: Sequence[SamplingParams], unit: float) -> torch.Tensor:
    """Whole numbers in float32, exact as `unit` is a power of two; `unit` at the likeliest; in place."""
    logits.sub_(logits.amax(-1, keepdim=True))  # before the division, so that no temperature overflows
    logits.div_(_column([one.temperature for one in params], logits))
    return logits.exp_().mul_(unit).floor_()


def _heads(weights: torch.Tensor, params: Sequence[SamplingParams]) -> dict[int, npt.NDArray[np.float64]]:
    """The largest weights, falling, of each row that needs them."""
    rows = [row for row, one in enumerate(params) if one.top_k > 0 or one.top_p < 1.0]
    if not rows:
        return {}
    some = weights if len(rows) == len(params) else weights[torch.tensor(rows, device=weights.device)]
    values = some.topk(min(HEAD, some.shape[-1]), dim=-1).values.double().cpu().numpy()  # [len(rows), head]
    return dict(zip(rows, values, strict=True))


def _whole(weights: torch.Tensor, row: int) -> npt.NDArray[np.float64]:
    ordered = np.sort(weights[row].cpu().numpy())  # vectorised: 15 times as fast as torch's sort on CPUs
    return ordered[::-1].astype(np.float64)


def _top_k_floor(
    weights: torch.Tensor, heads: dict[int, npt.NDArray[np.float64]], row: int, params: SamplingParams
) -> float:
    if not 0 < params.top_k < weights.shape[-1]:
        return 0.0
    if params.top_k > len(heads[row]):
        heads[row] = _whole(weights, row)
    return float(heads[row][params.top_k - 1])


def _top_p_floor(
    weights: torch.Tensor, heads: dict[int, npt.NDArray[np.float64]], row: int, top_p: float, total: float
) -> float:
    """The smallest weight of the smallest set that has `top_p` of `total`."""
    if top_p >= 1.0:
        return 0.0
    place = int(np.searchsorted(heads[row].cumsum(), top_p * total))
    if place >= len(heads[row]):
        heads[row] = _whole(weights, row)
        place = int(np.searchsorted(heads[row].cumsum(), top_p * total))
    return float(heads[row][place])


def _cut(weights: torch.Tensor, floors: list[float]) -> None:
    if any(floors):
        weights.masked_fill_(weights < _column(floors, weights), 0.0)


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype).to(like.device).unsqueeze(-1)  # [rows, 1]
