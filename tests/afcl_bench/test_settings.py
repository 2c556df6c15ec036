# SPDX-License-Identifier: Apache-2.0
"""Splits and participation by name: by hand on tiny data, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.exceptions import InputError
from afcl.runtime.coordinator import Spec
from afcl.runtime.schedule import Replay, Rounds, Schedule
from afcl.runtime.simulate import simulate
from afcl_bench.datasets import Dataset, load
from afcl_bench.settings import (
    LEAST_ROWS,
    REDRAWS,
    divided,
    owners,
    scaled,
    schedule,
    skewed,
)


def dataset(X, y, columns=None) -> Dataset:
    rows = np.asarray(X, dtype=np.float64)
    classes = np.asarray(y, dtype=np.int64)
    names = columns or tuple(f"x{i}" for i in range(1, rows.shape[1] + 1))
    return Dataset("tiny", rows, classes, int(classes.max()) + 1, names)


@pytest.fixture(scope="module")
def spots():
    """Three spots of 6 rows, far apart; the classes are 12 rows and 6 rows."""
    X = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 50.0]], 6, axis=0)
    X += np.arange(18)[:, None] / 1000
    return dataset(X, [0] * 12 + [1] * 6)


@pytest.fixture(scope="module")
def iris():
    return load("iris")


def refusal(function, *arguments) -> str:
    """The error's message, which must be one line."""
    with pytest.raises(InputError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def groups(owner) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(owner == g).tolist()) for g in set(owner.tolist())}


def test_scores_are_computed_on_rows_between_0_and_1():
    X = np.array([[1.0, 5.0, 7.0], [3.0, 5.0, 9.0], [2.0, 5.0, 7.5]])
    assert scaled(X)[:, [0, 2]].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.5, 0.25]]
    assert np.ptp(scaled(X)[:, 1]) == 0


# ------------------------------------------------------------------ splits

SPLITS = [
    "kmeans:3",
    "kmeans:20",
    "paper-leak:3",
    "iid:3",
    "iid:50",
    "dirichlet:5:1",
    "dirichlet:20:0.1",
    "small:10",
    "small:1",
    "own-class:2",
    "own-class:5",
    "own-class:30",
    "column:petal width (cm)",
]


@pytest.mark.parametrize("name", SPLITS)
def test_every_row_has_an_owner_and_every_owner_five_rows(name, iris, seed):
    owner = owners(name, iris, seed)
    assert owner.shape == (150,)
    assert owner.dtype == np.int64
    counts = np.bincount(owner)
    assert counts.sum() == 150
    assert counts.min() >= LEAST_ROWS == 5


