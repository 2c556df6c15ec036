# SPDX-License-Identifier: Apache-2.0
"""One reading of the rows of a CUDA tensor: nearest centres, sums and silhouettes.

A program takes tile after tile of rows. Centres are gone through in blocks of a few
strips each; of every row and every place in a strip the least is kept over all strips
and blocks, with the number of its block in the last bits, so that nothing of size n x k
exists and lines are reduced once. The tensor cores multiply float32 as three products
of float16 parts; the centres of the nearest bundle (one of every strip) are then
compared by differences, in float32. Of up to eight columns all distances are computed
so. It is comparisons that such a pass is slow by, and strips make them fewer. Up to 32
centres are one block of two strips that stays in registers; a few hundred stay in
shared memory. Sums go to copies that programs share, around each row's own centre;
silhouettes are added up in whole multiples of 2^-20.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

#: Farther than any row is from any centre.
FAR = tl.constexpr(1e30)


@triton.jit
def product(upper, lower, other_upper, other_lower, start=None):
    """Multiply float32 matrices that are given as two float16 parts."""
    rest = tl.dot(lower, other_upper, tl.dot(upper, other_lower, start))
    return tl.dot(upper, other_upper, rest)


@triton.jit
def by_differences(
    rows, at, held, stride, box, across, within,
    D: tl.constexpr, DP: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    """Return squared distances of narrow rows, column by column."""
    total = tl.zeros([at.shape[0], within.shape[0]], tl.float32)
    for column in tl.static_range(D):
        x = tl.load(rows + at * stride + column, mask=held, other=0.0)
        x = (x - tl.load(box + column)) * tl.load(box + DP + column)
        spots = tl.load(across + column * KP + within)
        gap = x[:, None] - spots[None, :]
        total += gap * gap
    return total


@triton.jit
def marked(least, block, MASK: tl.constexpr):
    """Return numbers with the block's number in their last bits."""
    if MASK > 0:
        bits = least.to(tl.int32, bitcast=True)
        least = ((bits & ~MASK) | block).to(tl.float32, bitcast=True)
    return least


@triton.jit
def last_bit(values, bit):
    """Return numbers with this as their last bit."""
    bits = values.to(tl.int32, bitcast=True)
    return ((bits & ~1) | bit).to(tl.float32, bitcast=True)


@triton.jit
def twentieths(values):
    """Return numbers from -1 to 1 as whole multiples of 2^-20, without a conversion."""
    return (values + 12.0).to(tl.int32, bitcast=True) - 0x41400000


