# SPDX-License-Identifier: Apache-2.0
"""The two sets of kernels: right by hand-worked cases, equal bit for bit everywhere.

Run as they are, these tests compare NumPy with compiled code; with NUMBA_DISABLE_JIT=1
the native functions run as plain Python, and a coverage tool can see inside them.
"""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl import kernels
from afcl.exceptions import InputError
from afcl.kernels import (
    native,
    reference,
    reference_paper,
    reference_picks,
)

BACKENDS = pytest.mark.parametrize(
    "backend", [reference, native], ids=["reference", "native"]
)
PAPER = pytest.mark.parametrize(
    "backend", [reference_paper, native], ids=["reference", "native"]
)


def same_bits(left, right):
    """Assert equal dtypes, shapes and bits, in arrays or tuples of arrays."""
    if isinstance(left, tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same_bits(one, other)
        return
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert np.array_equal(left, right)
    assert left.tobytes() == right.tobytes()


def column(*values):
    """Points with one feature."""
    return np.array(values, dtype=np.float64)[:, None]


def floats_of(table):
    """Return a table of floats."""
    return np.array(table, dtype=np.float64)


# ------------------------------------------------------------- hand-worked cases


@BACKENDS
def test_squared_distances_by_hand(backend):
    # (0,0)-(3,4): 9 + 16; (0,0)-(1,1): 1 + 1; (1,0)-(3,4): 4 + 16; (1,0)-(1,1): 1
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    centers = np.array([[3.0, 4.0], [1.0, 1.0]])
    same_bits(
        backend.squared_distances(X, centers), np.array([[25.0, 2.0], [20.0, 1.0]])
    )


@BACKENDS
def test_assign_takes_the_lowest_index_on_ties(backend):
    # 1 lies between 0 and 2 (distance 1 each): index 0. 2 and its double: index 1.
    labels, nearest = backend.assign(column(1, 2, 5), column(0, 2, 2))
    assert labels.tolist() == [0, 1, 1]
    assert nearest.tolist() == [1.0, 0.0, 9.0]


@BACKENDS
def test_sums_by_hand(backend):
    # label 0: weights 1 + 3, 1*1 + 3*5 = 16 | label 1: none | label 2: 2, 2*4 = 8
    mass, total = backend.sums(
        column(1, 4, 5), np.array([1.0, 2.0, 3.0]), np.array([0, 2, 0]), 3
    )
    assert mass.tolist() == [4.0, 0.0, 2.0]
    assert total[:, 0].tolist() == [16.0, 0.0, 8.0]


@BACKENDS
def test_lloyd_by_hand(backend):
    # Weights 1, 1, 2, 1. From 0 and 1: {0}, {1, 9, 10} -> 0, (1 + 18 + 10)/4 = 7.25;
    # 1 is nearer to 0: {0, 1}, {9, 10} -> 0.5, (18 + 10)/3; then nothing changes.
    X, weights, start = (
        column(0, 1, 9, 10),
        np.array([1.0, 1.0, 2.0, 1.0]),
        column(0, 1),
    )
    centers, labels = backend.lloyd(X, weights, start, 10)
    assert centers[:, 0].tolist() == [0.5, 28 / 3]
    assert labels.tolist() == [0, 0, 1, 1]
    assert start[:, 0].tolist() == [0.0, 1.0]


@BACKENDS
def test_lloyd_stops_after_max_iter(backend):
    # As above, one move only; the labels belong to the centres that are returned.
    X, weights = column(0, 1, 9, 10), np.array([1.0, 1.0, 2.0, 1.0])
    centers, labels = backend.lloyd(X, weights, column(0, 1), 1)
    assert centers[:, 0].tolist() == [0.0, 7.25]
    assert labels.tolist() == [0, 0, 1, 1]
    unmoved, labels = backend.lloyd(X, weights, column(0, 1), 0)
    assert unmoved[:, 0].tolist() == [0.0, 1.0]
    assert labels.tolist() == [0, 1, 1, 1]


@BACKENDS
def test_lloyd_leaves_a_centre_without_mass_where_it_is(backend):
    # Nobody is near 50; what is near 90 weighs nothing.
    centers, labels = backend.lloyd(
        column(0, 2, 91), np.array([1.0, 1.0, 0.0]), column(1, 50, 90), 5
    )
    assert centers[:, 0].tolist() == [1.0, 50.0, 90.0]
    assert labels.tolist() == [0, 0, 2]


@BACKENDS
def test_valleys_by_hand(backend):
    # 5 and 25 are as near to two centres: the lower one's. From 0 to 10, t = 0, .15,
    # .5, .65, .95 and 2.5; from 10 to 0 1 - t of these; from 40 to 10 lie 6.5 at
    # 1.117, 9.5 at 1.017, 25 at .5 and 40 at 0.
    found = backend.valleys(
        column(0, 1.5, 5, 6.5, 9.5, 25, 40), 2.0 ** np.arange(7), column(0, 10, 40)
    )
    same_bits(found, floats_of([[4, 1, 16], [4, 16, 1], [32, 64, 16]]))


@BACKENDS
def test_the_edge_of_a_slab_is_inside(backend):
    # Along (0, 0) to (4, 3), squared length 25: (.5, .375) lies at 3.125/25 = .125,
    # (.4, .3) at 2.5/25 = .1, and what is at right angles does not matter.
    X = np.array([[0.5, 0.375], [0.4, 0.3], [-3.0, 4.0]])
    found = backend.valleys(X, np.array([1.0, 2.0, 4.0]), floats_of([[0, 0], [4, 3]]))
    same_bits(found, floats_of([[0, 6, 0], [0, 0, 6]]))


@BACKENDS
def test_valleys_where_the_nearest_centre_is_not_the_only_one(backend):
    # 10 lies between 0 and 20: its nearest is the first. 0 and its double count none;
    # the nearest of 5 is the first of both.
    ones = np.ones(3)
    found = backend.valleys(column(0, 10, 20), ones, column(0, 10, 20))
    same_bits(found, floats_of([[0, 1, 1], [0, 1, 1], [0, 1, 1]]))
    found = backend.valleys(column(0, 2.5, 5), ones, column(0, 0, 5))
    same_bits(found, floats_of([[0, 0, 0], [0, 0, 0], [1, 1, 1]]))
    same_bits(backend.valleys(column(1, 2), np.ones(2), column(1)), np.zeros((1, 3)))


@BACKENDS
def test_valleys_of_float32_rows_are_those_of_the_same_numbers(backend, seed):
    rng = np.random.default_rng(seed)
    X, centers = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(4, 3))
    found = backend.valleys(X, np.ones(50), centers)
    same_bits(found, backend.valleys(X.astype(float), np.ones(50), centers))


