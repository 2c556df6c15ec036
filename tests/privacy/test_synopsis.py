# SPDX-License-Identifier: Apache-2.0
"""The synopsis: what a row can change, how much noise covers it, what comes out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl.core.messages import Hello, check_cells
from afcl.core.params import DefaultParams
from afcl.core.rebuild import prepare
from afcl.core.server import absorb_hello, chosen
from afcl.core.state import ServerState
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_mixture, make_sd1
from afcl.exceptions import InputError
from afcl.kernels import assign
from afcl.privacy import synopsis
from afcl.privacy.accountant import compose, delta_of, mu_of
from afcl.privacy.canary import epsilon_lower_bound
from afcl.privacy.noise import Noise
from afcl.privacy.synopsis import noisy_cells, release


def blobs(seed, n=600):
    """Draw three blobs in the unit square."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]])
    return np.clip(rng.normal(spots[rng.integers(0, 3, n)], 0.05), 0, 1)


def unit(X):
    """Bring rows into the unit box."""
    return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))


def check_released(cells, n, d, smallest):
    """Assert what every released bag promises."""
    check_cells(cells, d, n, min(smallest, n))
    assert cells.counts.sum() == n
    assert cells.means.min() >= 0
    assert cells.means.max() <= 1
    # The box allows no more than half of the rows at either wall.
    most = cells.counts * (cells.means * (1 - cells.means)).sum(axis=1)
    assert np.all(cells.scatters <= most * (1 + 1e-9) + 1e-9)


# ------------------------------------------------------------ what a row can change


def in_units(parts, reaches):
    """Return totals as one vector, in the units in which noise is drawn."""
    counts, shifts, squares = parts
    return counts, shifts / reaches[:, None], squares / reaches**2


UNIT = st.floats(0, 1)


@st.composite
def tables(draw):
    n, k, d = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    return (
        draw(arrays(np.float64, (n, d), elements=UNIT)),
        draw(arrays(np.float64, (k, d), elements=UNIT)),
        draw(arrays(np.float64, k, elements=st.floats(0.01, 1.0))),
    )


@given(tables())
def test_one_row_changes_no_more_than_the_noise_covers(case):
    rows, centers, reaches = case
    labels, _ = assign(rows, centers)
    whole = in_units(synopsis._parts(rows, labels, centers, reaches), reaches)
    for row in range(rows.shape[0]):
        left = np.delete(np.arange(rows.shape[0]), row)
        rest = synopsis._parts(rows[left], labels[left], centers, reaches)
        changes = [a - b for a, b in zip(whole, in_units(rest, reaches), strict=True)]
        lengths = [float((change**2).sum()) for change in changes]
        assert math.sqrt(sum(lengths[:2])) <= math.sqrt(2)
        assert math.sqrt(sum(lengths)) <= math.sqrt(3)
        assert np.count_nonzero(changes[0]) == 1


def test_a_far_row_changes_almost_exactly_that():
    # The bound is met: S = 0.5, a row 1 away in a cell of its own.
    centers, reaches = np.array([[0.0, 0.0]]), np.array([0.5])
    parts = synopsis._parts(np.array([[0.0, 1.0]]), np.array([0]), centers, reaches)
    counts, shifts, squares = in_units(parts, reaches)
    assert counts.tolist() == [1.0]
    assert shifts[0] == pytest.approx([0.0, 1.0], abs=1e-5)
    assert squares == pytest.approx([1.0], abs=1e-5)


def test_sums_do_not_depend_on_the_order_of_rows(seed):
    rows = blobs(seed)
    centers = np.random.default_rng(seed).random((7, 2))
    order = np.random.default_rng(seed + 1).permutation(rows.shape[0])
    reaches = np.full(7, 0.3)
    one = synopsis._parts(rows, assign(rows, centers)[0], centers, reaches)
    other = synopsis._parts(
        rows[order], assign(rows[order], centers)[0], centers, reaches
    )
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


# ------------------------------------------------------------------- the noise


