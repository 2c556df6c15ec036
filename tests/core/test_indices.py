# SPDX-License-Identifier: Apache-2.0
"""The indices against scikit-learn and by hand, and the rule that chooses k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    silhouette_samples,
    silhouette_score,
)

from afcl.core import indices
from afcl.core.cells import cells_of, pool, union
from afcl.core.indices import INDICES, Partition, choose, goodness
from afcl.core.protocol import PathLevel
from afcl.core.seeding import plus_plus
from afcl.kernels import lloyd, silhouettes
from afcl.registry import criteria


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def partition(seed, n=150, d=3, k=5):
    """Rows and labels where every centre is the mean of the rows nearest to it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 5 * rng.integers(0, 4, size=(n, 1))
    centers, labels = lloyd(X, np.ones(n), X[plus_plus(X, k, rng)], 500)
    return X, labels, centers


def floats(*values):
    return np.array(values, dtype=np.float64)


def parted(counts, means, scatters):
    return Partition(counts, means, scatters, np.nan, np.nan)


def calinski_harabasz(counts, means, scatters):
    return indices.calinski_harabasz(parted(counts, means, scatters))


def davies_bouldin(counts, means, scatters):
    return indices.davies_bouldin(parted(counts, means, scatters))


def bic(counts, scatters, d):
    return indices.bic(parted(counts, np.zeros((len(counts), d)), scatters))


# --------------------------------------------------------------- silhouettes


@pytest.mark.parametrize("k", [2, 3, 8])
def test_without_roots_it_is_the_silhouette_of_squared_distances(seed, k):
    X, labels, centers = partition(seed, k=k)
    cells = cells_of(X, labels, k)
    _, _, squared = silhouettes(
        X,
        np.zeros(X.shape[0]),
        centers,
        cells.scatters / cells.counts,
        cells.counts.astype(float),
    )
    expected = silhouette_samples(X, labels, metric="sqeuclidean")
    np.testing.assert_allclose(squared, expected, atol=1e-9, rtol=0)
    score = silhouette_score(X, labels, metric="sqeuclidean")
    assert squared.mean() == pytest.approx(score, abs=1e-9)


def test_a_cluster_of_one_counts_zero_as_in_scikit_learn():
    X, labels = column(0, 1, 2, 50), np.array([0, 0, 0, 1])
    _, moment, squared = silhouettes(
        X, np.zeros(4), column(1, 50), floats(2 / 3, 0), floats(3, 1)
    )
    expected = silhouette_samples(X, labels, metric="sqeuclidean")
    np.testing.assert_allclose(squared, expected, atol=1e-12)
    assert moment[3] == squared[3] == 0.0


# ---------------------------------------------------------- Calinski-Harabasz


def test_calinski_harabasz_by_hand():
    # {0, 2} and {9, 11}: middle 5.5; between 2 * 2 * 4.5^2 = 81, within 2 + 2;
    # 81 * (4 - 2) / (4 * 1) = 40.5.
    assert calinski_harabasz(floats(2, 2), column(1, 10), floats(2, 2)) == 40.5


def test_calinski_harabasz_is_scikit_learns_pooled(seed):
    X, labels, centers = partition(seed)
    cells = cells_of(X, labels, centers.shape[0])
    found = calinski_harabasz(cells.counts.astype(float), cells.means, cells.scatters)
    assert found == pytest.approx(calinski_harabasz_score(X, labels), rel=1e-9)


def test_calinski_harabasz_is_scikit_learns_from_several_clients(seed):
    X, labels, centers = partition(seed)
    k = centers.shape[0]
    owner = np.random.default_rng(seed).integers(0, 4, X.shape[0])
    every = [cells_of(X[owner == g], labels[owner == g], k) for g in range(4)]
    cluster = np.concatenate([np.unique(labels[owner == g]) for g in range(4)])
    found = calinski_harabasz(*pool(union(every), cluster, k))
    assert found == pytest.approx(calinski_harabasz_score(X, labels), rel=1e-9)


def test_calinski_harabasz_where_it_is_not_defined():
    assert calinski_harabasz(floats(3), column(1), floats(2)) is None  # k = 1
    assert calinski_harabasz(floats(1, 1), column(0, 1), floats(0, 0)) is None  # n = k


def test_calinski_harabasz_without_scatter_is_one_as_in_scikit_learn():
    X, labels = column(0, 0, 3, 3), np.array([0, 0, 1, 1])
    found = calinski_harabasz(floats(2, 2), column(0, 3), floats(0, 0))
    assert found == calinski_harabasz_score(X, labels) == 1.0