@given(data=st.data())
def test_valleys_count_rows_once_a_slab(data):
    # On a grid, where ties and edges of slabs abound.
    n, k, d = (data.draw(st.integers(*limits)) for limits in ((0, 12), (1, 5), (1, 3)))
    grid = st.integers(-4, 4).map(float)
    X = data.draw(arrays(np.float64, (n, d), elements=grid))
    centers = data.draw(arrays(np.float64, (k, d), elements=grid))
    weights = data.draw(arrays(np.float64, n, elements=st.floats(0, 9)))
    found = native.valleys(X, weights, centers)
    same_bits(found, reference.valleys(X, weights, centers))
    assert (found.sum(axis=1) <= weights.sum() * (1 + 1e-12)).all()
    parts = [
        reference.valleys(X[i::2], np.ones(X[i::2].shape[0]), centers) for i in (0, 1)
    ]
    same_bits(sum(parts), reference.valleys(X, np.ones(n), centers))


@BACKENDS
def test_silhouettes_by_hand(backend):
    # Clusters {0, 2} (centre 1, V = 1, O = 2) and {9, 11} (centre 10, V = 1, O = 2).
    # x = 0: a^2 = (1 + 1) * 2/1 = 4, b^2 = 100 + 1; simplified 1 - 1/10.
    # x = 2: a^2 = 4,                 b^2 = 64 + 1;  simplified 1 - 1/8.
    simplified, moment, squared = backend.silhouettes(
        column(0, 2), np.zeros(2), column(1, 10), np.ones(2), np.array([2.0, 2.0])
    )
    np.testing.assert_allclose(simplified, [0.9, 0.875], rtol=1e-15)
    np.testing.assert_allclose(
        moment, [1 - 2 / np.sqrt(101), 1 - 2 / np.sqrt(65)], rtol=1e-15
    )
    np.testing.assert_allclose(squared, [97 / 101, 61 / 65], rtol=1e-15)


