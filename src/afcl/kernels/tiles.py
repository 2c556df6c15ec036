# SPDX-License-Identifier: Apache-2.0
"""Passes over many rows, compiled: a tile of rows at a time, all centres for each.

Distances of a tile are laid out centre by centre, so that one instruction works on
several rows; nothing of size n x k exists. Two ways to get them:

- *narrow* tables (at most :data:`NARROW` features) and small ones: differences,
  squared and added in the reference's order. Same bits as :mod:`.reference`.
- large *wide* ones: a matrix product says which centre is nearest, and how much farther
  the others are (as seen from the centres' middle, so that data far from the origin
  lose little); the distance to the nearest is then computed from differences. Bits are
  those of this machine's matrix product; they agree with the reference to rounding.

Sums are formed block by block and the blocks are added in their order, so results do
not depend on the number of threads. See docs/decisions/0020-fused-client-step.md.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

#: Most features of a narrow table, and most multiply-adds of a pass that is done as if
#: it were one: what small problems give is the reference's to the bit.
NARROW, SMALL_WIDE = 8, 1 << 20
#: Centres of one matrix product.
GROUP = 32
#: Most rows of a tile, and numbers of it or of its distances: they stay in the cache.
TILE, TILE_SIZE = 128, 1 << 15

_compiled = compiled(error_model="numpy")
_reordered = compiled(fastmath={"reassoc", "contract", "nsz"})


@_compiled
def is_wide(n: int, d: int, k: int) -> bool:
    """Whether a matrix product is worth its bits."""
    return d > NARROW and n * d * k >= SMALL_WIDE


@_compiled
def _tile(wide: bool, d: int, k: int) -> int:
    """Return the number of rows of a tile."""
    if not wide:
        return TILE
    if d <= k:
        return TILE // 2
    return min(TILE, max(TILE // 8, TILE_SIZE // d // 16 * 16))


@_compiled
def _columns(X: Floats, start: int, stop: int, out: Floats) -> None:
    """Copy a tile feature by feature (OUT); places behind the last row get 0."""
    for row in range(stop - start):
        for feature in range(X.shape[1]):
            out[feature, row] = X[start + row, feature]
    for row in range(stop - start, out.shape[1]):
        for feature in range(X.shape[1]):
            out[feature, row] = 0.0


@_compiled
def _differences(columns: Floats, centers: Floats, out: Floats) -> None:
    """Squared distances (OUT, centre by row) of a narrow tile, features in order."""
    d = centers.shape[1]
    rows = out.shape[1]
    for center in range(centers.shape[0]):
        if d >= 2:
            first = centers[center, 0]
            second = centers[center, 1]
            for row in range(rows):
                a = columns[0, row] - first
                b = columns[1, row] - second
                out[center, row] = a * a + b * b
        else:
            first = centers[center, 0]
            for row in range(rows):
                a = columns[0, row] - first
                out[center, row] = a * a
        feature = 2
        while feature + 2 <= d:
            first = centers[center, feature]
            second = centers[center, feature + 1]
            for row in range(rows):
                a = columns[feature, row] - first
                b = columns[feature + 1, row] - second
                out[center, row] = (out[center, row] + a * a) + b * b
            feature += 2
        if feature < d:
            first = centers[center, feature]
            for row in range(rows):
                a = columns[feature, row] - first
                out[center, row] += a * a


@_compiled
def _seen_from_middle(centers: Floats) -> tuple[Floats, Floats]:
    """Return -2 c' (k, d) and |c'|^2 + 2 m c' (k,), where c' = c - m and m their mean.

    |x - c|^2 is |x - m|^2 + (|c'|^2 + 2 m c') - 2 x c', of which only the last two
    terms differ from centre to centre: their sum is all it takes to find the nearest.
    """
    k, d = centers.shape
    middle = np.zeros(d)
    for center in range(k):
        for feature in range(d):
            middle[feature] += centers[center, feature] / k
    factors = np.empty((k, d))
    norms = np.zeros(k)
    for center in range(k):
        for feature in range(d):
            value = centers[center, feature] - middle[feature]
            factors[center, feature] = -2.0 * value
            norms[center] += value * (value + 2.0 * middle[feature])
    return factors, norms


@_compiled
def _product_of_columns(
    columns: Floats, factors: Floats, norms: Floats, out: Floats
) -> None:
    """Distances but for a number per row (OUT, centre by row), rows turned before."""
    np.dot(factors, columns, out)
    for center in range(norms.shape[0]):
        norm = norms[center]
        for row in range(out.shape[1]):
            out[center, row] += norm


@_compiled
def _product_of_rows(
    rows: Floats, turned: Floats, norms: Floats, product: Floats, out: Floats
) -> None:
    """Distances but for a number per row (OUT, centre by row), turned afterwards.

    `turned` holds the factors by group of :data:`GROUP` centres, features first, so
    that a group's product stays in the nearest cache.
    """
    held = rows.shape[0]
    for group in range(turned.shape[0]):
        np.dot(rows, turned[group], product[:held])
        begin = group * GROUP
        for place in range(min(GROUP, norms.shape[0] - begin)):
            norm = norms[begin + place]
            for row in range(held):
                out[begin + place, row] = norm + product[row, place]


@_compiled
def _in_groups(factors: Floats) -> Floats:
    """Return the factors as :func:`_product_of_rows` wants them."""
    k, d = factors.shape
    turned = np.zeros(((k + GROUP - 1) // GROUP, d, GROUP))
    for center in range(k):
        for feature in range(d):
            turned[center // GROUP, feature, center % GROUP] = factors[center, feature]
    return turned


@_compiled
def _two_least(
    distances: Floats, begin: int, end: int, label: Ints, best: Floats, second: Floats
) -> None:
    """Nearest centre of every row of a tile, and the two least distances (OUT).

    Two centres a turn, so that what is known of a row stays in registers.
    """
    rows = distances.shape[1]
    for row in range(rows):
        best[row] = np.inf
        second[row] = np.inf
        label[row] = begin
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        for row in range(rows):
            value = distances[center, row]
            low = best[row]
            nearest = value < low
            next_low = min(second[row], max(value, low))
            own = center if nearest else label[row]
            low = value if nearest else low
            value = np.inf if follower == center else distances[follower, row]
            nearest = value < low
            second[row] = min(next_low, max(value, low))
            label[row] = follower if nearest else own
            best[row] = value if nearest else low


@_compiled
def _nearest(
    distances: Floats, begin: int, end: int, label: Ints, best: Floats
) -> None:
    """Nearest centre of every row of a tile (OUT)."""
    rows = distances.shape[1]
    for row in range(rows):
        best[row] = np.inf
        label[row] = begin
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        for row in range(rows):
            value = distances[center, row]
            nearer = value < best[row]
            own = center if nearer else label[row]
            low = value if nearer else best[row]
            value = distances[follower, row]
            nearer = value < low
            label[row] = follower if nearer else own
            best[row] = value if nearer else low


@_compiled
def _nearest_in_plane(
    columns: Floats, centers: Floats, begin: int, end: int, label: Ints, best: Floats
) -> None:
    """Nearest centre (OUT) of every row of a tile of two features, distances unkept."""
    rows = best.shape[0]
    for row in range(rows):
        best[row] = np.inf
        label[row] = begin
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        x, y = centers[center, 0], centers[center, 1]
        next_x, next_y = centers[follower, 0], centers[follower, 1]
        for row in range(rows):
            a = columns[0, row] - x
            b = columns[1, row] - y
            value = a * a + b * b
            nearer = value < best[row]
            own = center if nearer else label[row]
            low = value if nearer else best[row]
            a = columns[0, row] - next_x
            b = columns[1, row] - next_y
            value = a * a + b * b
            nearer = value < low
            label[row] = follower if nearer else own
            best[row] = value if nearer else low


@_compiled
def _nearest_other(
    distances: Floats,
    begin: int,
    end: int,
    label: Ints,
    spreads: Floats,
    outside: Floats,
) -> None:
    """Least distance plus spread (OUT) of the centres that are not the nearest."""
    rows = distances.shape[1]
    for row in range(rows):
        outside[row] = np.inf
    for center in range(begin, end):
        spread = spreads[center]
        for row in range(rows):
            value = distances[center, row] + spread
            value = np.inf if label[row] == center else value
            outside[row] = value if value < outside[row] else outside[row]


@_reordered
def _apart(row: Floats, center: Floats) -> float:
    """Squared distance of a row to a centre, features in any order."""
    total = 0.0
    for feature in range(row.shape[0]):
        difference = row[feature] - center[feature]
        total += difference * difference
    return total


@_compiled
def _add_rows(
    rows: Floats,
    centers: Floats,
    label: Ints,
    best: Floats,
    counts: Floats,
    firsts: Floats,
    seconds: Floats,
) -> None:
    """Add the rows of a tile, as seen from their centres, to the sums (INOUT)."""
    for row in range(rows.shape[0]):
        own = label[row]
        counts[own] += 1.0
        seconds[own] += best[row]
        for feature in range(rows.shape[1]):
            firsts[own, feature] += rows[row, feature] - centers[own, feature]


@_compiled
def _score(
    best: Floats,
    second: Floats,
    outside: Floats,
    label: Ints,
    spreads: Floats,
    sizes: Floats,
    both: bool,
    simplified: Floats,
    moment: Floats,
) -> None:
    """Silhouettes of every row of a tile (OUT)."""
    for row in range(best.shape[0]):
        far = second[row]
        ratio = best[row] / (far if far > 0 else 1.0)
        simplified[row] = 1.0 - np.sqrt(ratio) if far > 0 else 0.0
    if not both:
        return
    for row in range(best.shape[0]):
        size = sizes[label[row]]
        inside = (best[row] + spreads[label[row]]) * (
            size / (size - 1.0 if size > 1 else 1.0)
        )
        larger = max(inside, outside[row])
        smaller = min(inside, outside[row])
        usable = larger > 0 and size > 1
        root = np.sqrt(smaller / (larger if usable else 1.0))
        contrast = 1.0 - root if outside[row] >= inside else root - 1.0
        moment[row] = contrast if usable else 0.0


@_compiled
def tally_blocks(
    X: Floats,
    first: int,
    last: int,
    block: int,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
    counts: Floats,
    firsts: Floats,
    seconds: Floats,
    sums: Floats,
) -> None:
    """Add up blocks `first` to `last`; see :func:`reference.tally`.

    `counts` (blocks, K), `firsts` (blocks, K, d), `seconds` (blocks, K) and `sums`
    (blocks, segments, 2) are INOUT: every block has its own place.
    """
    n, d = X.shape
    k = centers.shape[0]
    wide = is_wide(X.shape[0], d, k)
    turn = d <= k or not wide
    tile = _tile(wide, d, k)
    columns = np.zeros((d, tile) if turn else (0, 0))
    product = np.empty((0, 0) if turn else (tile, GROUP))
    factors, norms = _seen_from_middle(centers)
    turned = _in_groups(factors[: 0 if turn else k])
    kept = bounds[1] if d == 2 and not wide and scores[0] == 0 else 0
    distances = np.zeros((k, tile))
    label = np.zeros(tile, dtype=np.int64)
    best = np.zeros(tile)
    second = np.zeros(tile)
    outside = np.zeros(tile)
    simplified = np.zeros(tile)
    moment = np.zeros(tile)
    for place in range(first, last):
        behind = min(n, (place + 1) * block)
        for start in range(place * block, behind, tile):
            stop = min(behind, start + tile)
            held = stop - start
            if turn:
                _columns(X, start, stop, columns)
            if not wide:
                _differences(columns, centers[kept:], distances[kept:])
            elif turn:
                _product_of_columns(columns, factors, norms, distances)
            else:
                _product_of_rows(X[start:stop], turned, norms, product, distances)
            for segment in range(bounds.shape[0] - 1):
                begin = bounds[segment]
                end = bounds[segment + 1]
                score = scores[segment]
                if score > 0:
                    _two_least(distances, begin, end, label, best, second)
                elif begin < kept:
                    _nearest_in_plane(columns, centers, begin, end, label, best)
                else:
                    _nearest(distances, begin, end, label, best)
                if score > 1:
                    _nearest_other(distances, begin, end, label, spreads, outside)
                if wide:
                    for row in range(held):
                        apart = _apart(X[start + row], centers[label[row]])
                        second[row] = apart + (second[row] - best[row])
                        outside[row] = apart + (outside[row] - best[row])
                        best[row] = apart
                _add_rows(
                    X[start:stop],
                    centers,
                    label,
                    best,
                    counts[place],
                    firsts[place],
                    seconds[place],
                )
                if score > 0:
                    _score(
                        best[:held],
                        second[:held],
                        outside[:held],
                        label[:held],
                        spreads,
                        sizes,
                        score > 1,
                        simplified,
                        moment,
                    )
                    for row in range(held):
                        sums[place, segment, 0] += simplified[row]
                    if score > 1:
                        for row in range(held):
                            sums[place, segment, 1] += moment[row]


@_compiled
def assign_rows(
    X: Floats, first: int, last: int, centers: Floats, label: Ints, nearest: Floats
) -> None:
    """Nearest centre and squared distance (OUT) of rows `first` to `last`."""
    d = X.shape[1]
    k = centers.shape[0]
    wide = is_wide(X.shape[0], d, k)
    turn = d <= k or not wide
    tile = _tile(wide, d, k)
    columns = np.zeros((d, tile) if turn else (0, 0))
    product = np.empty((0, 0) if turn else (tile, GROUP))
    factors, norms = _seen_from_middle(centers)
    turned = _in_groups(factors[: 0 if turn else k])
    distances = np.zeros((k, tile))
    own = np.zeros(tile, dtype=np.int64)
    best = np.zeros(tile)
    for start in range(first, last, tile):
        stop = min(last, start + tile)
        if turn:
            _columns(X, start, stop, columns)
        if d == 2 and not wide:
            _nearest_in_plane(columns, centers, 0, k, own, best)
        else:
            if not wide:
                _differences(columns, centers, distances)
            elif turn:
                _product_of_columns(columns, factors, norms, distances)
            else:
                _product_of_rows(X[start:stop], turned, norms, product, distances)
            _nearest(distances, 0, k, own, best)
        for row in range(stop - start):
            label[start + row] = own[row]
            if wide:
                nearest[start + row] = _apart(X[start + row], centers[own[row]])
            else:
                nearest[start + row] = best[row]


@_compiled
def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    label = np.empty(X.shape[0], dtype=np.int64)
    nearest = np.empty(X.shape[0])
    assign_rows(X, 0, X.shape[0], centers, label, nearest)
    return label, nearest


@_compiled
def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each."""
    n, d = X.shape
    k = centers.shape[0]
    simplified = np.empty(n)
    moment = np.empty(n)
    squared = np.empty(n)
    columns = np.zeros((d, TILE))
    distances = np.zeros((k, TILE))
    label = np.zeros(TILE, dtype=np.int64)
    best = np.zeros(TILE)
    second = np.zeros(TILE)
    outside = np.zeros(TILE)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        _columns(X, start, stop, columns)
        _differences(columns, centers, distances)
        _two_least(distances, 0, k, label, best, second)
        _nearest_other(distances, 0, k, label, spreads, outside)
        for row in range(stop - start):
            blur = variances[start + row]
            near = best[row] + blur
            far = second[row] + blur
            simplified[start + row] = (
                1.0 - np.sqrt(near) / np.sqrt(far) if far > 0 else 0.0
            )
            size = counts[label[row]]
            inside = (near + spreads[label[row]]) * (
                size / (size - 1.0 if size > 1 else 1.0)
            )
            beyond = outside[row] + blur
            moment[start + row] = _contrast(np.sqrt(inside), np.sqrt(beyond), size)
            squared[start + row] = _contrast(inside, beyond, size)
    return simplified, moment, squared


