"""Tables that are arrays: the same run, and what is refused in one line."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import array_api_strict
import numpy as np
import pytest

from afcl import AFCL
from afcl.core.rows import RowsInPlace
from afcl.exceptions import InputError
from afcl.kernels import gpu
from afcl.kernels.arrays import ArrayPasses
from afcl.methods import get_method
from afcl.runtime.arrays import (
    ArrayTable,
    brought_back,
    check_device,
    in_place,
    is_elsewhere,
    moved,
)
from afcl.runtime.simulate import simulate, sizes_of
from afcl.runtime.spec import Spec
from afcl.scale import no_box

LEVELS = ["summary", "secure(plain)+summary"]


def tables(n: int = 700, d: int = 3) -> list[Any]:
    rng = np.random.default_rng(0)
    spots = rng.random((4, d)) * 10
    return [
        spots[rng.integers(0, 4, n)] + rng.normal(size=(n, d)) * 0.3 for _ in range(4)
    ]


def test_clusters_that_are_not_round_on_arrays():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, (3, 300))
    ring = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    blob = rng.normal(0, 0.4, (3, 100, 2))
    given = [
        np.concatenate([around + rng.normal(0, 0.2, around.shape), inside])
        for around, inside in zip(ring, blob, strict=True)
    ]
    spec = Spec(get_method("afcl"), {"shape": "connected"}, 0)
    expected = simulate(spec, given)
    found = simulate(spec, [ArrayTable(array_api_strict.asarray(t)) for t in given])
    assert found.clustering.k == expected.clustering.k == 2
    for one, other in zip(found.labels, expected.labels, strict=True):
        assert np.array_equal(np.concatenate(list(one)), other)
        assert np.array_equal(sizes_of(one, 2), sizes_of(other, 2))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_on_arrays_is_that_on_tables(level, dtype):
    given = [table.astype(dtype) for table in tables()]
    spec = Spec(get_method("afcl"), {"privacy": level}, 0)
    expected = simulate(spec, [table.astype(np.float64) for table in given])
    found = simulate(spec, [ArrayTable(array_api_strict.asarray(t)) for t in given])
    assert found.clustering.k == expected.clustering.k
    assert found.clustering.centers is not None
    assert expected.clustering.centers is not None
    np.testing.assert_allclose(
        found.clustering.centers,
        expected.clustering.centers,
        atol=1e-5 if dtype == "float32" else 1e-10,
    )
    np.testing.assert_array_equal(
        sizes_of(found.labels[1], 4), sizes_of(expected.labels[1], 4)
    )
    assert isinstance(
        found.labels[0].collection(), array_api_strict._array_object.Array
    )
    back = brought_back(found)
    np.testing.assert_array_equal(back.joined_labels, expected.joined_labels)
    assert brought_back(expected).labels[0] is expected.labels[0]


def test_rows_answer_where_they_are_or_part_by_part():
    table = tables()[0]
    rows = ArrayTable(table).rows.within(no_box(3))
    assert isinstance(rows, RowsInPlace)
    assert sum(rows.map(len)) == 700
    np.testing.assert_array_equal(rows.take(np.array([1, 4])), table[[1, 4]])
    with pytest.raises(InputError, match="are on a device"):
        rows.table()


def test_what_a_table_says_of_itself():
    ranges = ArrayTable(np.ones((5, 2))).ranges(extremes=False)
    assert ranges.n_rows == 5
    assert ranges.low.shape == (0,)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(3), "1 dimensions"),
        (np.zeros((3, 2), dtype=np.float16), "float16"),
        (np.zeros((3, 2), dtype=np.int64), "int64"),
        (np.array([[0.0, np.nan]]), "missing or infinite"),
        (np.array([[0.0, np.inf]]), "missing or infinite"),
    ],
)
def test_what_is_no_table_is_refused(values, words):
    with pytest.raises(InputError, match=words):
        ArrayTable(values)


class Elsewhere:
    """An array on another device, as far as DLPack is concerned."""

    def __init__(self, values: Any, device: str = "cuda:0") -> None:
        self.values, self.device = values, device
        self.shape, self.dtype = values.shape, values.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def detach(self) -> Any:
        return self.values


def test_estimators_take_arrays_where_they_are():
    given = tables()
    assert is_elsewhere(Elsewhere(given[0]))
    assert not is_elsewhere(given[0])
    assert not is_elsewhere(array_api_strict.asarray(given[0]))
    expected = AFCL(random_state=0).fit_clients(given)
    model = AFCL(random_state=0).fit_clients([Elsewhere(table) for table in given])
    assert model.n_clusters_ == expected.n_clusters_
    np.testing.assert_allclose(
        model.cluster_centers_, expected.cluster_centers_, atol=1e-8
    )
    assert model.labels_ is None
    np.testing.assert_array_equal(model.client_labels_[2], expected.client_labels_[2])
    assert model.client_labels_[2].dtype == np.int32


def test_devices_are_not_mixed():
    table = tables()[0]
    with pytest.raises(InputError, match="cuda:0 and the CPU"):
        in_place([Elsewhere(table), table])
    with pytest.raises(InputError, match="cuda:0 and cuda:1"):
        in_place([Elsewhere(table), Elsewhere(table, "cuda:1")])


def test_without_pytorch_a_device_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs PyTorch"):
        AFCL(device="cuda").fit_clients(tables())
    with pytest.raises(InputError, match=r"needs PyTorch"):
        check_device([], "cuda")
    check_device([], "auto")


def test_tables_are_moved_once_and_labels_come_back(monkeypatch):
    seen = []

    def move(values: Any, device: str) -> Any:
        seen.append(device)
        return values

    monkeypatch.setattr(gpu, "moved", move)
    given = tables()
    expected = AFCL(random_state=0).fit_clients(given)
    model = AFCL(random_state=0, device="cuda").fit_clients(given)
    assert seen == ["cuda"] * 4
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    pooled = AFCL(random_state=0, device="cuda").fit(
        np.concatenate(given), clients=np.repeat(range(4), 700)
    )
    np.testing.assert_array_equal(pooled.labels_, expected.labels_)
    known = ArrayTable(given[0])
    assert moved([np.empty((0, 3)), known], "cuda")[1] is known


def test_rows_that_are_streamed_are_not_moved():
    class Streamed:
        streamed = True

    with pytest.raises(InputError, match="read part by part"):
        check_device([Streamed()], "cuda")


def test_a_tensor_gets_the_passes_of_its_library(monkeypatch):
    asked = []

    def passes_for(values: Any, box: Any, places: Any, known: Any) -> Any:
        asked.append(known)
        return ArrayPasses(np.asarray(values), box, places)

    monkeypatch.setattr(gpu, "passes_for", passes_for)
    kind = type("Tensor", (np.ndarray,), {"__module__": "torch"})
    table = ArrayTable(tables()[0].view(kind))
    table.within(no_box(3))
    assert asked[0] is None
    assert asked[1] is not None
    assert isinstance(gpu, ModuleType)