@BACKENDS
def test_silhouettes_of_a_cell_add_its_variance(backend):
    # A cell at 1 with z/o = 3: a^2 = (0 + 3 + 1) * 2 = 8, b^2 = 81 + 3 + 1 = 85,
    # simplified 1 - sqrt(3 / 84).
    simplified, moment, squared = backend.silhouettes(
        column(1), np.array([3.0]), column(1, 10), np.ones(2), np.array([2.0, 2.0])
    )
    assert simplified[0] == pytest.approx(1 - np.sqrt(3 / 84), rel=1e-15)
    assert moment[0] == pytest.approx(1 - np.sqrt(8 / 85), rel=1e-15)
    assert squared[0] == pytest.approx(77 / 85, rel=1e-15)


@BACKENDS
def test_silhouettes_can_be_negative(backend):
    # x = 0 belongs to centre 1 but V = 100 there: a^2 = 101 * 2, b^2 = 4 + 0 = 4.
    _, moment, squared = backend.silhouettes(
        column(0), np.zeros(1), column(1, -2), np.array([100.0, 0.0]), np.full(2, 2.0)
    )
    assert moment[0] == pytest.approx((2 - np.sqrt(202)) / np.sqrt(202), rel=1e-15)
    assert squared[0] == pytest.approx((4 - 202) / 202, rel=1e-15)


@BACKENDS
def test_silhouettes_are_zero_where_they_are_not_defined(backend):
    # A cluster of one: both moment silhouettes 0, the simplified one is 1 - 0/10 = 1.
    simplified, moment, squared = backend.silhouettes(
        column(0), np.zeros(1), column(0, 10), np.zeros(2), np.array([1.0, 5.0])
    )
    assert (simplified[0], moment[0], squared[0]) == (1.0, 0.0, 0.0)
    # Everything in one place: a = b = 0.
    simplified, moment, squared = backend.silhouettes(
        column(0), np.zeros(1), column(0, 0), np.zeros(2), np.array([3.0, 5.0])
    )
    assert (simplified[0], moment[0], squared[0]) == (0.0, 0.0, 0.0)


@PAPER
def test_compete_by_hand(backend):
    # Seeds 0 and 3; rows 1, 1, 1. Nearest: always 0. With conscience (wins times
    # squared distance): 1*1 < 1*4 -> 0; 2*1 < 1*4 -> 0; 3*1 < 4 -> 0; 4*1 = 4: a tie,
    # 0 again; 5*1 > 4 -> 1.
    rows, seeds = column(1, 1, 1, 1, 1), column(0, 3)
    assert backend.compete(rows, seeds, True).tolist() == [0, 0, 0, 0, 1]
    assert backend.compete(rows, seeds, False).tolist() == [0, 0, 0, 0, 0]


@BACKENDS
def test_microaggregate_by_hand(backend):
    # Mean 34/6; 12 is farthest: it takes 11. 0 is farthest from 12: it takes 1.
    # Two rows are left, fewer than 4: the last group.
    rows = column(0, 12, 1, 11, 2, 8)
    assert backend.microaggregate(rows, 2).tolist() == [1, 0, 1, 0, 2, 2]
    # Five rows are fewer than 3 * 2: mean 6.4, 0 is farthest and takes 1; the rest.
    rows = column(0, 11, 1, 10, 10)
    assert backend.microaggregate(rows, 2).tolist() == [0, 1, 0, 1, 1]
    assert backend.microaggregate(rows, 3).tolist() == [0, 0, 0, 0, 0]
    assert backend.microaggregate(rows, 9).tolist() == [0, 0, 0, 0, 0]


@BACKENDS
def test_microaggregate_takes_the_lowest_index_on_ties(backend):
    # -1 and 1 are equally far from 0: the first starts, and takes -1, its double.
    # 1 is farthest from it. Then (0, 0) is left.
    rows = column(0, -1, 1, -1, 0, 1)
    assert backend.microaggregate(rows, 2).tolist() == [2, 0, 1, 0, 2, 1]
    # All in one place: groups in the order of the rows.
    rows = column(*[5] * 7)
    assert backend.microaggregate(rows, 2).tolist() == [0, 0, 1, 1, 2, 2, 2]