# -------------------------------------------------------------- Davies-Bouldin


def test_davies_bouldin_by_hand():
    # Radii sqrt(2/2) = 1, sqrt(8/2) = 2, sqrt(0/3) = 0 at 0, 10, 16.
    # Ratios (1+2)/10 = .3, (1+0)/16, (2+0)/6 = 1/3: the worst of each is
    # .3, 1/3, 1/3.
    found = davies_bouldin(floats(2, 2, 3), column(0, 10, 16), floats(2, 8, 0))
    assert found == pytest.approx((0.3 + 1 / 3 + 1 / 3) / 3, rel=1e-15)


def test_davies_bouldin_is_scikit_learns_where_radii_agree(seed):
    # In clusters of two rows the mean distance to the mean is the root mean square.
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(6), 2)
    X = rng.normal(size=(12, 3)) + 3 * labels[:, None]
    cells = cells_of(X, labels, 6)
    found = davies_bouldin(cells.counts.astype(float), cells.means, cells.scatters)
    assert found == pytest.approx(davies_bouldin_score(X, labels), rel=1e-9)


def test_davies_bouldin_edges():
    assert davies_bouldin(floats(3), column(1), floats(2)) is None
    # Coincident centres: the distance is floored at 1e-12.
    found = davies_bouldin(floats(1, 1), column(1, 1), floats(1, 1))
    assert found == pytest.approx(2e12)


# ------------------------------------------------------------------------ BIC


def test_bic_by_hand():
    # n = 4, d = 1, variance (2 + 2)/4 = 1: fit 0; shares 4 ln(1/2);
    # parameters 2 * 2/2 * ln 4 = 4 ln 2: -8 ln 2 in all.
    found = bic(floats(2, 2), floats(2, 2), 1)
    assert found == pytest.approx(-8 * np.log(2), rel=1e-15)


def test_bic_by_hand_with_two_features():
    # n = 4, d = 2, variance (12 + 4)/8 = 2: fit -4 ln 2; shares 3 ln(3/4) + ln(1/4);
    # parameters 2 * 3/2 * ln 4.
    expected = -4 * np.log(2) + 3 * np.log(0.75) + np.log(0.25) - 3 * np.log(4)
    assert bic(floats(3, 1), floats(12, 4), 2) == pytest.approx(expected, rel=1e-15)


def test_bic_floors_the_variance():
    # n d/2 = 2: -2 ln 1e-12 = 24 ln 10.
    found = bic(floats(4), floats(0), 1)
    assert found == pytest.approx(24 * np.log(10) - np.log(4), rel=1e-15)


def free_bic(counts, scatters, d):
    means = np.zeros((counts.shape[0], d))
    return indices.free_bic(Partition(counts, means, scatters, 0.0, 0.0))


def test_free_bic_by_hand():
    # n = 8, d = 2, variances 12/(3 * 2) = 2 and 6/(3 * 2) = 1: fit -4 * 2/2 * ln 2;
    # shares 8 ln(1/2); parameters 2 * 4 - 1 = 7, half of them times ln 8 = 3 ln 2.
    found = free_bic(floats(4, 4), floats(12, 6), 2)
    assert found == pytest.approx((-4 - 8 - 10.5) * np.log(2), rel=1e-15)
    # n = 8, d = 1, variances 4/2 and 4/4: -3/2 ln 2; parameters 2 * 3 - 1 = 5.
    found = free_bic(floats(3, 5), floats(4, 4), 1)
    shares = 3 * np.log(3 / 8) + 5 * np.log(5 / 8)
    expected = -1.5 * np.log(2) + shares - 2.5 * np.log(8)
    assert found == pytest.approx(expected, rel=1e-15)


def test_free_bic_of_single_rows_and_of_equal_ones():
    # A row alone has half a degree of freedom: variance 1/.5 = 2, and 3/(2 - 1).
    found = free_bic(floats(1, 2), floats(1, 3), 1)
    fit = -0.5 * np.log(2) - np.log(3)
    shares = np.log(1 / 3) + 2 * np.log(2 / 3)
    assert found == pytest.approx(fit + shares - 2.5 * np.log(3), rel=1e-15)
    # Equal rows: variance 1e-12, -2 ln 1e-12 = 24 ln 10; parameters 3 - 1 = 2.
    found = free_bic(floats(4), floats(0), 1)
    assert found == pytest.approx(24 * np.log(10) - np.log(4), rel=1e-15)


# ------------------------------------------------------------------ the rule