@triton.jit
def kept(
    this, spreads, block, best, later, out, out_later,
    SCORE: tl.constexpr, STRIPS: tl.constexpr, STRIP: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Return the least two of every place in a strip so far; with scatter, too."""
    cut: tl.constexpr = (this.shape[0], STRIPS, STRIP)
    far = marked(tl.min(tl.reshape(this, cut), 1), block, MASK)
    if SCORE > 0:
        later = tl.minimum(later, tl.maximum(best, far))
    best = tl.minimum(best, far)
    if SCORE > 1:
        this += tl.load(spreads)[None, :]
        far = marked(tl.min(tl.reshape(this, cut), 1), block, MASK)
        out_later = tl.minimum(out_later, tl.maximum(out, far))
        out = tl.minimum(out, far)
    return best, later, out, out_later


@triton.jit
def two_least(best, later, within, STRIP: tl.constexpr, MASK: tl.constexpr):
    """Return the least of every line, the number of its bundle, and the next."""
    least = tl.min(best, 1)
    at = tl.min(tl.where(best == least[:, None], within[None, :], STRIP), 1)
    rest = tl.min(tl.where(within[None, :] == at[:, None], later, best), 1)
    block = least.to(tl.int32, bitcast=True) & MASK
    return least, block * STRIP + at, rest


@triton.jit
def apart(values, WARPS: tl.constexpr):
    """Return one number a row as the lanes have rows: eight lanes, warps, the rest.

    The tensor cores give warps 16 rows each, of which a lane has one and, eight rows
    on, another. Loaded like this, rows never move between lanes.
    """
    halves: tl.constexpr = values.shape[0] // (16 * WARPS)
    values = tl.reshape(values, (halves, WARPS, 2, 8))
    return tl.reshape(tl.permute(values, (3, 1, 0, 2)), (8, WARPS, 2 * halves))


@triton.jit
def in_order(values, WARPS: tl.constexpr):
    """Return the same one after the other."""
    halves: tl.constexpr = values.shape[2] // 2
    values = tl.reshape(values, (8, WARPS, halves, 2))
    return tl.reshape(tl.permute(values, (2, 1, 3, 0)), (16 * WARPS * halves,))


@triton.jit
def as_factor(x, WARPS: tl.constexpr, DP: tl.constexpr):
    """Return rows as a factor of a product, columns in the order of its lanes.

    Of 16 columns a lane has loaded four in a row; of a factor it holds two and, eight
    columns on, two more. With the centres' columns in that order nothing moves.
    """
    halves: tl.constexpr = x.shape[2] // 2
    x = tl.reshape(x, (8, WARPS, halves, 2, DP // 16, 4, 2, 2))
    return tl.reshape(
        tl.permute(x, (2, 1, 3, 0, 4, 6, 5, 7)), (16 * WARPS * halves, DP)
    )


@triton.jit
def gaps(x, spots, label, column, WARPS: tl.constexpr, DP: tl.constexpr):
    """Return how far every row is from one of the centres, column by column."""
    label = apart(label, WARPS)[:, :, :, None, None]
    return x + tl.load(spots + label * DP + column)


@triton.jit
def length(gap, WARPS: tl.constexpr):
    """Return the squared length of every row: pieces first, which no lanes share."""
    return in_order(tl.sum(tl.sum(gap * gap, 3), 3), WARPS)


@triton.jit
def in_bundle(
    x, centers, about, first, column,
    SCORE: tl.constexpr, STRIPS: tl.constexpr, STRIP: tl.constexpr,
    WARPS: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """Compare the centres of a bundle by differences.

    Return how far the nearest is and the next, which it is, and how far another is with
    its scatter.
    """
    near = tl.full(first.shape, FAR, tl.float32)
    beside, label, outside, own = near, first, near, near
    for number in tl.static_range(STRIPS):
        this = length(
            gaps(x, centers, first + number * STRIP, column, WARPS, DP), WARPS
        )
        better = this < near
        beside = tl.minimum(beside, tl.maximum(near, this))
        label = tl.where(better, first + number * STRIP, label)
        if SCORE > 1:
            more = this + tl.load(about + first + number * STRIP)
            if number > 0:
                outside = tl.minimum(outside, tl.where(better, own, more))
                own = tl.where(better, more, own)
            else:
                own = more
        near = tl.minimum(near, this)
    return near, beside, label, outside


@triton.jit
def in_group(
    x, seeds, nest, label, most_inside, column,
    KP: tl.constexpr, WARPS: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """Return how far the nearest of the finer seeds of a row's group is, and which."""
    group = tl.load(nest + label)
    start, last = tl.load(nest + KP + group), tl.load(nest + 2 * KP + group)
    near = tl.full(label.shape, FAR, tl.float32)
    label = start
    for step in tl.range(0, most_inside, num_stages=1):
        seed = tl.minimum(start + step, last - 1)
        this = length(gaps(x, seeds, seed, column, WARPS, DP), WARPS)
        label = tl.where(this < near, seed, label)
        near = tl.minimum(near, this)
    return near, label


@triton.jit
def add_up(
    room, label, near, gap, held, inside, column,
    SUMS: tl.constexpr, SQUARES: tl.constexpr, N_CELLS: tl.constexpr,
    WARPS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Add rows to the sums of their cells: counts, scatter, gaps and their squares.

    Counts of all cells lie together, so that those of a warp fall into one line.
    """
    one = tl.full(label.shape, 1.0, tl.float32)
    tl.atomic_add(room + label, one, mask=held, sem="relaxed")
    if SUMS > 1:
        tl.atomic_add(room + N_CELLS + label, near, mask=held, sem="relaxed")
        cells = apart(label, WARPS)[:, :, :, None, None] * D + column
        cells = room + 2 * N_CELLS + cells
        tl.atomic_add(cells, gap, mask=inside, sem="relaxed")
        if SQUARES:
            cells += N_CELLS * D
            tl.atomic_add(cells, gap * gap, mask=inside, sem="relaxed")


@triton.jit
def contrast(own, other, usable):
    """Return the silhouette of squared distances, in multiples of 2^-20."""
    larger = tl.maximum(own, other)
    usable = usable & (larger > 0)
    less = tl.maximum(tl.minimum(own, other), 0.0)
    root = tl.sqrt(less / tl.where(usable, larger, 1.0))
    value = tl.where(other >= own, 1.0 - root, root - 1.0)
    return twentieths(tl.where(usable, value, 0.0))


@triton.jit
def which_slab(along):
    """Return one in ten bits of its own for each of three slabs, or nothing."""
    which = tl.where(tl.abs(along) <= 0.2, 1, 0)
    which = tl.where(tl.abs(along + 1.0) <= 0.2, 1 << 10, which)
    return tl.where(tl.abs(along - 1.0) <= 0.2, 1 << 20, which)


@triton.jit(do_not_specialize=["once"])
def pass_kernel(
    rows, n, stride, box, centers, across, turned, norms, about, axes, nest, seeds,
    extra, sums, totals, slabs, labels,
    n_blocks, most_inside, n_copies, once,
    D: tl.constexpr, DP: tl.constexpr, KP: tl.constexpr, STRIP: tl.constexpr,
    BLOCK: tl.constexpr, SCORE: tl.constexpr, SLABS: tl.constexpr,
    NESTED: tl.constexpr, SQUARES: tl.constexpr, SUMS: tl.constexpr,
    LABELS: tl.constexpr, MASK: tl.constexpr, N_CELLS: tl.constexpr,
    WIDTH: tl.constexpr,
    STAGES: tl.constexpr, STRIPS: tl.constexpr, RESIDENT: tl.constexpr,
    WARPS: tl.constexpr,
):  # fmt: skip
    """Add up what a set of centres makes of the rows; see :mod:`.passes`."""
    SINGLE: tl.constexpr = KP == 2 * STRIP
    NARROW: tl.constexpr = D <= 8
    column = tl.arange(0, DP // 16)[None, None, None, :, None] * 16
    column = column + tl.arange(0, 16)[None, None, None, None, :]
    middle = tl.load(box + column)
    inverse = tl.load(box + DP + column)
    within = tl.arange(0, STRIP)
    line = tl.arange(0, DP)[:, None] * KP
    at_a = line + within[None, :]
    if SINGLE:
        upper_a, lower_a = tl.load(turned + at_a), tl.load(turned + DP * KP + at_a)
        upper_b = tl.load(turned + at_a + STRIP)
        lower_b = tl.load(turned + DP * KP + at_a + STRIP)
        norm_a, norm_b = tl.load(norms + within), tl.load(norms + STRIP + within)
        if SCORE > 1:
            both_a = norm_a + tl.load(about + within)
            both_b = norm_b + tl.load(about + STRIP + within)
    if RESIDENT > 0:
        # Loaded before the loop, these stay in shared memory; lengths of centres are
        # one more product, so that comparing loads nothing of them.
        at_all = line + tl.arange(0, STRIPS * STRIP)[None, :]
        at_more = tl.arange(0, 16)[:, None] * KP + tl.arange(0, STRIPS * STRIP)[None, :]
        weights = tl.load(extra + 16 * KP + tl.arange(0, 16))
        weights = tl.broadcast_to(weights[None, :], (BLOCK, 16))
        uppers, lowers, lengths = (), (), ()
        for block in tl.static_range(RESIDENT):
            here = block * STRIPS * STRIP
            uppers = uppers + (tl.load(turned + at_all + here),)
            lowers = lowers + (tl.load(turned + DP * KP + at_all + here),)
            lengths = lengths + (tl.load(extra + at_more + here),)
    if SLABS:
        every = tl.arange(0, KP)
        at_axes = line + every[None, :]
        axis_upper = tl.load(axes + at_axes)
        axis_lower = tl.load(axes + DP * KP + at_axes)
        axis_start = tl.load(about + 2 * KP + every)
        partner = tl.load(about + 3 * KP + every).to(tl.int32)
        slabs_here = tl.zeros([BLOCK, KP], tl.int32)
    if SCORE > 0:
        simplified_here = tl.zeros([BLOCK], tl.int32)
    if SCORE > 1:
        moment_here = tl.zeros([BLOCK], tl.int32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0), num_stages=1
    ):
        place = tile * BLOCK + tl.arange(0, BLOCK)
        held = place < n
        long = place.to(tl.int64)
        inside = apart(held, WARPS)[:, :, :, None, None]
        if D < DP:
            inside = inside & (column < D)
        at_rows = apart(long, WARPS)[:, :, :, None, None] * stride + column
        x = tl.load(rows + at_rows, mask=inside, other=middle)  # 0 where there is none
        x = (x - middle) * inverse
        if SLABS or not NARROW:
            half = x.to(tl.float16)
            lower = as_factor((x - half.to(tl.float32)).to(tl.float16), WARPS, DP)
            upper = as_factor(half, WARPS, DP)
        if SINGLE:
            if NARROW:
                dot_a = by_differences(
                    rows, long, held, stride, box, across, within, D, DP, KP
                )
                dot_b = by_differences(
                    rows, long, held, stride, box, across + STRIP, within, D, DP, KP
                )
            else:
                dot_a = product(upper, lower, upper_a, lower_a)
                dot_b = product(upper, lower, upper_b, lower_b)
            far_a, far_b = dot_a + norm_a[None, :], dot_b + norm_b[None, :]
            best = tl.minimum(last_bit(far_a, 0), last_bit(far_b, 1))
            later = tl.maximum(far_a, far_b)
            least, bundle, rest = two_least(best, later, within, STRIP, 0)
            is_b = (least.to(tl.int32, bitcast=True) & 1) > 0
            label = tl.where(is_b, bundle + STRIP, bundle)
            if SCORE > 1:
                out_a, out_b = dot_a + both_a[None, :], dot_b + both_b[None, :]
                mine = within[None, :] == bundle[:, None]
                others = tl.where(is_b[:, None], out_a, out_b)
                others = tl.where(mine, others, tl.minimum(out_a, out_b))
                outside = tl.min(others, 1)
            gap = gaps(x, centers, label, column, WARPS, DP)
            near = length(gap, WARPS)
        else:
            best = tl.full([BLOCK, STRIP], FAR, tl.float32)
            later, out, out_later = best, best, best
            whole = tl.arange(0, STRIPS * STRIP)
            if RESIDENT > 0:
                # A loop of one round, which the compiler does not know: else it starts
                # all products before the first comparison, and runs out of registers.
                for block in tl.static_range(RESIDENT):
                    for _ in tl.range(0, once, num_stages=1):
                        this = tl.dot(weights, lengths[block])
                        this = product(upper, lower, uppers[block], lowers[block], this)
                        best, later, out, out_later = kept(
                            this, about + block * STRIPS * STRIP + whole, block,
                            best, later, out, out_later, SCORE, STRIPS, STRIP, MASK,
                        )  # fmt: skip
            else:
                for block in tl.range(0, n_blocks, num_stages=STAGES):
                    here = block * STRIPS * STRIP
                    if NARROW:
                        this = by_differences(
                            rows, long, held, stride, box, across + here, whole,
                            D, DP, KP,
                        )  # fmt: skip
                    else:
                        at = line + here + whole[None, :]
                        this = product(
                            upper, lower, tl.load(turned + at),
                            tl.load(turned + DP * KP + at),
                        )  # fmt: skip
                    this += tl.load(norms + here + whole)[None, :]
                    best, later, out, out_later = kept(
                        this, about + here + whole, block,
                        best, later, out, out_later, SCORE, STRIPS, STRIP, MASK,
                    )  # fmt: skip
            least, bundle, rest = two_least(best, later, within, STRIP, MASK)
            first = (bundle // STRIP) * (STRIPS * STRIP) + bundle % STRIP
            near, beside, label, outside = in_bundle(
                x, centers, about, first, column, SCORE, STRIPS, STRIP, WARPS, DP
            )
            if not NESTED:
                gap = gaps(x, centers, label, column, WARPS, DP)
        base = near - least  # as long as the row is: distances lack it so far
        if NESTED:
            near, label = in_group(
                x, seeds, nest, label, most_inside, column, KP, WARPS, DP
            )
            gap = gaps(x, seeds, label, column, WARPS, DP)
        if LABELS:
            tl.store(labels + place, label, mask=held)
        if SUMS > 0:
            room = sums + (tl.program_id(0) % n_copies) * (N_CELLS * WIDTH)
            add_up(room, label, near, gap, held, inside, column, SUMS, SQUARES,
                   N_CELLS, WARPS, D)  # fmt: skip
        if SCORE > 0:
            second = rest + base
            if not SINGLE:
                second = tl.minimum(beside, second)
            second = tl.maximum(second, near)
            ratio = near / tl.where(second > 0, second, 1.0)
            value = tl.where((second > 0) & held, 1.0 - tl.sqrt(ratio), 0.0)
            simplified_here += twentieths(value)
        if SCORE > 1:
            size = tl.load(about + KP + label)  # n / (n - 1); 0: a cluster of one
            inside_own = (near + tl.load(about + label)) * size
            if SINGLE:
                outside += base
            else:
                least, out_bundle, out_rest = two_least(
                    out, out_later, within, STRIP, MASK
                )
                outside = tl.minimum(outside, out_rest + base)
                outside = tl.where(out_bundle == bundle, outside, least + base)
            moment_here += contrast(inside_own, outside, held & (size > 0))
        if SLABS:
            along = product(upper, lower, axis_upper, axis_lower) + axis_start[None, :]
            counted = (label[:, None] == partner[None, :]) & held[:, None]
            counted |= (label[:, None] == every[None, :]) & held[:, None]
            slabs_here += tl.where(counted, which_slab(along), 0)
    if SCORE > 0:
        total = tl.sum(simplified_here.to(tl.float64), 0) / (1 << 20)
        tl.atomic_add(totals, total, sem="relaxed")
    if SCORE > 1:
        total = tl.sum(moment_here.to(tl.float64), 0) / (1 << 20)
        tl.atomic_add(totals + 1, total, sem="relaxed")
    if SLABS:
        for slab in tl.static_range(3):
            found = tl.sum((slabs_here >> (10 * slab)) & 1023, 0)
            tl.atomic_add(slabs + every * 3 + slab, found, sem="relaxed")