@BACKENDS
def test_microaggregate_survives_distances_beyond_64_bits(backend):
    # Squares overflow to infinity: all others are equally far, order decides.
    rows = column(0, 1e200, -1e200, 2e200, 3e200, 4e200)
    with np.errstate(over="ignore"):
        assert backend.microaggregate(rows, 3).tolist() == [0, 0, 0, 1, 1, 1]


@PAPER
def test_interact_by_hand(backend):
    # Rate 0.5, weight 1, seed 0 was sent at 0 and is now at 1; the row was 4:
    # r = 0.5 * 4 = 2, reach |r / 0.5|^2 = 16. Squared distances of 1, 3, 9 to anchor
    # 0: 1, 9, 81 -> the first two join; step 2 + 0.5 * (0 - m):
    # 1 + 1.5 = 2.5, 3 + 0.5 = 3.5.
    seeds, pulls = column(1, 3, 9), (np.array([0]), column(2.0))
    backend.interact(seeds, column(0, 3, 9), pulls, 1.0, 0.5, False)
    assert seeds[:, 0].tolist() == [2.5, 3.5, 9.0]


@PAPER
def test_intensities_by_hand(backend):
    # Seeds 0, 9, 4; rows 1, 3 belong to 4, rows 5, 7, 9 to 0, none to 9; rate 0.5.
    # Seed by seed: 5/2, 7/2, 9/2 of seed 0, then (1 - 4)/2, (3 - 4)/2 of seed 2.
    # Means 7 and 2, scatters 4 + 0 + 4 and 1 + 1; the empty cell has none.
    pulls = np.empty((5, 1))
    owners, counts, means, scatters = backend.intensities(
        column(1, 5, 7, 3, 9),
        column(0, 9, 4),
        np.array([2, 0, 0, 2, 0]),
        np.array([0.5]),
        pulls,
    )
    assert owners.tolist() == [0, 0, 0, 2, 2]
    assert pulls[:, 0].tolist() == [2.5, 3.5, 4.5, -1.5, -0.5]
    assert counts.tolist() == [3, 0, 2]
    assert means[:, 0].tolist() == [7.0, 0.0, 2.0]
    assert scatters.tolist() == [8.0, 0.0, 2.0]


@PAPER
def test_interact_affine_by_hand(backend):
    # Rate 0.5, weight 1. Seed 0 at 0 pulls with row 4: r = 2, reach 16; seed 3 is 9
    # away and joins, 9 is not. Both move half way, to 2 and 3.5; 0.5 * 4 is the part
    # of beta. Row 1 next: r = 0.5, reach 1; seed 1 is at 3.5 and stays; beta of seed 0
    # is 0.5 * 2 + 0.5 * 1.
    seeds = column(0, 3, 9)
    counts, places = backend.interact_affine(
        seeds, np.array([0, 0]), column(2.0, 0.5), 1.0, 0.5
    )
    assert counts.tolist() == [2, 1, 0]
    assert places[:, 0].tolist() == [1.5, 2.0, 0.0]
    assert seeds[:, 0].tolist() == [0.0, 3.0, 9.0]


@PAPER
@pytest.mark.parametrize("current", [False, True])
def test_interact_asks_again_for_seeds_that_moved(backend, current):
    # Weight 1, rate 0.5. Row 4 pulls seed 0 (at 0) and seed 1 (at 3) to 2 and 3.5.
    # Then row 3 of the same owner, r = 1.5 (reach 9): with anchor 0 seed 1 is 12.25
    # away and stays, with anchor 2 it is 2.25 away and moves by 1.5 + 0.5 (2 - 3.5).
    seeds, sent = column(0, 3), column(0, 3)
    pulls = np.array([0, 0]), column(2.0, 1.5)
    backend.interact(seeds, sent, pulls, 1.0, 0.5, current)
    expected = [3.5, 4.25] if current else [2.5, 3.5]
    assert seeds[:, 0].tolist() == expected


@PAPER
def test_interact_with_the_current_anchor(backend):
    # Anchor 1: squared distances 0, 4, 64, reach 16; step 2 + 0.5 * (1 - m):
    # 1 + 2 = 3, 3 + 1 = 4.
    seeds, pulls = column(1, 3, 9), (np.array([0]), column(2.0))
    backend.interact(seeds, column(0, 3, 9), pulls, 1.0, 0.5, True)
    assert seeds[:, 0].tolist() == [3.0, 4.0, 9.0]


