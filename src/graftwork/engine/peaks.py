"""peaks: the likeliest token of each row of logits, and whether the row can be trusted."""

from __future__ import annotations

import numpy as np
import torch

_INFINITY = (
    0x7F80  # bfloat16's bits: below are finite numbers, above NaNs; with the sign, 0xFF80, everything above is NaN
)


def peaks(logits: torch.Tensor) -> tuple[list[bool], list[int]]:
    """For each row of `[rows, vocab]`: whether its largest logit is finite and none is NaN, and the token that has it.

    Of equals the lowest id. The token means something only where the row is finite.

    NOTE: on CPUs numpy finds it ten times as fast as torch, in one thread. It knows no bfloat16, whose bits compare
    as int16 do where the largest logit is positive; a NaN with a sign shows up when they are compared as uint16.
    """
    if logits.device.type == "cpu" and logits.dtype == torch.bfloat16:
        bits = logits.view(torch.int16).numpy()
        tokens = bits.argmax(-1)
        most = np.take_along_axis(bits, tokens[:, None], -1)[:, 0]
        if bool((most > 0).all()):  # a zero may have either sign
            finite = (most < _INFINITY) & (bits.view(np.uint16).max(-1) <= (0x8000 | _INFINITY))
            return finite.tolist(), tokens.tolist()
    elif logits.device.type == "cpu" and logits.dtype == torch.float32:
        numbers = logits.numpy()
        tokens = numbers.argmax(-1)  # a NaN is the largest
        return np.isfinite(np.take_along_axis(numbers, tokens[:, None], -1)[:, 0]).tolist(), tokens.tolist()
    largest, best = logits.max(-1)  # a NaN is the largest
    return largest.isfinite().tolist(), best.tolist()