@pytest.mark.parametrize("name", SPLITS)
def test_the_seed_decides(name, iris, seed):
    first = owners(name, iris, seed)
    assert np.array_equal(first, owners(name, iris, seed))
    others = (owners(name, iris, seed + i) for i in range(1, 8))
    differ = any(not np.array_equal(first, other) for other in others)
    assert differ == (not name.startswith("column"))


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    name=st.sampled_from(
        ["kmeans:3", "iid:3", "dirichlet:3:0.5", "small:6"]
        + ["own-class:2", "own-class:3"]
    ),
    seed=st.integers(0, 99),
)
def test_no_split_leaves_a_client_small(sizes, name, seed):
    """Whatever the classes: a split that cannot keep the promise says so."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(seed).normal(y[:, None] * 3, 1, (y.size, 2))
    with suppress(InputError):
        owner = owners(name, dataset(X, y), seed)
        assert np.bincount(owner).min() >= 5
        assert owner.size == y.size


def test_kmeans_sees_scaled_features_and_no_classes(spots):
    found = [set(range(6)), set(range(6, 12)), set(range(12, 18))]
    assert groups(owners("kmeans:3", spots, 0)) == {frozenset(g) for g in found}
    # Unscaled, a split in two would follow the second column; scaled, both count.
    other = dataset(spots.X * [1000.0, 1.0], 1 - spots.y)
    for seed in range(5):
        assert np.array_equal(
            owners("kmeans:2", spots, seed), owners("kmeans:2", other, seed)
        )


def test_kmeans_draws_again_before_it_merges(iris):
    """Twenty clients of 150 rows: some draw keeps them all, or the small are merged."""
    counts = [np.bincount(owners("kmeans:20", iris, seed)) for seed in range(3)]
    assert all(c.min() >= 5 for c in counts)
    tiny = dataset(
        np.r_[np.zeros((9, 1)), [[100.0]]] + np.arange(10)[:, None], [0] * 10
    )
    assert np.bincount(owners("kmeans:2", tiny, 0)).tolist() == [10]


def test_the_leaking_split_follows_the_classes_unscaled():
    X = np.arange(20)[:, None] / 100
    y = np.arange(20) % 2 * 3
    owner = owners("paper-leak:2", dataset(X, y), 0)
    assert groups(owner) == {frozenset(range(0, 20, 2)), frozenset(range(1, 20, 2))}
    assert groups(owners("kmeans:2", dataset(X, y), 0)) != groups(owner)


def test_the_leaking_split_merges_nobody():
    # As the published code: a client may have one row.
    X = np.array([[0.0], [0.1], [0.2], [1.0]])
    owner = owners("paper-leak:2", dataset(X, [0, 0, 0, 4]), 0)
    assert sorted(np.bincount(owner)) == [1, 3]


def test_iid_deals_in_equal_numbers(spots):
    assert np.bincount(owners("iid:3", spots, 1)).tolist() == [6, 6, 6]
    assert sorted(np.bincount(owners("iid:2", spots, 1))) == [9, 9]


def test_dirichlet_is_one_class_a_client_or_all_of_them(iris):
    def most(alpha: str) -> float:
        """Largest share of one class, averaged over clients and draws."""
        shares = []
        for seed in range(10):
            owner = owners(f"dirichlet:5:{alpha}", iris, seed)
            for g in range(owner.max() + 1):
                counts = np.bincount(iris.y[owner == g], minlength=3)
                shares.append(counts.max() / counts.sum())
        return float(np.mean(shares))

    assert most("0.05") > 0.8
    assert most("100") < 0.45


def test_small_clients_have_about_so_many_rows(iris):
    counts = [np.bincount(owners("small:10", iris, seed)) for seed in range(10)]
    # 15 clients are drawn; those below five rows are merged into others.
    assert all(c.size <= 15 for c in counts)
    assert 9 <= np.mean([c.mean() for c in counts]) <= 20
    assert np.bincount(owners("small:1000", iris, 0)).tolist() == [150]


def test_one_class_is_really_alone(iris):
    seen = set()
    for seed in range(12):
        owner = owners("own-class:5", iris, seed)
        assert owner.max() == 4
        (alone,) = set(iris.y[owner == 4].tolist())
        assert (owner[iris.y == alone] == 4).all()
        assert set(owner[iris.y != alone].tolist()) == {0, 1, 2, 3}
        seen.add(alone)
    assert seen == {0, 1, 2}


def test_one_class_alone_leaves_the_others_rows(spots):
    """12 and 6 rows over 4 clients: three would share what makes one or two."""
    for seed in range(10):
        owner = owners("own-class:4", spots, seed)
        last = owner.max()
        (alone,) = set(spots.y[owner == last].tolist())
        assert (owner[spots.y == alone] == last).all()
        assert np.bincount(owner).min() >= 5


def test_a_column_makes_a_client_of_every_value():
    X = np.array([[i % 3 + 0.5, i] for i in range(18)])
    data = dataset(X, [0] * 18, ("site", "x"))
    assert owners("column:site", data, 0).tolist() == [i % 3 for i in range(18)]
    # A value with too few rows joins the client with the nearest mean.
    X = np.r_[np.full(6, 1.0), np.full(6, 2.0), np.full(2, 9.0)][:, None]
    data = dataset(X, [0] * 14, ("site",))
    assert owners("column:site", data, 0).tolist() == [0] * 6 + [1] * 8


def test_a_column_may_have_a_colon_in_its_name():
    data = dataset(np.arange(10)[:, None] // 5, [0] * 10, ("site:a",))
    assert owners("column:site:a", data, 0).tolist() == [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("k-means:5", "unknown split 'k-means:5'; choose from kmeans, paper-leak, iid"),
        ("kmeans", "cannot read 'kmeans'"),
        ("kmeans:5:6", "cannot read 'kmeans:5:6'"),
        ("kmeans:many", "cannot read 'kmeans:many'"),
        ("iid:0", "n_clients is 0"),
        ("kmeans:999", "n_clients is 999"),
        ("dirichlet:5", "cannot read 'dirichlet:5'"),
        ("dirichlet:5:0", "alpha is 0"),
        ("small:0", "cannot read 'small:0'"),
        ("own-class:1", "own-class:1"),
        ("column:site", "tiny has no column 'site'; it has x1, x2"),
        ("", "unknown split ''"),
    ],
)
def test_a_split_that_cannot_be_read_is_said(name, said, spots):
    assert said in refusal(owners, name, spots, 0)


# ------------------------------------------------------------------ participation


def part(name: str, n: int = 10, seed: int = 0) -> Schedule:
    return schedule(name, n, seed)


def taken(name: str, n: int, rounds: int, seed: int = 0) -> np.ndarray:
    """Whether each client can be asked, (rounds, clients)."""
    bound = part(name, n, seed).bind(n, seed)
    found = [
        [bound.takes_part(c, r, 0) for c in range(n)] for r in range(1, rounds + 1)
    ]
    return np.array(found)


def test_always_and_random_are_the_estimators():
    assert part("always") == Schedule()
    assert part("random") == Rounds(probability="random")
    assert part("delay:3") == Rounds(delay=3)
    assert part("p:0.25") == Rounds(probability=0.25)


def test_always_means_everybody_and_p_0_nobody():
    assert taken("always", 4, 5).all()
    assert taken("p:1", 4, 5).all()
    assert not taken("p:0", 4, 5).any()
    share = taken("p:0.25", 20, 200).mean()
    assert abs(share - 0.25) < 0.03


def gini(values) -> float:
    """Mean absolute difference over twice the mean."""
    values = np.asarray(values)
    gaps = np.abs(values[:, None] - values[None, :]).mean()
    return float(gaps / (2 * values.mean()))


@pytest.mark.parametrize("asked", [0.1, 0.3, 0.5, 0.6, 0.75, 0.9])
def test_a_skew_has_the_gini_coefficient_asked_for(asked):
    shares = skewed(1500, asked)
    assert gini(shares) == pytest.approx(asked, abs=0.005)
    assert shares[-1] == 1.0
    assert (np.diff(shares) > 0).all()
    assert shares[0] >= 0


def test_a_skew_by_hand():
    # G = 1/3: a = 1, the grid itself: 1/8, 3/8, 5/8, 7/8 over the largest.
    assert skewed(4, 1 / 3) == pytest.approx([1 / 7, 3 / 7, 5 / 7, 1])
    # G = 1/2: a = 2.
    assert skewed(2, 0.5) == pytest.approx([1 / 9, 1])


@given(st.integers(1, 60), st.floats(0, 0.99))
def test_a_skew_has_probabilities_with_1_as_the_largest(n, asked):
    shares = skewed(n, asked)
    assert shares.shape == (n,)
    assert shares.max() == 1.0
    assert shares.min() >= 0
    assert gini(shares) <= asked + 1e-9


def test_no_skew_is_everybody_always():
    assert skewed(7, 0.0).tolist() == [1.0] * 7
    assert taken("skew:0", 7, 10).all()


def test_who_is_frequent_is_drawn_from_the_seed():
    def probabilities(seed: int) -> list[float]:
        found = part("skew:0.6", 20, seed)
        assert isinstance(found, Rounds)
        return [float(p) for p in np.asarray(found.probability, dtype=float)]

    assert sorted(probabilities(0)) == pytest.approx(sorted(skewed(20, 0.6)))
    assert probabilities(0) == probabilities(0)
    assert probabilities(0) != probabilities(1)


@pytest.mark.parametrize(
    ("share", "n", "count"),
    [("0", 20, 0), ("0.25", 20, 5), ("0.5", 5, 2), ("0.75", 20, 15), ("1", 20, 20)],
)
def test_a_share_of_the_clients_answers_nothing(share, n, count):
    found = part(f"one-shot:{share}", n)
    assert len(set(found.silent)) == len(found.silent) == count
    assert set(found.silent) <= set(range(n))
    assert (~taken(f"one-shot:{share}", n, 3).any(axis=0)).sum() == count


def test_who_is_silent_is_drawn_from_the_seed_and_grows_with_the_share():
    drawn = {frozenset(part("one-shot:0.5", 20, seed).silent) for seed in range(5)}
    assert len(drawn) == 5
    assert part("one-shot:0.5", 20, 3) == part("one-shot:0.5", 20, 3)
    few, many = (set(part(f"one-shot:{s}", 20).silent) for s in ("0.25", "0.75"))
    assert few < many


def test_the_last_clients_join_late():
    assert part("late:1:4", 5) == Schedule(late={4: 4})
    assert part("late:3:2", 5) == Schedule(late={4: 2, 3: 2, 2: 2})
    bound = part("late:1:4", 5).bind(5, 0)
    assert [bound.joins(client) for client in range(5)] == [0, 0, 0, 0, 4]


def test_a_recorded_run_is_replayed(tmp_path, seed):
    from afcl.methods import get_method

    rng = np.random.default_rng(seed)
    spots = rng.integers(0, 2, (4, 30, 1)) * 9.0
    tables = list(rng.normal(spots, 1, (4, 30, 2)))
    spec = Spec(get_method("afcl"), {}, seed)
    first = simulate(spec, tables, part("p:0.4", 4, seed))
    path = tmp_path / "a:b.jsonl"
    first.finished.trace.write(path)
    habits = schedule(f"trace:{path}", 4, seed + 1)
    assert isinstance(habits, Replay)
    again = simulate(spec, tables, habits)
    assert again.finished.rounds == first.finished.rounds
    for one, other in zip(first.labels, again.labels, strict=True):
        assert np.array_equal(one, other)
    sent, resent = (
        [(e["tick"], e["client"], e["contact"]) for e in o.finished.trace.of("send")]
        for o in (first, again)
    )
    assert sent == resent


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sometimes", "unknown participation 'sometimes'; choose from always, random"),
        ("always:1", "cannot read 'always:1'"),
        ("p", "cannot read 'p'"),
        ("p:often", "cannot read 'p:often'"),
        ("skew:1", "a Gini coefficient of 1.0"),
        ("skew:-0.1", "a Gini coefficient of -0.1"),
        ("one-shot:0.5:3", "cannot read 'one-shot:0.5:3'"),
        ("one-shot:1.5", "one-shot:1.5"),
        ("one-shot:-0.5", "one-shot:-0.5"),
        ("late:1", "cannot read 'late:1'"),
        ("delay:x", "cannot read 'delay:x'"),
        ("trace:/nowhere/t.jsonl", "/nowhere/t.jsonl"),
    ],
)
def test_a_participation_that_cannot_be_read_is_said(name, said):
    assert said in refusal(part, name)


@pytest.mark.parametrize("name", ["p:1.5", "p:-1", "late:9:2", "delay:-1"])
def test_what_does_not_fit_the_clients_is_said_when_the_run_starts(name):
    assert refusal(lambda: part(name, 5).bind(5, 0))


# ------------------------------------------------------------------ what was repaired


def test_sites_of_so_many_rows(spots):
    found = divided("rows:6", spots, 0)
    assert np.bincount(found.owner).tolist() == [6, 6, 6]
    assert divided("rows:100", spots, 0).owner.tolist() == [0] * 18


def test_clients_that_were_merged_are_counted(spots):
    # Nine clients of two rows become clients of five or more.
    found = divided("iid:9", spots, 0)
    left = np.bincount(found.owner)
    assert left.min() >= LEAST_ROWS
    assert found.merged == 9 - len(left) > 0
    assert divided("iid:3", spots, 0).merged == 0


def test_splits_that_were_drawn_again_are_counted():
    # Two clusters of 30 rows and a row far away: k-means with 3 likes it alone, and
    # then the split is drawn again, in the end with small clients merged.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.1, (30, 2)), rng.normal(1, 0.1, (30, 2))])
    rows = np.vstack([X, [[90.0, 90.0]]])
    found = divided("kmeans:3", dataset(rows, [0] * 61), 0)
    assert np.bincount(found.owner).min() >= LEAST_ROWS
    assert (found.redrawn, found.merged) == (REDRAWS, 1)
    assert divided("kmeans:2", dataset(X, [0] * 60), 0).redrawn == 0


def test_sites_by_nature_are_asked_of_data_that_have_them(spots):
    assert "tiny does not come from sites" in refusal(divided, "sites", spots, 0)