@PAPER
def test_interact_always_moves_the_owner(backend):
    # The owner has drifted out of its own reach (5 > |0.5 / 0.5|): weight 0.5,
    # step 0.5 * 0.5 + 0.25 * (0 - 5) = -1.
    seeds, pulls = column(5, 7), (np.array([0]), column(0.5))
    backend.interact(seeds, column(0, 7), pulls, 0.5, 0.5, False)
    assert seeds[:, 0].tolist() == [4.0, 7.0]


@PAPER
def test_interact_matlab_by_hand(backend):
    # Row 2, seeds 0, 1, 9: squared distances 4, 1, 49, the winner is 1 (reach 1).
    # Seed 0 is 1 away from it and joins. Step 0.5: 0 -> 1, 1 -> 1.5.
    # Row 1 next: distances 0, 0.25 with wins 1, 2: the winner is seed 0 (reach 0);
    # seed 1 is 0.25 away: not within 0, but within near = 0.25: 1.5 -> 1.25.
    seeds = column(0, 1, 9)
    backend.interact_matlab(seeds, column(2, 1), np.array([0.5]), 0.25)
    assert seeds[:, 0].tolist() == [1.0, 1.25, 9.0]


# -------------------------------------------------------------------- parity


def problem(seed, n, k, d):
    """Draw rows, centres and everything else a kernel may ask for."""
    rng = np.random.default_rng(seed)
    return {
        "X": rng.normal(size=(n, d)),
        "centers": rng.normal(size=(k, d)),
        "weights": rng.integers(0, 4, n).astype(np.float64),
        "labels": rng.integers(0, k, n),
        "variances": rng.random(n),
        "spreads": rng.random(k),
        "counts": rng.integers(1, 5, k).astype(np.float64),
        "sent": rng.normal(size=(k, d)),
        "steps": rng.random(d),
        "draws": rng.random(k),
    }


def run_all(module, case):
    """Return the results of every kernel of a module, by name."""
    X, centers = case["X"], case["centers"]
    k = centers.shape[0]
    found = {
        "squared_distances": module.squared_distances(X, centers),
        "assign": module.assign(X, centers),
        "sums": module.sums(X, case["weights"], case["labels"], k),
        **run_paper(reference_paper if module is reference else module, case),
    }
    for smallest in (1, 3):
        found[f"microaggregate-{smallest}"] = module.microaggregate(X, smallest)
    for max_iter in (0, 1, 20):
        found[f"lloyd-{max_iter}"] = module.lloyd(X, case["weights"], centers, max_iter)
    if k > 1:  # the silhouettes of a single cluster are out of contract
        found["silhouettes"] = module.silhouettes(
            X, case["variances"], centers, case["spreads"], case["counts"]
        )
        found["silhouettes-objects"] = module.silhouettes(
            X, np.zeros(X.shape[0]), centers, np.zeros(k), case["counts"]
        )
    found["valleys"] = module.valleys(X, case["weights"], centers)
    found["scaled"] = module.scaled(
        X, centers[0], 1.0 + case["spreads"][0] * centers[0] ** 2
    )
    picks = reference_picks if module is reference else native
    found["plus_plus"] = picks.plus_plus(X, case["weights"], case["draws"])
    bounds = np.array([0, 1, k] if k > 1 else [0, 1])
    for score in (0, 1, 2) if k > 2 else (0,):  # two centres have silhouettes
        scores = np.array([0, score])[: bounds.shape[0] - 1]
        found[f"tally-{score}"] = module.tally(
            X, centers, bounds, scores, case["spreads"], case["counts"]
        )
    joined = module.ward(case["counts"], centers)
    found["ward"] = joined
    counts = np.bincount(case["labels"], minlength=k)
    if counts.any():  # seeds of no rows at all are out of contract
        found["join_seeds"] = module.join_seeds(counts, centers, 3)
    found["crowding"] = np.array(module.crowding(case["spreads"], centers))
    if X.shape[0]:
        path = module.levels(
            (X, case["weights"] + 1.0, case["variances"]),
            (centers, case["counts"]),
            joined[:2],
            k - 1 if k > 3 else k,
            5,
        )
        for place, (counts, means, scatters, *totals) in enumerate(path):
            level = (counts, means, scatters, np.array(totals))
            found[f"level-{place}"] = level
    return found