@_compiled
def _contrast(inside: float, outside: float, size: float) -> float:
    """(b - a) / max(a, b), 0 for a cluster of one and where both are 0."""
    larger = max(inside, outside)
    if larger > 0 and size > 1:
        return (outside - inside) / larger
    return 0.0


@_compiled
def sums(X: Floats, weights: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Weight (k,) and weighted coordinate sum (k, d) of every label."""
    mass = np.zeros(k)
    total = np.zeros((k, X.shape[1]))
    for row in range(X.shape[0]):
        label = labels[row]
        mass[label] += weights[row]
        for feature in range(X.shape[1]):
            total[label, feature] += weights[row] * X[row, feature]
    return mass, total


@_compiled
def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; a centre without mass stays where it is."""
    centers = centers.copy()
    labels, _ = assign(X, centers)
    for _ in range(max_iter):
        mass, total = sums(X, weights, labels, centers.shape[0])
        for center in range(centers.shape[0]):
            if mass[center] > 0:
                for feature in range(centers.shape[1]):
                    centers[center, feature] = total[center, feature] / mass[center]
        moved, _ = assign(X, centers)
        changed = False
        for row in range(X.shape[0]):
            if moved[row] != labels[row]:
                changed = True
                break
        if not changed:
            break
        labels = moved
    return centers, labels


@_compiled
def plus_plus(X: Floats, weights: Floats, draws: Floats) -> Ints:
    """Pick rows by weighted k-means++, one draw each; see the reference."""
    n, d = X.shape
    columns = np.empty((d, n))
    for row in range(n):
        for feature in range(d):
            columns[feature, row] = X[row, feature]
    nearest = np.full(n, np.inf)
    distance = np.empty(n)
    potential = weights.copy()
    cumulated = np.empty(n)
    picks = np.empty(draws.shape[0], dtype=np.int64)
    found = 0
    for draw in draws:
        total = 0.0
        end = 0
        for row in range(n):
            total += potential[row]
            cumulated[row] = total
        if not total > 0:
            break
        goal = draw * total
        end = np.searchsorted(cumulated, goal, side="right")
        if end >= n:
            end = n - 1
        while potential[end] == 0:
            end -= 1
        picks[found] = end
        found += 1
        for row in range(n):
            distance[row] = 0.0
        for feature in range(d):
            place = columns[feature, end]
            for row in range(n):
                difference = columns[feature, row] - place
                distance[row] += difference * difference
        for row in range(n):
            value = distance[row] if distance[row] < nearest[row] else nearest[row]
            nearest[row] = value
            potential[row] = weights[row] * value
    return picks[:found]
