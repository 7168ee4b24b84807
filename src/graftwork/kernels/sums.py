"""The inner loops of every CPU kernel: many dot products, or a weighted sum of rows, for one token or four.

NOTE: Several rows at a time, on contiguous slices: so LLVM vectorises, and the rows share each pass over the
float32 side. The same loops with computed indices are ten times slower. Four tokens share the widening.
"""

from __future__ import annotations

import numpy as np

from graftwork.kernels.jit import Elements, Floats, jit, widen

BLOCK = 4  # tokens that the `_block` forms take


@jit
def dots(x: Floats, rows: Elements, count: int, out: Floats) -> None:
    """out[r] = rows[r] · x for the first `count` rows of [count, len(x)]."""
    n = len(x)
    whole = count - count % 4
    for r in range(0, whole, 4):
        row0 = rows[r * n : (r + 1) * n]
        row1 = rows[(r + 1) * n : (r + 2) * n]
        row2 = rows[(r + 2) * n : (r + 3) * n]
        row3 = rows[(r + 3) * n : (r + 4) * n]
        sum0 = sum1 = sum2 = sum3 = np.float32(0)
        for k in range(n):
            sum0 += x[k] * widen(row0[k])
            sum1 += x[k] * widen(row1[k])
            sum2 += x[k] * widen(row2[k])
            sum3 += x[k] * widen(row3[k])
        out[r], out[r + 1], out[r + 2], out[r + 3] = sum0, sum1, sum2, sum3
    for r in range(whole, count):
        row0 = rows[r * n : (r + 1) * n]
        sum0 = np.float32(0)
        for k in range(n):
            sum0 += x[k] * widen(row0[k])
        out[r] = sum0


@jit
def add_rows(weights: Floats, rows: Elements, count: int, out: Floats) -> None:
    """out += Σ weights[r] rows[r] over the first `count` rows of [count, len(out)]."""
    n = len(out)
    whole = count - count % 4
    for r in range(0, whole, 4):
        row0 = rows[r * n : (r + 1) * n]
        row1 = rows[(r + 1) * n : (r + 2) * n]
        row2 = rows[(r + 2) * n : (r + 3) * n]
        row3 = rows[(r + 3) * n : (r + 4) * n]
        w0, w1, w2, w3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        for k in range(n):
            out[k] += w0 * widen(row0[k]) + w1 * widen(row1[k]) + w2 * widen(row2[k]) + w3 * widen(row3[k])
    for r in range(whole, count):
        row0 = rows[r * n : (r + 1) * n]
        w0 = weights[r]
        for k in range(n):
            out[k] += w0 * widen(row0[k])


@jit
def dots_block(x: Floats, rows: Elements, count: int, out: Floats) -> None:
    """`dots` for x [BLOCK, n], flat; out [count, BLOCK], flat."""
    n = len(x) // 4
    x0, x1, x2, x3 = x[:n], x[n : 2 * n], x[2 * n : 3 * n], x[3 * n : 4 * n]
    for r in range(0, count - 1, 2):
        row0 = rows[r * n : (r + 1) * n]
        row1 = rows[(r + 1) * n : (r + 2) * n]
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
        for k in range(n):
            a = widen(row0[k])
            b = widen(row1[k])
            a0 += x0[k] * a
            a1 += x1[k] * a
            a2 += x2[k] * a
            a3 += x3[k] * a
            b0 += x0[k] * b
            b1 += x1[k] * b
            b2 += x2[k] * b
            b3 += x3[k] * b
        out[4 * r], out[4 * r + 1], out[4 * r + 2], out[4 * r + 3] = a0, a1, a2, a3
        out[4 * r + 4], out[4 * r + 5], out[4 * r + 6], out[4 * r + 7] = b0, b1, b2, b3
    if count % 2:
        row0 = rows[(count - 1) * n : count * n]
        a0 = a1 = a2 = a3 = np.float32(0)
        for k in range(n):
            a = widen(row0[k])
            a0 += x0[k] * a
            a1 += x1[k] * a
            a2 += x2[k] * a
            a3 += x3[k] * a
        last = 4 * (count - 1)
        out[last], out[last + 1], out[last + 2], out[last + 3] = a0, a1, a2, a3


@jit
def add_rows_block(weights: Floats, rows: Elements, count: int, out: Floats) -> None:
    """`add_rows` for out [BLOCK, n], flat; weights [count, BLOCK], flat."""
    n = len(out) // 4
    out0, out1, out2, out3 = out[:n], out[n : 2 * n], out[2 * n : 3 * n], out[3 * n : 4 * n]
    for r in range(0, count - 1, 2):
        row0 = rows[r * n : (r + 1) * n]
        row1 = rows[(r + 1) * n : (r + 2) * n]
        w = weights[4 * r : 4 * r + 8]
        v0, v1, v2, v3, w0, w1, w2, w3 = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
        for k in range(n):
            a = widen(row0[k])
            b = widen(row1[k])
            out0[k] += v0 * a + w0 * b
            out1[k] += v1 * a + w1 * b
            out2[k] += v2 * a + w2 * b
            out3[k] += v3 * a + w3 * b
    if count % 2:
        row0 = rows[(count - 1) * n : count * n]
        w = weights[4 * (count - 1) : 4 * count]
        v0, v1, v2, v3 = w[0], w[1], w[2], w[3]
        for k in range(n):
            a = widen(row0[k])
            out0[k] += v0 * a
            out1[k] += v1 * a
            out2[k] += v2 * a
            out3[k] += v3 * a