def run_paper(module, case):
    """Return the results of the paper's kernels, by name."""
    X, centers, labels = case["X"], case["centers"], case["labels"]
    conscience = [module.compete(X, centers, yes) for yes in (True, False)]
    found = {"compete": tuple(conscience)}
    pulls = np.empty(X.shape)
    cells = module.intensities(X, centers, labels, case["steps"], pulls)
    found["intensities"] = (*cells, pulls)
    found["interact_affine"] = module.interact_affine(centers, labels, X, 0.7, 0.1)
    for current in (False, True):
        seeds = centers.copy(order="K")
        module.interact(seeds, case["sent"], (labels, X), 0.7, 0.1, current)
        found[f"interact-{current}"] = seeds
    seeds = centers.copy(order="K")
    module.interact_matlab(seeds, X, case["steps"], 1e-4)
    found["interact_matlab"] = seeds
    return found


def check_parity(case):
    """Assert that both modules give the same bits and leave their inputs alone."""
    before = {name: array.copy() for name, array in case.items()}
    expected, found = run_all(reference, case), run_all(native, case)
    assert expected.keys() == found.keys()
    for name in expected:
        same_bits(found[name], expected[name])
    for name, array in case.items():
        same_bits(np.ascontiguousarray(array), np.ascontiguousarray(before[name]))


@pytest.mark.parametrize(
    ("n", "k", "d"),
    [(40, 5, 3), (1, 1, 1), (1, 4, 2), (30, 1, 3), (25, 4, 1), (3, 9, 2), (0, 3, 2)],
    ids=lambda value: str(value),
)
def test_parity_on_random_problems(seed, n, k, d):
    check_parity(problem(seed, n, k, d))


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 1e8, 1e150])
def test_parity_at_every_magnitude(seed, scale):
    case = problem(seed, 12, 3, 2)
    for name in ("X", "centers", "sent"):
        case[name] *= scale
    check_parity(case)


def duplicated(case):
    case["X"][:] = np.repeat(case["X"][:5], 4, axis=0)


def duplicated_centres(case):
    case["centers"][1:3] = case["centers"][0]


def zero_distances(case):
    case["X"][:4] = case["centers"]
    case["variances"][:] = 0.0
    case["spreads"][:] = 0.0


def all_in_one_place(case):
    for name in ("X", "centers", "sent"):
        case[name][:] = 1.5
    case["variances"][:] = 0.0
    case["spreads"][:] = 0.0


def empty_clusters(case):
    case["centers"][1:3] = 1e3
    case["labels"][:] = 3


def ties(case):
    case["X"][:] = np.arange(20)[:, None] % 3
    case["centers"][:] = np.array([0.0, 2.0, 2.0, 0.0])[:, None]


def clusters_of_one(case):
    case["counts"][:] = 1.0


def without_weight(case):
    case["weights"][:] = 0.0


@pytest.mark.parametrize(
    "degenerate",
    [
        duplicated,
        duplicated_centres,
        zero_distances,
        all_in_one_place,
        empty_clusters,
        ties,
        clusters_of_one,
        without_weight,
    ],
    ids=lambda change: change.__name__,
)
def test_parity_on_degenerate_problems(seed, degenerate):
    case = problem(seed, 20, 4, 2)
    degenerate(case)
    check_parity(case)


def strided(array):
    return np.repeat(array, 2, axis=0)[::2]


def reversed_view(array):
    return np.ascontiguousarray(array[::-1])[::-1]


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, strided, reversed_view],
    ids=["columns-first", "strided", "reversed"],
)
def test_the_layout_in_memory_does_not_show(seed, layout):
    """Compiled only for the rows, which are a user's; everything else is ours."""
    plain = problem(seed, 12, 3, 2)
    check_parity({**plain, "X": layout(plain["X"])})
    laid = {name: layout(array) for name, array in plain.items()}
    expected, found = run_all(reference, plain), run_all(reference, laid)
    for name in expected:
        same_bits(found[name], expected[name])


POINT = st.one_of(
    st.integers(-2, 2).map(float),  # ties and coincidences
    st.floats(-1e3, 1e3, allow_nan=False),
)