def level(k, silhouette=0.0, bic=0.0, simplified=0.0, ch=0.0, db=0.0, free_bic=0.0):
    scores = {
        "silhouette": silhouette,
        "simplified": simplified,
        "ch": ch,
        "db": db,
        "bic": bic,
        "free_bic": free_bic,
    }
    return PathLevel(k, np.zeros((k, 1)), np.ones(k), scores)


def test_outside_the_band_the_silhouette_decides():
    # Only k = 3 lies within .01 of the best; the others win everything else.
    levels = [level(2, 0.5, 9, 9), level(3, 0.6, 0, 0), level(4, 0.58, 9, 9)]
    assert choose(levels, "auto", 0.01, 20) == 1


def test_the_edge_of_the_band_is_inside():
    # Of the second silhouette .02 ln 3 is taken, of the first .02 ln 2.
    levels = [level(2, 0.75, 0, 0), level(3, 0.5, 1, 1)]
    behind = 0.25 + 0.02 * np.log(1.5)
    assert choose(levels, "auto", behind + 1e-12, 20) == 1
    assert choose(levels, "auto", behind - 1e-4, 20) == 0
    assert choose(levels, "auto", 0.0, 20) == 0


def test_a_finer_level_has_to_be_better_by_its_price():
    """Of 20 times as many clusters .02 ln 20 = .06, whatever the other indices say."""
    coarse = level(2, 0.40, 0, 0)
    assert choose([coarse, level(40, 0.44, 9, 9)], "auto", 0.01, 200) == 0
    assert choose([coarse, level(40, 0.48, 9, 9)], "auto", 0.01, 200) == 1
    assert choose([coarse, level(40, 0.44, 9, 9)], "silhouette", 0.01, 200) == 1


def test_in_the_band_normalised_bic_and_simplified_silhouette_add_up():
    # BIC -100 -10 -30 -> -1 0 -.222; simplified .9 .5 .8 -> 0 -1 -.25:
    # sums -1, -1, -.472.
    levels = [
        level(2, 0.600, -100, 0.9),
        level(3, 0.605, -10, 0.5),
        level(4, 0.604, -30, 0.8),
    ]
    assert choose(levels, "auto", 0.01, 20) == 2


def test_levels_outside_the_band_do_not_stretch_the_scale():
    # Inside: BIC 0, 10 and simplified .5, .8 -> the second wins both. A level outside
    # with a huge BIC takes no part.
    levels = [
        level(2, 0.60, 0, 0.5),
        level(3, 0.60, 10, 0.8),
        level(4, 0.10, 1e9, 0.9),
    ]
    assert choose(levels, "auto", 0.01, 20) == 1


def test_two_levels_that_disagree_tie_and_the_larger_bic_wins():
    # Normalised sums 0 - 1 and -1 + 0, but for the 1e-12 in the denominators: with
    # ranges of .01 and .8 they are -1 + 1e-10 and -1 + 1e-12, a tie all the same.
    levels = [level(2, 0.6, -4.01, 0.9), level(3, 0.6, -4.00, 0.1)]
    assert choose(levels, "auto", 0.01, 20) == 1
    levels = [level(2, 0.6, -4.00, 0.1), level(3, 0.6, -4.01, 0.9)]
    assert choose(levels, "auto", 0.01, 20) == 0


def test_equal_levels_tie_and_the_smaller_k_wins():
    assert choose([level(7), level(4), level(5)], "auto", 0.01, 20) == 1


def test_a_single_level_is_chosen():
    for criterion in criteria():
        assert choose([level(3, 0.2, -7, 0.1, 5, 2)], criterion, 0.01, 20) == 0


@pytest.mark.parametrize(
    ("criterion", "winner"),
    [
        ("silhouette", 0),
        ("simplified", 1),
        ("ch", 2),
        ("db", 3),
        ("bic", 4),
        ("free_bic", 5),
    ],
)
def test_each_criterion_alone(criterion, winner):
    # Each level is the best by one index; Davies-Bouldin is better when smaller.
    levels = [
        level(2, 1, 0, 0, 0, 5),
        level(3, 0, 0, 1, 0, 5),
        level(4, 0, 0, 0, 1, 5),
        level(5, 0, 0, 0, 0, 1),
        level(6, 0, 1, 0, 0, 5),
        level(7, 0, 0, 0, 0, 5, 1),
    ]
    assert choose(levels, criterion, 0.01, 20) == winner


