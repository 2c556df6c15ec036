# SPDX-License-Identifier: Apache-2.0
"""Rows on a cluster of two processes, or with Dask in this process alone."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from afcl import AFCL
from afcl.core.client import condense, reply
from afcl.core.messages import Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.rows import TableRows
from afcl.data import make_mixture
from afcl.exceptions import InputError, PrivacyWarning, TrustWarning
from afcl.kernels import assign
from afcl.methods import get_method
from afcl.runtime.cluster import ClusterTable
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from afcl.scale import Box

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

#: Twelve rows; the box maps them to other units.
ROWS = np.arange(24.0).reshape(12, 2)
BOX = Box(np.array([1.0, 2.0]), np.array([10.0, 4.0]))


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Start two worker processes on this machine; they are closed at the end."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # others may run tests here
            env={"AFCL_KERNELS": "reference"},  # nothing to compile in each of them
            local_directory=str(tmp_path_factory.mktemp("workers")),
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def cluster(workers):
    """Let Dask work there; tests that do not ask for it work in this process."""
    with workers.as_current():
        yield workers


def frame_of(X, cuts, names="abcdefgh"):
    """Return a Dask frame whose partitions end at these rows; some may be empty."""
    frame = pd.DataFrame(X, columns=list(names[: X.shape[1]]))
    edges = [0, *cuts, len(X)]
    pieces = [frame.iloc[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
    meta = frame.iloc[:0]
    return dd.from_map(pd.DataFrame.copy, pieces, meta=meta)


def mixture(seed, n=6000, d=3):
    X, _ = make_mixture(
        4, d, separation=3.0, imbalance=1, random_state=seed, n_samples=n
    )
    return X


def close(found, expected):
    """Assert the same cells, but for rounding."""
    assert np.array_equal(found.counts, expected.counts)
    assert np.allclose(found.means, expected.means, rtol=0, atol=1e-10)
    assert np.allclose(found.scatters, expected.scatters, rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------ the same as in memory


def test_a_client_says_the_same_from_a_cluster(cluster, seed):
    X = mixture(seed, n=10_000)
    box = Box(X.min(axis=0), np.ptp(X, axis=0))
    held = TableRows(X, box)
    params = DefaultParams()
    for collection in (
        frame_of(X, (1, 4000, 4000, 9500)),
        da.from_array(X, chunks=(3000, 2)),
    ):
        rows = ClusterTable(collection).within(box)
        assert rows.shape == (10_000, 3)
        expected = condense(held, params, client_rng(seed, 0, 0))
        close(condense(rows, params, client_rng(seed, 0, 0)), expected)
        centers = held.take(np.arange(0, 10_000, 2500))
        level = Level(centers, np.full(4, 0.1), np.full(4, 2500.0), 0)
        plan = Plan(expected.means, (level,))
        found, known = reply(rows, plan, params), reply(held, plan, params)
        close(found.cells, known.cells)
        close(found.levels[0].cells, known.levels[0].cells)
        assert np.array_equal(found.owners, known.owners)
        assert found.levels[0].sums == pytest.approx(known.levels[0].sums)
        assert np.array_equal(found.levels[0].valleys, known.levels[0].valleys)


def test_a_run_is_the_same_with_one_site_on_a_cluster(cluster, seed):
    X = mixture(seed)
    tables = [X[:3000], X[3000:4500], X[4500:]]
    spec = Spec(get_method("afcl"), {}, seed)
    expected: Any = simulate(spec, tables)
    on_cluster = ClusterTable(frame_of(tables[0], (700, 2000)).persist())

    found: Any = simulate(spec, [on_cluster, *tables[1:]])

    assert found.clustering.k == expected.clustering.k
    assert np.allclose(
        found.clustering.centers, expected.clustering.centers, rtol=0, atol=1e-10
    )
    parts = found.labels[0]
    labels = parts.rows.labels(parts.work)
    assert dask.is_dask_collection(labels)
    assert labels.chunks == ((700, 1300, 1000),)
    assert np.array_equal(labels.compute(), expected.labels[0])
    assert np.array_equal(parts.sizes, np.bincount(expected.labels[0]))
    assert np.array_equal(found.labels[1], expected.labels[1])


def test_the_estimator_takes_a_table_on_a_cluster(cluster, seed, tmp_path):
    X = pd.DataFrame(mixture(seed), columns=["a", "b", "c"])
    first, second = X[:3000], X[3000:]
    expected = AFCL(random_state=seed).fit_clients([first, second])

    table = ClusterTable(dd.from_pandas(first, npartitions=5))
    found = AFCL(random_state=seed).fit_clients([table, second])

    assert found.n_clusters_ == expected.n_clusters_
    assert np.allclose(
        found.cluster_centers_, expected.cluster_centers_, rtol=0, atol=1e-9
    )
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert dask.is_dask_collection(found.client_labels_[0])
    assert found.labels_ is None
    for own, known in zip(found.client_labels_, expected.client_labels_, strict=True):
        assert np.array_equal(np.asarray(own), known)
    found.save(tmp_path / "model")
    loaded = AFCL.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(second), expected.client_labels_[1])


def test_clusters_that_are_not_round_are_labelled_where_the_rows_are():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 400)
    ring = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.concatenate([ring, rng.normal(0, 1, (200, 2))])
    rows = rng.permutation(rows + rng.normal(0, 0.3, rows.shape))
    table = ClusterTable(da.from_array(rows[:300], chunks=(100, 2)))
    model = AFCL(shape="connected", allow_one=False, random_state=0)
    with pytest.warns(TrustWarning):
        model.fit_clients([table, rows[300:]])
    outside = np.hypot(*rows.T) > 6
    labels = np.concatenate([np.asarray(own) for own in model.client_labels_])
    assert np.array_equal(labels == 0, outside)


def test_presets_that_need_all_rows_say_so():
    table = ClusterTable(da.from_array(mixture(0, n=200)))
    with (
        pytest.warns(PrivacyWarning),
        pytest.raises(InputError, match="on one machine"),
    ):
        AFCL(preset="paper").fit_clients([table])
    with pytest.raises(InputError, match="in memory"):
        AFCL(privacy="grouped(5)").fit_clients([table])


def test_the_rows_stay_on_the_cluster(cluster):
    # A task says which process it ran in: never this one.
    import os

    rows = ClusterTable(frame_of(ROWS, (6,)).persist()).within(BOX)
    processes = set(rows.map(_process))
    assert processes
    assert os.getpid() not in processes


def _process(part):
    import os

    return os.getpid()


# ----------------------------------------------------------------- by hand


def total(part):
    return part.sum(axis=0).tolist()


def first_column(part):
    return np.rint(10 * part[:, 0] + 1).astype(np.int64)


def test_parts_come_in_order_and_empty_partitions_do_not_count():
    # Rows 0 to 3, none, 4 to 11. Column a is 0, 2, ..., 22, agreed (a - 1) / 10:
    # (12 - 4) / 10 = 0.8 and (132 - 60) / ... by NumPy; column b likewise.
    rows = ClusterTable(frame_of(ROWS, (4, 4))).within(BOX)
    agreed = (ROWS - BOX.low) / BOX.span
    found = list(rows.map(total))
    assert len(found) == 2
    assert found[0][0] == pytest.approx(0.8)
    assert np.allclose(found, [agreed[:4].sum(axis=0), agreed[4:].sum(axis=0)])


def test_a_large_partition_is_worked_on_in_parts(monkeypatch):
    monkeypatch.setattr("afcl.parts.PART", 8192)
    X = np.ones((10_000, 2))
    rows = ClusterTable(frame_of(X, (9000,))).within(BOX)
    assert list(rows.map(len)) == [4096, 4096, 808, 1000]


def test_rows_are_taken_from_where_they_are():
    table = ClusterTable(frame_of(ROWS, (4, 4, 9)))
    index = np.array([0, 3, 4, 8, 9, 11])
    assert np.array_equal(table.take(index), ROWS[index])
    assert np.array_equal(
        table.within(BOX).take(index), (ROWS[index] - BOX.low) / BOX.span
    )
    assert table.take(np.empty(0, dtype=np.int64)).shape == (0, 2)


def test_agreed_columns_are_chosen_by_their_place():
    table = ClusterTable(frame_of(ROWS, (5,)))
    places = np.array([1])
    rows = table.within(Box(np.array([1.0]), np.array([2.0])), places)
    assert rows.shape == (12, 1)
    assert rows.take(np.array([0, 11])).tolist() == [[0.0], [11.0]]
    assert sum(part[0] for part in rows.map(total)) == sum(range(12))


def test_labels_are_lazy_and_in_order():
    # Column a is 0, 2, ..., 22, agreed (a - 1) / 10; ten times that plus 1 is a.
    rows = ClusterTable(frame_of(ROWS, (4, 4))).within(BOX)
    labels = rows.labels(first_column)
    assert labels.chunks == ((4, 0, 8),)
    assert labels.dtype == np.int64
    assert labels.compute().tolist() == ROWS[:, 0].tolist()
    assert (labels + 1).sum().compute() == ROWS[:, 0].sum() + 12


def test_labels_stand_beside_the_rows_they_belong_to():
    frame = frame_of(ROWS, (4, 4))
    labels = ClusterTable(frame).within(BOX).labels(first_column)
    whole = frame.assign(cluster=labels).compute()
    assert whole["cluster"].tolist() == whole["a"].tolist() == ROWS[:, 0].tolist()


def test_what_a_site_says_of_its_rows():
    table = ClusterTable(frame_of(ROWS, (0, 5)))
    said = table.ranges()
    assert (said.n_rows, said.n_features) == (12, 2)
    assert said.low.tolist() == [0.0, 1.0]
    assert said.high.tolist() == [22.0, 23.0]
    assert table.ranges(False).low.size == table.ranges(False).high.size == 0
    assert table.medians().tolist() == [11.0, 12.0]
    assert table.columns == ("a", "b")
    assert ClusterTable(da.from_array(ROWS)).columns == ()


def test_the_fingerprint_knows_rows_and_names():
    prints = [
        ClusterTable(frame).fingerprint()
        for frame in (
            frame_of(ROWS, (5,)),
            frame_of(ROWS, (5,)),
            frame_of(ROWS + 1, (5,)),
            frame_of(ROWS, (5,), "cd"),
        )
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_how_many_are_computed_together_does_not_show(monkeypatch, at_once):
    monkeypatch.setattr("afcl.runtime.cluster.AT_ONCE", at_once)
    rows = ClusterTable(frame_of(ROWS, (1, 4, 6, 7))).within(BOX)
    assert list(rows.map(len)) == [1, 3, 2, 1, 5]


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 3], dtype="Int64"),
        pd.Series(["1", "nan", "3"], dtype=object),
        np.array([1.0, np.nan, 3.0], dtype=np.float32),
    ],
    ids=["nullable", "words for numbers", "float32"],
)
def test_numbers_of_every_kind_are_read(column):
    frame = pd.DataFrame({"a": column, "b": [True, False, True]})
    whole = frame.iloc[[0, 2]]
    table = ClusterTable(dd.from_pandas(whole, npartitions=1))
    assert table.take(np.arange(2)).tolist() == [[1.0, 1.0], [3.0, 1.0]]
    with pytest.raises(InputError, match="column 'a' has missing"):
        ClusterTable(dd.from_pandas(frame, npartitions=1))


def test_arrays_of_objects_are_read_by_column():
    mixed = np.array([[1, "2"], [3, "4"]], dtype=object)
    table = ClusterTable(da.from_array(mixed, chunks=(1, 1)))
    assert table.take(np.arange(2)).tolist() == [[1.0, 2.0], [3.0, 4.0]]


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"b": [1.0, np.nan, 2.0, 3.0]}, "column 'b' has missing or infinite values"),
        ({"b": [1.0, 2.0, 3.0, np.inf]}, "column 'b' has missing or infinite values"),
        ({"b": ["1", "x", "2", "3"]}, "column 'b' is not all numbers"),
        ({"b": pd.to_datetime(["2026-01-01"] * 4)}, "column 'b' is not all numbers"),
    ],
    ids=["missing", "infinite", "text", "dates"],
)
def test_a_bad_partition_names_its_column(cluster, bad, words):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], **bad})
    with pytest.raises(InputError, match=words) as caught:
        ClusterTable(dd.from_pandas(frame, npartitions=2))
    assert "\n" not in str(caught.value)
    assert "in partition " in str(caught.value)


@pytest.mark.parametrize(
    ("collection", "words"),
    [
        (ROWS, "not ndarray"),
        (da.ones((3, 2, 2)), "not Array"),
        (dask.delayed(ROWS), "not Delayed"),
        (da.ones((0, 2)), "has no rows"),
        (da.ones((3, 0)), "has no columns"),
    ],
    ids=["array", "three dimensions", "delayed", "no rows", "no columns"],
)
def test_what_is_no_table_is_refused(collection, words):
    with pytest.raises(InputError, match=words):
        ClusterTable(collection)


def test_all_rows_at_once_are_refused():
    with pytest.raises(InputError, match="these are on a cluster: use the default"):
        ClusterTable(frame_of(ROWS, (4,))).within(BOX).table()


def test_rows_that_change_between_readings_are_refused():
    read = []

    def shrinking(piece):
        read.append(len(piece))
        return piece.iloc[: 13 - len(read)]

    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    rows = ClusterTable(dd.from_map(shrinking, [frame], meta=frame.iloc[:0])).within(
        BOX
    )
    with pytest.raises(InputError, match="had 12 rows and now has 11: persist"):
        list(rows.map(total))
    with pytest.raises(InputError, match="had 12 rows and now has 10: persist"):
        rows.labels(first_column).compute()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(InputError, match=r"pip install 'afcl\[cluster\]'"):
        ClusterTable(ROWS)


def test_work_is_a_function_of_the_rows_alone(cluster):
    # The partial that a reply sends along survives the way to the workers.
    X = mixture(0, n=500)
    rows = ClusterTable(frame_of(X, (100,))).within(Box(np.zeros(3), np.ones(3)))
    labels = rows.map(partial(_nearest, X[:3]))
    assert np.array_equal(np.concatenate(list(labels)), assign(X, X[:3])[0])


def _nearest(centers, part):
    return assign(part, centers)[0]