@st.composite
def problems(draw):
    n, k, d = draw(st.integers(0, 7)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    share = st.one_of(st.just(0.0), st.floats(0, 10))
    return {
        "X": draw(arrays(np.float64, (n, d), elements=POINT)),
        "centers": draw(arrays(np.float64, (k, d), elements=POINT)),
        "weights": draw(arrays(np.float64, n, elements=share)),
        "labels": draw(arrays(np.int64, n, elements=st.integers(0, k - 1))),
        "variances": draw(arrays(np.float64, n, elements=share)),
        "spreads": draw(arrays(np.float64, k, elements=share)),
        "counts": draw(arrays(np.float64, k, elements=st.integers(1, 4).map(float))),
        "sent": draw(arrays(np.float64, (k, d), elements=POINT)),
        "steps": draw(arrays(np.float64, d, elements=st.floats(0, 1))),
        "draws": draw(
            arrays(np.float64, k, elements=st.floats(0, 1, exclude_max=True))
        ),
    }


@given(problems())
def test_parity_on_anything(case):
    check_parity(case)


# ------------------------------------------------------------------ dispatch


ROWS, CENTERS = np.zeros((8, 2)), np.zeros((4, 2))
PARENTS = np.zeros(8, dtype=np.int64)
CALLS = {
    "squared_distances": (ROWS, CENTERS),
    "assign": (ROWS, CENTERS),
    "sums": (ROWS, np.ones(8), np.zeros(8, dtype=np.int64), 4),
    "lloyd": (ROWS, np.ones(8), CENTERS, 3),
    "microaggregate": (ROWS, 2),
    "plus_plus": (ROWS, np.ones(8), np.zeros(4)),
    "scaled": (ROWS, np.zeros(2), np.ones(2)),
    "tally": (ROWS, CENTERS, np.array([0, 4]), np.zeros(1), np.zeros(4), np.ones(4)),
    "valleys": (ROWS, np.ones(8), CENTERS),
    "crowding": (np.ones(4), CENTERS),
    "ward": (np.ones(4), CENTERS),
    "ward_of_distances": (np.ones(4), np.zeros((4, 4))),
    "shortest_ways": (np.zeros((4, 4)),),
    "join_seeds": (np.ones(4, dtype=np.int64), CENTERS, 2),
    "nearest_inside": (ROWS, PARENTS, np.array([0, 2, 4]), CENTERS),
    "halved": (ROWS, np.ones(8), PARENTS, np.zeros(8, dtype=bool), 2),
    "sums_around": (ROWS, PARENTS, CENTERS),
    "levels": (
        (ROWS, np.ones(8), np.zeros(8)),
        (CENTERS, np.ones(4)),
        (np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)),
        4,
        3,
    ),
    "silhouettes": (ROWS, np.zeros(8), CENTERS, np.zeros(4), np.ones(4)),
    "compete": (ROWS, CENTERS, True),
    "interact": (
        CENTERS,
        CENTERS,
        (np.zeros(8, dtype=np.int64), ROWS),
        1.0,
        0.1,
        False,
    ),
    "intensities": (
        ROWS,
        CENTERS,
        np.zeros(8, dtype=np.int64),
        np.ones(2),
        np.empty((8, 2)),
    ),
    "interact_affine": (CENTERS, np.zeros(8, dtype=np.int64), ROWS, 1.0, 0.1),
    "interact_matlab": (CENTERS, ROWS, np.ones(2), 1e-4),
}
#: Whose work is counted in rows times seeds, and the work of the calls above.
SEQUENTIAL = dict.fromkeys(
    ("compete", "intensities", "interact", "interact_affine", "interact_matlab"), 32
)
WORK = {
    **dict.fromkeys(CALLS, 8 * 4 * 2),
    "scaled": 8 * 2,
    "sums": 8 * 2,
    "sums_around": 8 * 2,
    "microaggregate": 8 * 2 * 8 // 2,
    "crowding": 4 * 4 * 2,
    "ward": 4 * 4 * 2,
    "ward_of_distances": 4 * 4,
    "join_seeds": 4 * 4 * 2,
    **SEQUENTIAL,
}