@pytest.mark.parametrize("criterion", list(INDICES))
def test_a_criterion_alone_ties_to_the_smaller_k(criterion):
    assert choose([level(5), level(3), level(4)], criterion, 0.01, 20) == 1


def with_valleys(k, deep, free_bic, rows=10.0, d=1, **scores):
    """Return a level of which so many clusters have a valley, 3/4 deep."""
    whole = level(k, free_bic=free_bic, **{"silhouette": 0.45, **scores})
    found = np.tile([3.0, 5.0, 9.0], (k, 1))
    found[deep:, 0] = 3.01
    sizes = np.full(k, rows)
    return replace(whole, centers=np.zeros((k, d)), sizes=sizes, valleys=found)


def test_how_deep_valleys_are_by_hand():
    # (3 + 3)/(min(9, 5) + 3) = 3/4; (0 + 3)/(9 + 3); no rows at all: 1.
    found = indices.depths(
        np.array([[3.0, 9.0, 5.0], [0.0, 9.0, 9.0], [0.0, 0.0, 0.0]])
    )
    assert found.tolist() == [0.75, 0.25, 1.0]


def test_the_likeliest_level_wins_if_valleys_confirm_it():
    # k = 2 wins by today's rule, k = 10 by the BIC of own variances.
    coarse = with_valleys(2, 2, 0.0, silhouette=0.6)
    assert choose([coarse, with_valleys(10, 7, 5.0)], "auto", 0.01, 20) == 1
    assert choose([coarse, with_valleys(10, 6, 5.0)], "auto", 0.01, 20) == 0
    assert choose([coarse, with_valleys(10, 10, -5.0)], "auto", 0.01, 20) == 0
    # Other criteria do not ask.
    levels = [coarse, with_valleys(10, 10, 5.0)]
    assert choose(levels, "silhouette", 0.01, 20) == 0


def test_unless_valleys_of_the_likeliest_level_are_known_the_band_decides():
    coarse, fine = with_valleys(2, 2, 0.0, silhouette=0.6), with_valleys(10, 10, 5.0)
    for unknown in (np.empty((0, 3)), fine.valleys[1:]):
        levels = [coarse, replace(fine, valleys=unknown)]
        assert choose(levels, "auto", 0.01, 20) == 0
    # Those of others are not asked for.
    levels = [replace(coarse, valleys=np.empty((0, 3))), fine]
    assert choose(levels, "auto", 0.01, 20) == 1


@pytest.mark.parametrize(("likelier", "winner"), [(5.9, 0), (6.1, 1)])
def test_clusters_without_a_row_between_them_are_not_cut_further(likelier, winner):
    """A hundred rows: six nats more have to be gained, and (0 + 3)/(9 + 3) = 1/4."""
    clear, finer = with_valleys(10, 10, 5.0), with_valleys(11, 11, 5.0 + likelier)
    clear = replace(clear, valleys=np.tile([0.0, 9.0, 9.0], (10, 1)))
    finer = replace(finer, sizes=np.full(11, 100 / 11))
    assert choose([clear, finer], "auto", 0.01, 20) == winner
    # One row in the middle of a single pair is enough to look for more.
    clear.valleys[3, 0] = 1.0
    assert choose([clear, finer], "auto", 0.01, 20) == 1


def test_of_several_clear_levels_the_likeliest_wins():
    levels = [with_valleys(k, k, float(k)) for k in (3, 5, 4)]
    levels = [replace(e, valleys=np.tile([0.0, 9.0, 9.0], (e.k, 1))) for e in levels]
    rows = [replace(level, sizes=np.full(level.k, 100 / level.k)) for level in levels]
    assert choose(rows, "auto", 0.01, 20) == 1


def test_six_of_ten_valleys_confirm_a_level_if_they_are_deep():
    """With four of v = 1 the average of ten is v^.6, at most .64 if v <= .475."""
    coarse, fine = with_valleys(2, 2, 0.0, silhouette=0.6), with_valleys(10, 6, 5.0)

    def winner(middle, share=6, between=50.0):
        clear = np.tile([middle, 50.0, 50.0], (share, 1))
        touching = np.tile([between, 50.0, 50.0], (10 - share, 1))
        valleys = np.concatenate([clear, touching])
        return choose([coarse, replace(fine, valleys=valleys)], "auto", 0.01, 20)

    assert winner(22.0) == 1  # (22 + 3)/(50 + 3)
    assert winner(23.0) == 0
    assert winner(0.0, share=5) == 0  # however deep
    # More rows between two than in them: halves of one, however far the others are.
    assert winner(0.0, between=51.0) == 0


