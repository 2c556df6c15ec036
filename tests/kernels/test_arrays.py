"""Passes on the array API beside the reference, with NumPy and the strict library."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import array_api_strict
import numpy as np
import pytest

from afcl import kernels
from afcl.exceptions import InputError
from afcl.kernels import arrays, reference, reference_picks
from afcl.kernels.arrays import ArrayPasses, Nest, in_one_line, standard, to_numpy
from afcl.scale import Box

LIBRARIES = {"numpy": np.asarray, "strict": array_api_strict.asarray}
TOLERANCES = {"float32": 2e-5, "float64": 1e-10}


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: Any) -> Any:
    return LIBRARIES[request.param]


@pytest.fixture(params=[3, 12])
def table(request: Any) -> Any:
    rng = np.random.default_rng(request.param)
    spots = rng.random((4, request.param)) * 10
    return spots[rng.integers(0, 4, 900)] + rng.normal(size=(900, request.param)) * 0.4


def box_of(table: Any, walls: bool | None = None) -> Box:
    low = table.min(axis=0)
    return Box(low, table.max(axis=0) - low, walls)


@pytest.mark.parametrize("dtype", sorted(TOLERANCES))
def test_a_tally_is_that_of_the_reference(library, table, dtype, monkeypatch):
    monkeypatch.setattr(arrays, "AT_ONCE", 1 << 12)  # several chunks
    rng = np.random.default_rng(1)
    given = table.astype(dtype)
    box, k = box_of(given.astype(np.float64)), 12
    centers = rng.random((k, table.shape[1]))
    bounds, scores = np.array([0, 5, 9, k]), np.array([0, 1, 2])
    sizes = np.array([9.0, 3, 4, 1, 7, 2, 5, 6, 8, 1, 40, 50])
    spreads = rng.random(k) * 0.05
    exact = box.scale(given.astype(np.float64))
    expected = reference.tally(exact, centers, bounds, scores, spreads, sizes)
    found = ArrayPasses(library(given), box).tally(
        centers, bounds, scores, spreads, sizes
    )
    close = TOLERANCES[dtype]
    for got, due in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, due, atol=close * 900, rtol=close)


def test_slabs_need_two_centres_apart(library):
    rows = np.random.default_rng(0).random((50, 2))
    same = np.array([[0.5, 0.5], [0.5, 0.5]])
    asked = (np.array([0, 2]), np.array([2]), np.full(2, 0.1), np.full(2, 9.0))
    expected = reference.tally(rows, same, *asked)
    found = ArrayPasses(library(rows)).tally(same, *asked)
    np.testing.assert_array_equal(found[4], np.zeros((2, 3)))
    np.testing.assert_allclose(found[3], expected[3], atol=1e-9)


def test_rows_on_their_centre_score_as_in_the_reference(library):
    rows = np.zeros((4, 1))
    centers = np.zeros((2, 1))
    asked = (np.array([0, 2]), np.array([2]), np.zeros(2), np.full(2, 2.0))
    expected = reference.tally(rows, centers, *asked)
    found = ArrayPasses(library(rows)).tally(centers, *asked)
    np.testing.assert_array_equal(found[3], expected[3])


@pytest.mark.parametrize("walls", [None, True])
def test_rows_are_scaled_as_in_main_memory(library, table, walls):
    odd = table.copy()
    odd[3, 1], odd[5, :2], odd[7, 2] = 1e6, -60.0, 80.0
    box, places = box_of(table, walls), np.array([2, 0])
    narrow = Box(box.low[places], box.span[places], walls)
    passes = ArrayPasses(library(odd), narrow, places)
    assert passes.shape == (900, 2)
    due = narrow.scale(odd[:, places])
    (found,) = passes.chunks(1)
    np.testing.assert_allclose(to_numpy(found), due, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(passes.take(np.array([3, 7])), due[[3, 7]])
    low, high = passes.extremes()
    np.testing.assert_allclose([low, high], [due.min(axis=0), due.max(axis=0)])


def test_without_a_box_rows_are_as_they_are(table):
    passes = ArrayPasses(table)
    np.testing.assert_array_equal(passes.take(np.arange(3)), table[:3])


def test_centres_are_placed_as_in_main_memory(library, table):
    index, draws = np.arange(0, 900, 2), np.random.default_rng(3).random(9)
    box = box_of(table)
    rows = box.scale(table[index])
    start = rows[reference_picks.plus_plus(rows, np.ones(len(rows)), draws)]
    expected, _ = reference.lloyd(rows, np.ones(len(rows)), start, 5)
    found = ArrayPasses(library(table), box).placed(index, draws, 5)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_no_more_is_picked_than_there_are_places(library):
    rows = np.repeat([[0.0], [1.0]], 20, axis=0)
    draws = np.random.default_rng(0).random(5)
    assert ArrayPasses(library(rows)).picked(library(rows), draws).shape == (2,)


def test_nested_groups_are_counted_and_summed(library, table):
    rng = np.random.default_rng(2)
    box, d = box_of(table), table.shape[1]
    rows = box.scale(table)
    coarse = Nest(rng.random((6, d)), np.zeros(6, dtype=np.int64), np.arange(6) // 2)
    fine = Nest(rng.random((8, d)), np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.arange(8))
    counts, firsts, squares = ArrayPasses(library(table), box).nested([coarse, fine])
    group = coarse.groups[reference.assign(rows, coarse.seeds)[0]]
    far = reference.squared_distances(rows, fine.seeds)
    far[group[:, None] != fine.parents[None, :]] = np.inf
    own = far.argmin(axis=1)
    for seed in range(8):
        gaps = rows[own == seed] - fine.seeds[seed]
        assert counts[seed] == len(gaps)
        np.testing.assert_allclose(firsts[seed], gaps.sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(squares[seed], (gaps**2).sum(axis=0), atol=1e-9)


def test_labels_stay_beside_the_rows(library, table, monkeypatch):
    monkeypatch.setattr(arrays, "AT_ONCE", 1 << 10)
    centers = np.random.default_rng(0).random((5, table.shape[1]))
    box = box_of(table)
    passes = ArrayPasses(library(table), box)
    labels, counts = passes.labels(centers)
    due, _ = reference.assign(box.scale(table), centers)
    assert type(labels) is type(library(table))
    np.testing.assert_array_equal(np.concatenate(list(passes.host_labels(labels))), due)
    np.testing.assert_array_equal(counts, np.bincount(due, minlength=5))
    renamed = passes.renamed(labels, np.array([4, 3, 2, 1, 0]))
    np.testing.assert_array_equal(
        np.concatenate(list(passes.host_labels(renamed))), 4 - due
    )


def test_few_rows_are_labelled_in_one_piece(library):
    labels, counts = ArrayPasses(library(np.ones((3, 2)))).labels(np.eye(2))
    assert to_numpy(labels).tolist() == [0, 0, 0]
    assert counts.tolist() == [3, 0]


class OnDevice:
    """An array of a library that gives a copy when it is asked to, as CuPy does."""

    def get(self) -> Any:
        return np.arange(3)


class Opaque:
    """An array that only DLPack can read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("not so")

    def __dlpack__(self, **asked: Any) -> Any:
        return np.arange(3.0).__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class TorchLike:
    """What calls itself a tensor."""

    def __init__(self) -> None:
        self.moved = False