def reached(monkeypatch, name):
    """Return which backend the public function reaches (by its spy's result)."""
    seen = []
    numpy = sys.modules[getattr(kernels, name).__wrapped__.__module__]
    for module, label in ((numpy, "reference"), (native, "native")):
        monkeypatch.setattr(module, name, lambda *_, label=label: seen.append(label))
    getattr(kernels, name)(*CALLS[name])
    return seen


@pytest.mark.parametrize(("k", "d"), [(1, 2), (9, 1), (40, 3), (30, 12)])
def test_joined_seeds(seed, k, d):
    rng = np.random.default_rng(seed)
    seeds = np.round(rng.normal(0, 2, (k, d)), 1)
    counts = rng.integers(0, 6, k)
    counts[0] += 1
    ours = reference.join_seeds(counts, seeds, 5)
    assert np.array_equal(native.join_seeds(counts, seeds, 5), ours)
    held = np.bincount(ours, weights=counts)
    assert held.min() >= min(5, counts.sum())


def test_every_kernel_is_public():
    assert sorted(CALLS) == sorted(kernels.__all__)


@pytest.mark.parametrize("choice", ["reference", "native"])
@pytest.mark.parametrize("name", CALLS)
def test_the_environment_overrides_the_choice(monkeypatch, name, choice):
    monkeypatch.setenv("AFCL_KERNELS", choice)
    assert reached(monkeypatch, name) == [choice]


@pytest.mark.parametrize("environment", ["auto", None])
@pytest.mark.parametrize("name", CALLS)
def test_large_work_is_compiled(monkeypatch, name, environment):
    if environment is None:
        monkeypatch.delenv("AFCL_KERNELS", raising=False)
    else:
        monkeypatch.setenv("AFCL_KERNELS", environment)
    limit = "LARGE_SEQUENTIAL" if name in SEQUENTIAL else "LARGE"
    monkeypatch.setattr(kernels, "_loaded", lambda: False)
    monkeypatch.setattr(kernels, limit, WORK[name])
    assert reached(monkeypatch, name) == ["native"]
    monkeypatch.setattr(kernels, limit, WORK[name] + 1)
    assert reached(monkeypatch, name) == ["reference"]


@pytest.mark.parametrize("name", CALLS)
def test_less_work_is_enough_once_the_compiled_kernels_are_there(monkeypatch, name):
    monkeypatch.setenv("AFCL_KERNELS", "auto")
    monkeypatch.setattr(kernels, "LARGE_LOADED", WORK[name])
    assert reached(monkeypatch, name) == ["native"]
    monkeypatch.setattr(kernels, "LARGE_LOADED", WORK[name] + 1)
    assert reached(monkeypatch, name) == ["reference"]


def test_kernels_are_found_where_they_are_public():
    for name in kernels.__all__:
        kernel = getattr(kernels, name)
        assert pickle.loads(pickle.dumps(kernel)) is kernel
        assert kernel.__doc__


@pytest.mark.parametrize("choice", ["reference", "native"])
def test_the_choice_does_not_show_in_a_result(monkeypatch, seed, choice):
    monkeypatch.setenv("AFCL_KERNELS", choice)
    case = problem(seed, 15, 3, 2)
    expected, found = run_all(reference, case), run_all(kernels, case)
    for name in expected:
        same_bits(found[name], expected[name])


def test_an_unknown_choice_is_refused(monkeypatch):
    monkeypatch.setenv("AFCL_KERNELS", "fortran")
    with pytest.raises(InputError, match="AFCL_KERNELS is 'fortran': set it to auto"):
        kernels.assign(np.zeros((1, 1)), np.zeros((1, 1)))


def test_interact_matlab_takes_a_step_per_row(seed):
    rng = np.random.default_rng(seed)
    start, rows = rng.random((5, 3)), rng.random((40, 3))
    steps = 0.1 * rng.random((40, 3))
    moved = [start.copy(), start.copy()]
    for seeds, module in zip(moved, (reference_paper, native), strict=True):
        module.interact_matlab(seeds, rows, steps, 1e-4)
    assert np.array_equal(moved[0], moved[1])
    same = [start.copy(), start.copy()]
    reference_paper.interact_matlab(same[0], rows, steps[0], 1e-4)
    reference_paper.interact_matlab(same[1], rows, np.tile(steps[0], (40, 1)), 1e-4)
    assert np.array_equal(same[0], same[1])