def test_who_is_silent_parts_clusters_by_its_cells():
    """Rows of the third are with somebody who has not answered: 0, 0, 0 makes v = 1."""
    counted = np.array([[0.0, 9, 9], [0, 9, 9], [0, 0, 0]])
    level = replace(with_valleys(3, 3, 0.0), valleys=counted)
    assert indices.parted(level) == indices.parted(level, silent=True) == 2 / 3
    level = replace(level, uncounted=np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 9]]))
    assert indices.parted(level) == 2 / 3
    # (9 + 3)/(9 + 3) for the second now, (0 + 3)/(9 + 3) for the third.
    assert indices.parted(level, silent=True) == 2 / 3
    level = replace(level, uncounted=np.array([[0.0, 0, 0], [0, 0, 0], [0, 9, 9]]))
    assert indices.parted(level, silent=True) == 1.0
    assert indices.parted(replace(level, valleys=np.empty((0, 3))), silent=True) == 0.0


def test_the_likeliest_of_several_levels():
    """A hundred rows: half a nat is a little."""
    levels = [with_valleys(k, k, likely) for k, likely in ((2, 0.0), (10, 5.0))]
    rows = [replace(level, sizes=np.full(level.k, 100 / level.k)) for level in levels]
    assert [indices.is_likeliest(level, rows) for level in rows] == [False, True]
    near = replace(with_valleys(9, 9, 4.6), sizes=np.full(9, 100 / 9))
    assert indices.is_likeliest(near, rows)


def test_a_level_near_the_end_of_the_path_is_not_confirmed():
    coarse, fine = with_valleys(2, 2, 0.0, silhouette=0.6), with_valleys(8, 8, 5.0)
    assert choose([coarse, fine], "auto", 0.01, 11) == 1
    assert choose([coarse, fine], "auto", 0.01, 10) == 0  # 8 is .8 of it


def test_a_level_of_too_few_rows_is_not_confirmed():
    coarse = with_valleys(2, 2, 0.0, silhouette=0.6, d=3)
    enough = with_valleys(10, 10, 5.0, rows=3.0, d=3)
    few = with_valleys(10, 10, 5.0, rows=2.9, d=3)
    assert choose([coarse, enough], "auto", 0.01, 20) == 1
    assert choose([coarse, few], "auto", 0.01, 20) == 0


def test_the_likeliest_levels_tie_to_the_smaller_k():
    levels = [with_valleys(k, k, 5.0) for k in (7, 4, 5)]
    assert choose(levels, "auto", 0.01, 20) == 1


def test_of_equally_likely_levels_the_largest_silhouette_wins():
    """A hundred rows: within half a nat of the best they are equally likely."""
    best, finer = with_valleys(10, 10, 5.0, silhouette=0.5), with_valleys(11, 11, 5.45)
    assert choose([best, finer], "auto", 0.01, 20) == 0
    finer = with_valleys(11, 11, 5.6, silhouette=0.45)
    assert choose([best, finer], "auto", 0.01, 20) == 1
    # One without valleys does not count, however good it looks.
    bare = with_valleys(10, 0, 5.0, silhouette=0.6)
    assert choose([bare, with_valleys(11, 11, 5.45)], "auto", 0.01, 20) == 1


def test_a_level_far_below_the_best_silhouette_is_not_confirmed():
    coarse = with_valleys(2, 0, 0.0, silhouette=0.6)
    near, far = (with_valleys(10, 10, 5.0, silhouette=s) for s in (0.41, 0.39))
    assert choose([coarse, near], "auto", 0.01, 20) == 1
    assert choose([coarse, far], "auto", 0.01, 20) == 0


def level_without(k, name):
    whole = level(k)
    return replace(whole, scores={**whole.scores, name: None})


def test_an_undefined_index_is_the_worst():
    levels = [level_without(3, "ch"), level(9, ch=-1e300)]
    assert choose(levels, "ch", 0.01, 20) == 1
    levels = [level_without(5, "db"), level(6, db=1e300)]
    assert choose(levels, "db", 0.01, 20) == 1
    levels = [level_without(5, "ch"), level_without(4, "ch")]
    assert choose(levels, "ch", 0.01, 20) == 1


def test_goodness_is_more_is_better():
    levels = [level(2, 0.1, db=3), level(3, 0.2, db=4)]
    assert goodness(levels, "auto").tolist() == [0.1, 0.2]
    assert goodness(levels, "db").tolist() == [-3.0, -4.0]
    assert goodness([level_without(2, "ch")], "ch").tolist() == [-np.inf]