@pytest.mark.parametrize("squares", [False, True])
def test_noise_has_the_deviation_that_the_proof_needs(seed, squares):
    mu, reaches = 0.7, np.array([0.5, 0.1])
    rows = np.array([[0.2, 0.2], [0.8, 0.8], [0.8, 0.7]])
    centers = np.array([[0.2, 0.2], [0.8, 0.8]])
    noise = Noise(np.random.default_rng(seed).bytes(32))
    looks = [
        synopsis._look(rows, centers, reaches, mu, noise, squares) for _ in range(4000)
    ]
    f = math.sqrt(3 if squares else 2)
    wanted = f / mu
    counts = np.array([look.counts for look in looks])
    shifts = np.array([look.shifts for look in looks]) / reaches[:, None]
    found = [counts[:, 0], counts[:, 1], *shifts.reshape(4000, 4).T]
    if squares:
        found.extend((np.array([look.squares for look in looks]) / reaches**2).T)
    else:
        assert not any(look.squares.any() for look in looks)
    for values in found:
        # The error of a deviation from 4000 draws is 1.1 %; this is five times that.
        assert values.std() == pytest.approx(wanted, rel=0.056)
    table = np.corrcoef(np.array(found)) - np.eye(len(found))
    assert np.abs(table).max() < 5.5 / math.sqrt(4000)
    assert counts.mean(axis=0) == pytest.approx([1, 2], abs=5.5 * wanted / 4000**0.5)
    # What was claimed: sensitivity f over deviation f/mu is mu.
    assert looks[0].deviation == wanted


def test_everything_released_lies_on_the_grid(seed):
    noise = Noise(np.random.default_rng(seed).bytes(32))
    rows, centers = blobs(seed), np.random.default_rng(seed).random((5, 2))
    look = synopsis._look(rows, centers, np.full(5, 0.3), 0.5, noise, True)
    for values in (look.counts, look.shifts, look.squares):
        steps = values / synopsis.GRID
        assert np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_the_looks_cost_what_was_asked_for(monkeypatch, seed, epsilon):
    costs = []
    real = synopsis._look

    def counted(rows, centers, reaches, mu, noise, with_squares):
        costs.append(mu)
        return real(rows, centers, reaches, mu, noise, with_squares)

    monkeypatch.setattr(synopsis, "_look", counted)
    release(blobs(seed), epsilon, 1e-5, 5, np.random.default_rng(seed))
    assert len(costs) == synopsis.LOOKS
    assert delta_of(epsilon, compose(costs)) == pytest.approx(1e-5, rel=1e-6)


def test_only_the_looks_see_the_rows(monkeypatch, seed):
    """Two tables of equally many rows: with equal looks, equal bytes are released."""
    rng = np.random.default_rng(seed)
    tables = [rng.random((300, 3)), 0.1 * rng.random((300, 3))]
    real, fixed = synopsis._look, rng.random((300, 3))
    monkeypatch.setattr(synopsis, "_look", lambda rows, *others: real(fixed, *others))
    one, other = (release(X, 4.0, 1e-5, 5, np.random.default_rng(seed)) for X in tables)
    assert one.counts.tobytes() == other.counts.tobytes()
    assert one.means.tobytes() == other.means.tobytes()
    assert one.scatters.tobytes() == other.scatters.tobytes()


def guesses(monkeypatch, rows, X, joined, epsilon, rng):
    """Return the log-likelihood ratio of all looks at `rows`: with or without?

    Nobody can guess better: who computes it knows every row and sees what is not even
    sent, the looks as they were measured.
    """
    seen = []
    real = synopsis._look

    def watched(*arguments):
        seen.append(real(*arguments))
        return seen[-1]

    with monkeypatch.context() as patch:
        patch.setattr(synopsis, "_look", watched)
        release(rows, epsilon, 1e-5, 5, rng)
    ratio = 0.0
    for look in seen:
        said = in_units((look.counts, look.shifts, look.squares), look.reaches)
        worlds = []
        for world in (X, joined):
            labels, _ = assign(world, look.centers)
            parts = synopsis._parts(world, labels, look.centers, look.reaches)
            gaps = [
                a - b for a, b in zip(said, in_units(parts, look.reaches), strict=True)
            ]
            measured = gaps if look is seen[-1] else gaps[:2]
            worlds.append(sum(float((gap**2).sum()) for gap in measured))
        ratio += (worlds[0] - worlds[1]) / (2 * look.deviation**2)
    return ratio


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_best_attacker_there_is_learns_no_more(monkeypatch, seed, epsilon):
    """Under mu-GDP the ratio has mean mu^2/2 at most, and almost that is reached."""
    rng, trials = np.random.default_rng(seed), 300
    X = np.full((100, 2), 0.2)
    joined = np.vstack([X, [[1.0, 1.0]]])
    there, absent = (
        np.array(
            [guesses(monkeypatch, rows, X, joined, epsilon, rng) for _ in range(trials)]
        )
        for rows in (joined, X)
    )
    mu = mu_of(epsilon, 1e-5)
    slack = 5 * mu / math.sqrt(trials)
    assert there.mean() <= mu**2 / 2 + slack
    assert absent.mean() >= -(mu**2) / 2 - slack
    assert max(there.std(), absent.std()) <= mu * (1 + 5 / math.sqrt(2 * trials))
    assert there.std() > 0.5 * mu  # the attacker is a good one
    found = epsilon_lower_bound(
        int((there > 0).sum()), trials, int((absent > 0).sum()), trials, 1e-5
    )
    assert found <= epsilon


