# SPDX-License-Identifier: Apache-2.0
"""Passes over many rows: tiles, blocks, threads, wide tables, numbers of 32 bits.

What is small and narrow is compared bit for bit in test_parity.py.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.kernels import native, passes, reference, threads, tiles
from afcl.parts import BLOCK

#: As plain Python (see test_parity.py) the kernels are slow: fewer rows do.
MANY = 300 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 5000


def request(centers, *scores, rng=None):
    """Return what a tally asks for: as many sets of two centres as scores, and rest."""
    k = centers.shape[0]
    bounds = np.array([*range(0, 2 * len(scores), 2), k])
    spreads = np.zeros(k) if rng is None else rng.random(k)
    return centers, bounds, np.array(scores), spreads, np.arange(1.0, k + 1.0)


def mixture(seed, n, d, k, far=0.0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) + far
    X = centers[rng.integers(0, k, n)] + 0.3 * rng.normal(size=(n, d))
    return X, centers + 0.1 * rng.normal(size=(k, d)), rng


@pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])
def test_tally_by_hand(backend):
    # Centres 0 and 10, and 4 alone. Rows 1, 2, 9: the first two are 0's: counts 2, sum
    # of x - c is 3, of squares 1 + 4; 9 is 10's: 1, -1, 1. For 4: 3, -3 - 2 + 5, 38.
    X = np.array([[1.0], [2.0], [9.0]])
    centers = np.array([[0.0], [10.0], [4.0]])
    spreads, sizes = np.array([0.5, 2.0, 0.0]), np.array([2.0, 1.0, 3.0])
    counts, firsts, seconds, totals, slabs = backend.tally(
        X, centers, np.array([0, 2, 3]), np.array([2, 0]), spreads, sizes
    )
    assert counts.tolist() == [2.0, 1.0, 3.0]
    assert firsts[:, 0].tolist() == [3.0, -1.0, 0.0]
    assert seconds.tolist() == [5.0, 1.0, 38.0]
    # Simplified: 1 - 1/9, 1 - 2/8, 1 - 1/9. Moment of 1: a^2 = (1 + .5) 2/1 = 3 and
    # b^2 = 81 + 2; of 2: a^2 = (4 + .5) 2 = 9, b^2 = 64 + 2; 10's cluster is one row.
    assert totals[0, 0] == pytest.approx(8 / 9 + 3 / 4 + 8 / 9, abs=1e-15)
    moment = 1 - np.sqrt(3 / 83) + 1 - np.sqrt(9 / 66)
    assert totals[0, 1] == pytest.approx(moment, abs=1e-15)
    assert totals[1].tolist() == [0.0, 0.0]
    # From 0 to 10 the rows lie at .1, .2 and .9; of 4 alone nobody asked.
    assert slabs.tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])
@pytest.mark.parametrize(("n", "d"), [(0, 2), (200, 1), (2 * MANY, 2), (200, 12)])
def test_a_tally_counts_the_rows_in_valleys(backend, seed, n, d):
    # Of the second and the last set; the others have none.
    X, centers, rng = mixture(seed, n, d, 9)
    asked = request(centers, 0, 2, 1, 2, rng=rng)
    slabs = backend.tally(X, *asked)[4]
    for place, scored in enumerate((False, True, False, True)):
        own = slice(asked[1][place], asked[1][place + 1])
        expected = reference.valleys(X, np.ones(n), centers[own])
        assert np.array_equal(slabs[own], expected * scored)
        assert not scored or n == 0 or expected.sum() > 0


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n", [127, 128, 129, MANY, 2 * MANY])
def test_blocks_and_tiles_do_not_show_in_narrow_tables(seed, n, d):
    X, centers, rng = mixture(seed, n, d, 7)
    asked = request(centers, 2, 1, 0, rng=rng)
    for found, expected in zip(
        native.tally(X, *asked), reference.tally(X, *asked), strict=True
    ):
        assert np.array_equal(found, expected)
    labels, nearest = native.assign(X, centers)
    known, apart = reference.assign(X, centers)
    assert np.array_equal(labels, known)
    assert np.array_equal(nearest, apart)


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize(("d", "k"), [(9, 40), (17, 40), (40, 7), (70, 33)])
def test_wide_tables_agree_with_the_reference(monkeypatch, seed, d, k, far):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # compiled code is kept on the disk
        monkeypatch.setattr(tiles, "SMALL_WIDE", 0)
    X, centers, rng = mixture(seed, MANY, d, k, far)
    asked = request(centers, 2, 1, 0, rng=rng)
    found, expected = native.tally(X, *asked), reference.tally(X, *asked)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[4], expected[4])
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-7 if far else 1e-10)
    loose = MANY * (1e-7 if far else 1e-14)
    np.testing.assert_allclose(found[3], expected[3], rtol=0, atol=loose)
    labels, nearest = native.assign(X, centers)
    known, apart = reference.assign(X, centers)
    assert np.array_equal(labels, known)
    np.testing.assert_allclose(nearest, apart, rtol=1e-10)
    moved, _ = native.lloyd(X, np.ones(MANY), centers, 3)
    expected_moves, _ = reference.lloyd(X, np.ones(MANY), centers, 3)
    np.testing.assert_allclose(moved, expected_moves, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])
@pytest.mark.parametrize("d", [3, 12])
def test_whole_blocks_are_added_to_what_was_before(seed, backend, d):
    X, centers, rng = mixture(seed, 2 * BLOCK + 7, d, 5)
    asked = request(centers, 0, 2, rng=rng)
    expected = backend.tally(X, *asked)
    first = backend.tally(X[:BLOCK], *asked)
    kept = [each.copy() for each in first]
    found = backend.tally(X[BLOCK:], *asked, before=first)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(first, kept, strict=True):
        assert np.array_equal(one, other)  # what was given is not written to


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5, 2), (700, 3), (2, 1500)])
def test_rows_are_scaled_as_the_reference_does_it(seed, shape):
    rng = np.random.default_rng(seed)
    X, low, span = rng.normal(size=shape), rng.random(shape[1]), rng.random(shape[1])
    found = native.scaled(X, low, span)
    assert np.array_equal(found, reference.scaled(X, low, span))
    assert found.flags.c_contiguous
    every = native.scaled(X[::2], low, span)
    assert np.array_equal(every, found[::2])


def test_working_memory_begins_with_a_line_of_the_cache():
    for shape in ((1,), (3, 5), (2, 7, 16)):
        found = passes.aligned(*shape)
        assert found.shape == shape
        assert not found.any()
        assert found.ctypes.data % 64 == 0


def test_small_wide_tables_have_the_bits_of_the_reference(seed):
    X, centers, rng = mixture(seed, 60, 30, 9)
    asked = request(centers, 2, 1, 0, rng=rng)
    for found, expected in zip(
        native.tally(X, *asked), reference.tally(X, *asked), strict=True
    ):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_the_number_of_threads_does_not_show(monkeypatch, seed, d, parts):
    monkeypatch.setattr(threads, "LARGE", 1)
    X, centers, rng = mixture(seed, 4 * MANY, d, 9)
    asked = request(centers, 2, 1, 0, rng=rng)
    monkeypatch.setenv("AFCL_THREADS", "1")
    expected = (*native.tally(X, *asked), *native.assign(X, centers))
    monkeypatch.setenv("AFCL_THREADS", str(parts))
    found = (*native.tally(X, *asked), *native.assign(X, centers))
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("d", [3, 20])
def test_levels_do_not_depend_on_the_number_of_threads(monkeypatch, seed, d):
    monkeypatch.setattr(threads, "LARGE", 1)
    X, centers, rng = mixture(seed, 300, d, 24)
    weights = rng.integers(1, 9, 300).astype(float)
    cells = (X, weights, rng.random(300))
    seeds = (centers, np.ones(24))
    merges = native.ward(seeds[1], centers)[:2]
    monkeypatch.setenv("AFCL_THREADS", "1")
    expected = native.levels(cells, seeds, merges, 20, 8)
    assert len(expected) == 19
    monkeypatch.setenv("AFCL_THREADS", "3")
    found = native.levels(cells, seeds, merges, 20, 8)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.parametrize("d", [2, 12])
def test_numbers_of_32_bits_are_added_up_in_64(seed, d):
    X, centers, rng = mixture(seed, MANY, d, 6)
    asked = request(centers, 2, 0, rng=rng)
    short = X.astype(np.float32)
    expected = reference.tally(short.astype(np.float64), *asked)
    for backend in (reference, native):
        for found, known in zip(backend.tally(short, *asked), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-10)


def test_threads_stay_but_not_in_a_fork():
    here, elsewhere = os.getpid(), os.getpid() + 1
    assert threads._threads(2, here) is threads._threads(2, here)
    assert threads._threads(2, here) is not threads._threads(2, elsewhere)


def test_the_number_of_threads_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    monkeypatch.delenv("AFCL_THREADS", raising=False)
    assert threads.workers() == 3
    monkeypatch.setenv("AFCL_THREADS", "2")
    assert threads.workers() == 2
    monkeypatch.delenv("AFCL_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert threads.workers() >= 1
    monkeypatch.setenv("AFCL_THREADS", "many")
    with pytest.raises(InputError, match="AFCL_THREADS is 'many'"):
        threads.workers()


def test_an_error_in_a_thread_is_not_lost(monkeypatch):
    monkeypatch.setenv("AFCL_THREADS", "2")

    def work(first, last):
        raise ValueError(f"{first} {last}")

    with pytest.raises(ValueError, match="0 5"):
        threads.in_ranges(work, 10, 1 << 40)


def test_ranges_make_up_the_whole(monkeypatch):
    monkeypatch.setenv("AFCL_THREADS", "2")
    for n, shares in ((10, 1), (10, 4), (3, 4), (1, 4), (0, 4)):
        found: dict[int, int] = {}
        threads.in_ranges(found.__setitem__, n, 1 << 40, shares)
        parts = sorted(found.items())
        assert len(parts) == max(1, min(n, 2 * shares))
        assert [i for a, b in parts for i in range(a, b)] == list(range(n))
