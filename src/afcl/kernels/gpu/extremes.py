# SPDX-License-Identifier: Apache-2.0
"""The least and largest value of every column of a CUDA tensor, in one reading."""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def extremes_kernel(
    rows, n, stride, found, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr
):
    """Write the extremes of every program's rows; NaN where there is one."""
    column = tl.arange(0, DP)
    real = (column < D)[None, :]
    low = tl.full([BLOCK, DP], float("inf"), tl.float32)
    high = tl.full([BLOCK, DP], float("-inf"), tl.float32)
    odd = tl.zeros([BLOCK, DP], tl.int1)
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        place = tile.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = (place < n)[:, None] & real
        x = tl.load(
            rows + place[:, None] * stride + column[None, :], mask=inside, other=0.0
        )
        low = tl.minimum(low, tl.where(inside, x, float("inf")))
        high = tl.maximum(high, tl.where(inside, x, float("-inf")))
        odd = odd | (x != x)
    any_odd = tl.max(odd.to(tl.int32), 0) > 0
    at = found + tl.program_id(0) * DP + column
    tl.store(at, tl.where(any_odd, float("nan"), tl.min(low, 0)))
    at += tl.num_programs(0) * DP
    tl.store(at, tl.where(any_odd, float("nan"), tl.max(high, 0)))