# ------------------------------------------------------------- what comes out


def test_the_same_secret_releases_the_same_bytes(seed):
    rows = blobs(seed)
    one, again, other = (
        release(rows, 2.0, 1e-5, 5, np.random.default_rng(secret))
        for secret in (seed, seed, seed + 1)
    )
    assert one.means.tobytes() == again.means.tobytes()
    assert one.counts.tobytes() == again.counts.tobytes()
    assert not np.isin(other.means, one.means).any()


def test_noise_is_no_function_of_the_rows(seed):
    """Equal generators draw equal noise whatever the rows: so bytes compare nothing.

    (Who calls gives every release a generator of its own; see test_site.)
    """
    rows = blobs(seed)
    other = rows.copy()
    other[0] = 1.0 - other[0]
    centers = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]])
    looks = [
        synopsis._look(
            X,
            centers,
            np.full(3, 0.5),
            1.0,
            Noise(np.random.default_rng(seed).bytes(32)),
            True,
        ).counts
        for X in (rows, other)
    ]
    moved = looks[1] - looks[0]
    assert np.array_equal(moved, np.rint(moved))


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(5, 60), st.integers(1, 6)),
        elements=st.floats(-2, 3, allow_nan=False),
    ),
    st.sampled_from([0.05, 1.0, 8.0, 100.0]),
    st.integers(0, 2**32),
)
def test_what_is_released_is_always_sound(X, epsilon, secret):
    cells = release(X, epsilon, 1e-5, 5, np.random.default_rng(secret))
    check_released(cells, X.shape[0], X.shape[1], 5)
    centers = np.random.default_rng(secret).random((3, X.shape[1]))
    noisy = noisy_cells(X, centers, 0.1, 5, np.random.default_rng(secret))
    check_released(noisy, X.shape[0], X.shape[1], 5)


def test_rows_outside_the_box_are_moved_to_its_wall(seed):
    rows = blobs(seed)
    outside = rows.copy()
    outside[0], rows[0] = [7.0, -3.0], [1.0, 0.0]
    one, other = (
        release(X, 4.0, 1e-5, 5, np.random.default_rng(seed)) for X in (rows, outside)
    )
    assert one.means.tobytes() == other.means.tobytes()


def test_with_little_noise_the_synopsis_is_a_summary(seed):
    rows = blobs(seed)
    cells = release(rows, 1e5, 1e-5, 5, np.random.default_rng(seed))
    mean = cells.counts @ cells.means / 600
    assert mean == pytest.approx(rows.mean(axis=0), abs=0.01)
    around = cells.scatters + cells.counts * ((cells.means - mean) ** 2).sum(axis=1)
    exact = ((rows - rows.mean(axis=0)) ** 2).sum()
    assert around.sum() == pytest.approx(exact, rel=0.05)


def test_noisy_cells_find_the_blobs(seed):
    rows = blobs(seed, 3000)
    centers = np.array([[0.25, 0.25], [0.75, 0.25], [0.5, 0.7]])
    cells = noisy_cells(rows, centers, 1.0, 5, np.random.default_rng(seed))
    expected = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]])
    assert cells.means == pytest.approx(expected, abs=0.02)
    # Two features of deviation 0.05.
    assert cells.scatters / cells.counts == pytest.approx(2 * 0.05**2, rel=0.5)


def test_one_centre_is_enough(seed):
    rows = blobs(seed)
    cells = noisy_cells(
        rows, np.array([[0.5, 0.5]]), 1.0, 5, np.random.default_rng(seed)
    )
    assert cells.counts.tolist() == [600]


def test_rows_and_costs_that_cannot_be_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="has 1 row, fewer than min_cell = 5"):
        release(np.zeros((1, 2)), 1.0, 1e-5, 5, rng)
    with pytest.raises(InputError, match="has 0 rows"):
        noisy_cells(np.zeros((0, 2)), np.zeros((1, 2)), 1.0, 0, rng)
    with pytest.raises(InputError, match="missing or infinite"):
        release(np.full((9, 2), np.nan), 1.0, 1e-5, 5, rng)
    with pytest.raises(InputError, match="mu is 0"):
        noisy_cells(np.zeros((9, 2)), np.zeros((1, 2)), 0.0, 5, rng)
    with pytest.raises(InputError, match="epsilon is -1"):
        release(np.zeros((9, 2)), -1.0, 1e-5, 5, rng)


# -------------------------------------------------- by hand: only transformations