def test_arrays_of_every_kind_come_to_main_memory(monkeypatch):
    assert to_numpy(OnDevice()).tolist() == [0, 1, 2]
    assert to_numpy(Opaque()).tolist() == [0.0, 1.0, 2.0]
    import array_api_compat

    monkeypatch.setattr(array_api_compat, "is_torch_array", lambda x: True)
    monkeypatch.setattr(array_api_compat, "to_device", lambda x, _: np.ones(2))
    assert to_numpy(TorchLike()).tolist() == [1.0, 1.0]


def test_without_the_library_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(InputError, match=r"afcl\[gpu\]"):
        standard(np.zeros(2))


def test_too_little_memory_is_said_in_one_line():
    class OutOfMemoryError(RuntimeError):
        pass

    with pytest.raises(InputError, match="too little free memory"), in_one_line():
        raise OutOfMemoryError("CUDA out of memory")
    with pytest.raises(KeyError), in_one_line():
        raise KeyError("something else")


def test_without_numba_everything_runs_in_numpy(monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        asked = args[2] if len(args) > 2 else kwargs.get("fromlist")
        if name == "afcl.kernels" and asked and "native" in asked:
            raise ModuleNotFoundError("No module named 'numba'", name="numba")
        return real(name, *args, **kwargs)

    kernels._native.cache_clear()
    monkeypatch.setenv("AFCL_KERNELS", "native")
    monkeypatch.setattr(builtins, "__import__", without)
    rows = np.random.default_rng(0).random((40, 3))
    found = kernels.assign(rows, rows[:4])
    np.testing.assert_array_equal(found[0], reference.assign(rows, rows[:4])[0])
    monkeypatch.undo()
    kernels._native.cache_clear()


def test_another_module_that_is_missing_is_no_reason_to_go_on(monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        asked = args[2] if len(args) > 2 else kwargs.get("fromlist")
        if name == "afcl.kernels" and asked and "native" in asked:
            raise ModuleNotFoundError("No module named 'other'", name="other")
        return real(name, *args, **kwargs)

    kernels._native.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError):
        kernels._native()
    monkeypatch.undo()
    kernels._native.cache_clear()
