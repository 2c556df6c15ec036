# SPDX-License-Identifier: Apache-2.0
"""Scores of partitions: many silhouettes at once, and what is measured only once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.metrics import (
    adjusted_rand,
    calinski_harabasz,
    davies_bouldin,
    normalized_mutual_info,
    silhouette,
)
from afcl_bench import measures
from afcl_bench.datasets import Dataset, fingerprint, load
from afcl_bench.measures import (
    MEASURES,
    SCORES,
    SINGLE,
    Scores,
    silhouettes,
)
from afcl_bench.settings import scaled

# ------------------------------------------------------------------ silhouettes


@st.composite
def partitioned(draw):
    """Rows (some of them equal) and partitions of them, singletons and collapse too."""
    n, d = draw(st.integers(2, 25)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d)).round(draw(st.integers(0, 6)))
    names = st.lists(st.integers(-2, 6), min_size=n, max_size=n)
    partitions = draw(st.lists(names, min_size=1, max_size=4))
    if draw(st.booleans()):
        partitions += [list(range(n)), [7] * n]
    return X, [np.array(labels) for labels in partitions]


@given(partitioned())
def test_many_silhouettes_are_each_ones_own(case):
    X, partitions = case
    expected = [silhouette(X, labels) for labels in partitions]
    assert silhouettes(X, partitions) == pytest.approx(expected, abs=1e-9)


def test_silhouettes_by_hand():
    X = np.array([[0.0], [1.0], [4.0], [5.0]])
    # Row 0: a = 1, b = 4.5; row 1: a = 1, b = 3.5; the others alike.
    pairs = (2 * (1 - 1 / 4.5) + 2 * (1 - 1 / 3.5)) / 4
    # Alone, a row counts as 0.
    single = ((0) + (1 - 3.5) / 3.5 + (4 - 2) / 4 + (5 - 2.5) / 5) / 4
    found = silhouettes(
        X,
        [
            np.array([0, 0, 1, 1]),
            np.array([9, 1, 1, 1]),
            np.zeros(4, dtype=int),
            np.arange(4),
        ],
    )
    assert found == pytest.approx([pairs, single, -1.0, -1.0])


def test_equal_rows_count_as_0():
    X = np.zeros((4, 2))
    assert silhouettes(X, [np.array([0, 0, 1, 1])]) == [0.0]


@pytest.mark.parametrize("memory", [1, 64])
def test_rows_are_taken_some_at_a_time(monkeypatch, memory, seed):
    """1 MiB holds 45 of 2900 rows at a time; the last step is a smaller one."""
    monkeypatch.setattr(measures, "WORKING_MEMORY", memory)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2900, 2))
    partitions = [rng.integers(0, k, 2900) for k in (2, 5, 300)]
    expected = [silhouette(X, labels) for labels in partitions]
    assert silhouettes(X, partitions) == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------ scores


@pytest.fixture
def spots():
    X = np.array([[0, 0], [0, 1], [8, 0], [8, 1], [0, 9], [1, 9]], dtype=np.float64)
    return Dataset("spots", X, np.array([0, 0, 1, 1, 2, 2]), 3, ("a", "b"))


@pytest.fixture
def counter(monkeypatch):
    """Counts how many partitions are measured."""
    counted: list[int] = []
    measured = measures._measured

    def count(data, partitions):
        counted.append(len(partitions))
        return measured(data, partitions)

    monkeypatch.setattr(measures, "_measured", count)
    return counted


def lines(root) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / SCORES).read_text().splitlines()]


def test_every_measure_on_scaled_rows(tmp_path, spots):
    labels = np.array([0, 0, 0, 1, 1, 1])
    (found,) = Scores(tmp_path).measure(spots, "f" * 64, [labels])
    X = scaled(spots.X)
    assert found == {
        "sc": pytest.approx(silhouette(X, labels)),
        "sc2": silhouette(X, labels, "sqeuclidean"),
        "ch": calinski_harabasz(X, labels),
        "db": davies_bouldin(X, labels),
        "ari": adjusted_rand(spots.y, labels),
        "nmi": normalized_mutual_info(spots.y, labels),
    }
    assert tuple(found) == MEASURES == ("sc", *SINGLE)
    assert found["ch"] is not None


def test_the_true_classes_agree_with_themselves(tmp_path, spots):
    (found,) = Scores(tmp_path).measure(spots, "f" * 64, [spots.y + 5])
    assert (found["ari"], found["nmi"]) == (1.0, 1.0)


@pytest.mark.parametrize("labels", [np.zeros(6, dtype=np.int64), np.arange(6)])
def test_a_collapsed_partition_scores_minus_1(tmp_path, spots, labels):
    (found,) = Scores(tmp_path).measure(spots, "f" * 64, [labels])
    assert (found["sc"], found["sc2"]) == (-1.0, -1.0)
    assert (found["ch"], found["db"]) == (None, None)
    assert found["ch"] is None


def test_many_rows_have_the_silhouette_of_a_sample(tmp_path, spots, monkeypatch):
    monkeypatch.setattr(measures, "MOST_ROWS", 5)
    monkeypatch.setattr(measures, "SAMPLE", 4)
    (found,) = Scores(tmp_path).measure(spots, "f" * 64, [spots.y])
    drawn = np.random.default_rng(0).choice(6, 4, replace=False)
    expected = silhouette(scaled(spots.X)[drawn], spots.y[drawn])
    assert found["sc"] == pytest.approx(expected, abs=1e-12)
    assert found["sc2"] == silhouette(scaled(spots.X), spots.y, "sqeuclidean")
    monkeypatch.setattr(measures, "_measured", None)
    assert Scores(tmp_path).measure(spots, "f" * 64, [spots.y]) == [found]


def test_names_of_clusters_do_not_matter(tmp_path, spots, counter):
    one, other = np.array([0, 0, 1, 1, 2, 2]), np.array([7, 7, -3, -3, 0, 0])
    scores = Scores(tmp_path)
    first, second = scores.measure(spots, "f" * 64, [one, other])
    assert first == second
    assert counter == [1]
    assert len(lines(tmp_path)) == 1
    scores.measure(spots, "f" * 64, [other.astype(np.int32), one.astype(np.uint8)])
    assert counter == [1]


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5), st.permutations(range(5)))
def test_a_partitions_name_is_that_of_its_clusters(labels, names):
    ours = np.array(labels)
    renamed = np.array([names[label] for label in labels])
    assert measures._digest(ours) == measures._digest(renamed)
    equal = {i: frozenset(np.flatnonzero(ours == c)) for i, c in enumerate(labels)}
    other = np.array([0, 0, 1, 1, 2])
    same = all(equal[i] == set(np.flatnonzero(other == other[i])) for i in range(5))
    assert (measures._digest(ours) == measures._digest(other)) == same


def test_other_data_are_other_scores(tmp_path, spots, counter):
    scores = Scores(tmp_path)
    iris = load("iris")
    (one,) = scores.measure(spots, fingerprint(spots), [np.arange(6) % 2])
    (two,) = scores.measure(iris, fingerprint(iris), [np.arange(150) % 2])
    shifted = Dataset("spots", spots.X[::-1].copy(), spots.y, 3, ("a", "b"))
    scores.measure(shifted, fingerprint(shifted), [np.arange(6) % 2])
    assert counter == [1, 1, 1]
    assert one != two
    assert len({line["key"] for line in lines(tmp_path)}) == 3


def test_what_was_measured_is_read_from_the_file(tmp_path, spots, counter):
    partitions = [spots.y, np.array([0, 1, 0, 1, 0, 1]), np.zeros(6, dtype=np.int64)]
    first = Scores(tmp_path).measure(spots, "f" * 64, partitions)
    again = Scores(tmp_path).measure(spots, "f" * 64, partitions[::-1])
    assert again == first[::-1]
    assert counter == [3]
    more = np.array([0, 0, 0, 0, 1, 1])
    Scores(tmp_path).measure(spots, "f" * 64, [spots.y, more])
    assert counter == [3, 1]


def test_a_new_measure_is_computed_for_what_is_stored(tmp_path, spots, counter):
    partitions = [spots.y, np.array([0, 1, 0, 1, 0, 1])]
    first = Scores(tmp_path).measure(spots, "f" * 64, partitions)
    old = [{k: v for k, v in line.items() if k != "nmi"} for line in lines(tmp_path)]
    text = "".join(json.dumps(line) + "\n" for line in old)
    (tmp_path / SCORES).write_text(text)
    assert Scores(tmp_path).measure(spots, "f" * 64, partitions) == first
    assert counter == [2, 2]
    assert Scores(tmp_path).measure(spots, "f" * 64, partitions) == first
    assert counter == [2, 2]


@pytest.mark.parametrize("kept", [1, 20, -2])
def test_a_line_cut_off_is_measured_again_and_then_known(
    tmp_path, spots, counter, kept
):
    partitions = [spots.y, np.array([0, 1, 0, 1, 0, 1])]
    first = Scores(tmp_path).measure(spots, "f" * 64, partitions)
    whole, last = (tmp_path / SCORES).read_text().splitlines(keepends=True)
    (tmp_path / SCORES).write_text(whole + last[:kept])
    assert Scores(tmp_path).measure(spots, "f" * 64, partitions) == first
    assert counter == [2, 1]
    assert Scores(tmp_path).measure(spots, "f" * 64, partitions) == first
    assert counter == [2, 1]


def test_nothing_to_measure_is_nothing(tmp_path, spots):
    assert Scores(tmp_path).measure(spots, "f" * 64, []) == []
    assert not (tmp_path / SCORES).exists()