def look(counts, shifts, squares, centers, reach=0.5, deviation=1.0):
    """Build a look with one feature from plain lists."""
    return synopsis._Look(
        np.array(centers, dtype=float)[:, None],
        np.full(len(counts), reach),
        np.array(counts, dtype=float),
        np.array(shifts, dtype=float)[:, None],
        np.array(squares, dtype=float),
        deviation,
    )


def test_means_are_shrunk_by_what_noise_explains():
    # Shift 10 / 50 = 0.2; noise 1 * 0.5 / 50 = 0.01: kept 1 - 1e-4 / 0.04 = 0.9975.
    # Shift 0.004 of the other is less than noise explains: it stays.
    seen = look([50, 50], [10, 0.2], [0, 0], [0.1, 0.6])
    found = synopsis._means(seen, np.array([0, 1]))
    assert found[:, 0] == pytest.approx([0.1 + 0.9975 * 0.2, 0.6], rel=1e-12)


def test_variances_lean_on_each_other_by_hand():
    # Both cells: 2 / 50 = 0.04 and 0 / 50 = 0 around unmoved means; the error of each
    # is 1 * 0.25 / 50 = 0.005. Usual: 0.02. Weight of what was found:
    # 0.02^2 / (0.02^2 + 0.005^2) = 16 / 17.
    seen = look([50, 50], [0, 0], [2, 0], [0.5, 0.5])
    found = synopsis._variances(seen, np.array([0, 1]), np.array([[0.5], [0.5]]))
    assert found == pytest.approx([(0.04 * 16 + 0.02) / 17, 0.02 / 17], rel=1e-12)


def test_variances_are_never_surer_than_their_error():
    # Nothing but negative noise: the usual is its own error, 0.005 / sqrt(2).
    seen = look([50, 50], [0, 0], [-0.5, -0.5], [0.5, 0.5])
    usual = 0.005 / math.sqrt(2)
    kept = usual**2 / (usual**2 + 0.005**2)
    found = synopsis._variances(seen, np.array([0, 1]), np.array([[0.5], [0.5]]))
    expected = max(0.0, -0.01 * kept + usual * (1 - kept))
    assert found == pytest.approx([expected, expected], rel=1e-12)


def test_whole_counts_by_largest_remainder():
    # 10 rows in shares 1.7 : 1.6 : 1.7 of 5 -> 3.4, 3.2, 3.4: the first gets the last.
    found = synopsis._whole(np.array([1.7, 1.6, 1.7]), 10)
    assert found.tolist() == [4, 3, 3]
    assert found.dtype == np.int64


def test_dead_centres_respawn_beside_heavy_ones(seed):
    # Only the first cell holds more than 2 deviations: the others gather around it.
    seen = look([50, 1, 1.5, -3], [0, 9, 9, 9], [0] * 4, [0.3, 0.9, 0.9, 0.9])
    noise = Noise(np.random.default_rng(seed).bytes(32))
    moved = synopsis._moved(seen, noise)[:, 0]
    assert moved[0] == 0.3
    assert np.all(np.abs(moved[1:] - 0.3) < 5.5 * synopsis.BESIDE)
    assert len(set(moved)) == 4
    # With nobody alive all stay.
    seen = look([1, 1], [0, 0], [0, 0], [0.3, 0.9])
    assert synopsis._moved(seen, noise).tolist() == [[0.3], [0.9]]


def test_with_nobody_alive_one_cell_stands_for_all():
    cells = synopsis._cells(look([1, 1.5], [0, 0], [0, 0], [0.3, 0.9]), 20, 5)
    assert cells.counts.tolist() == [20]
    assert cells.means.tolist() == [[0.9]]


# ------------------------------------------------------------------- quality


def found_k(X, seed, epsilon):
    """Return the k that the server finds on five clients' released cells."""
    owners = kmeans_split(X, 5, seed)
    state = ServerState(DefaultParams(), seed)
    for client in range(5):
        rows = X[owners == client]
        rng = np.random.default_rng([seed, client])
        cells = release(rows, epsilon, 1e-5, 5, rng)
        state, _ = absorb_hello(state, Hello(len(rows), cells, client=client))
    return chosen(prepare(state)).k


def test_sd1_keeps_its_four_clusters(seed):
    X, _ = make_sd1(seed)
    assert found_k(unit(X), seed, 8.0) == 4


@pytest.mark.slow
def test_a_mixture_keeps_its_eight_clusters(seed):
    X, _ = make_mixture(
        8, 2, separation=4, imbalance=3, random_state=seed, n_samples=20_000
    )
    assert found_k(unit(X), seed, 8.0) == 8
