# SPDX-License-Identifier: Apache-2.0
"""k-means++ over a sample of rows, all picks in one launch.

Every pick waits for the one before, so that a launch for each step would take longer
than its work. A few programs, which all run at once, share the rows in chunks, meet
once a step, and then each finds the next pick by itself.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

#: Farther than any row is from any centre.
FAR = tl.constexpr(1e300)


@triton.jit(do_not_specialize=["n", "k"])
def plus_plus_kernel(
    rows, n, draws, nearest, chunk_sums, arrivals, picks, totals, k,
    D: tl.constexpr, DP: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Pick k rows, each with odds by its squared distance to the nearest so far.

    `nearest` (2, n) and `chunk_sums` (2, CHUNKS) are there twice, for even and odd
    steps: who is quick writes into the one while who is slow still reads the other.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    column, within = tl.arange(0, DP), tl.arange(0, CHUNK)
    number = tl.arange(0, CHUNKS)
    real, n_chunks = column < D, tl.cdiv(n, CHUNK)
    total = n.to(tl.float64)  # before the first pick all rows are alike
    pick = tl.minimum((total * tl.load(draws)).to(tl.int32), n - 1)
    for step in tl.range(0, k):
        if program == 0:
            tl.store(picks + step, pick)
            tl.store(totals + step, total)
        old, new = nearest + (step + 1) % 2 * n, nearest + step % 2 * n
        sums_now = chunk_sums + step % 2 * CHUNKS
        spot = tl.load(rows + pick * D + column, mask=real, other=0.0)
        for chunk in tl.range(program, n_chunks, programs):
            at = chunk * CHUNK + within
            held = at < n
            inside = held[:, None] & real[None, :]
            x = tl.load(rows + at[:, None] * D + column[None, :], mask=inside, other=0)
            gap = tl.where(inside, x - spot[None, :], 0.0)
            far = tl.load(old + at, mask=held & (step > 0), other=FAR)
            far = tl.minimum(far, tl.sum(gap * gap, 1))
            tl.store(new + at, far, mask=held)
            tl.store(sums_now + chunk, tl.sum(tl.where(held, far, 0.0), 0))
        # All meet. What others wrote is read past this processor's own cache.
        tl.debug_barrier()
        arrived = tl.atomic_add(arrivals, 1, sem="acq_rel") + 1
        while arrived < programs * (step + 1):
            arrived = tl.atomic_add(arrivals, 0, sem="acquire")
        # The next pick: the first row up to which there is more than what was drawn.
        sums = tl.load(
            sums_now + number, mask=number < n_chunks, other=0.0, cache_modifier=".cg"
        )
        total = tl.sum(sums, 0)
        aim = total * tl.load(draws + tl.minimum(step + 1, k - 1))
        passed = tl.sum((tl.cumsum(sums, 0) <= aim).to(tl.int32), 0)
        passed = tl.minimum(passed, n_chunks - 1)
        before = tl.sum(tl.where(number < passed, sums, 0.0), 0)
        at = passed * CHUNK + within
        far = tl.load(new + at, mask=at < n, other=0.0, cache_modifier=".cg")
        reached = (before + tl.cumsum(far, 0) <= aim) & (at < n)
        pick = tl.minimum(passed * CHUNK + tl.sum(reached.to(tl.int32), 0), n - 1)
