"""peaks: the likeliest token of each row of logits, and whether the row can be trusted."""

from __future__ import annotations

import numpy as np
import torch

_INFINITY, _MINUS = 0x7F80, 0xFF80  # bfloat16's bits of infinity with either sign; what is above is NaN


def peaks(logits: torch.Tensor) -> tuple[list[bool], list[int]]:
    """For each row of `[rows, vocab]`: whether its largest logit is finite and none is NaN, and the token that has it.

    Of equals the lowest id. The token means something only where the row is finite.

    NOTE: on CPUs numpy finds it ten times as fast as torch, in one thread. It knows no bfloat16, whose bits compare
    as int16 do where the largest logit is positive; a NaN with a sign shows up when they are compared as uint16.
    """
    if logits.device.type == "cpu" and logits.dtype == torch.bfloat16:
        bits = logits.view(torch.int16).numpy()
        largest = np.maximum.reduce(bits, -1).tolist()
        if min(largest) > 0:  # a zero may have either sign
            unsigned = np.maximum.reduce(bits.view(np.uint16), -1).tolist()
            finite = [one < _INFINITY and other <= _MINUS for one, other in zip(largest, unsigned, strict=True)]
            return finite, bits.argmax(-1).tolist()
    elif logits.device.type == "cpu" and logits.dtype == torch.float32:
        numbers = logits.numpy()
        return np.isfinite(np.maximum.reduce(numbers, -1)).tolist(), numbers.argmax(-1).tolist()  # a NaN is the largest
    values, best = logits.max(-1)
    return values.isfinite().tolist(), best.tolist()
