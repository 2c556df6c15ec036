"""Rows on a real GPU. Skipped where there is none; run by hand on a machine with one:

python -m pytest -m gpu tests/kernels/gpu
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.kernels import reference, reference_picks
from afcl.kernels.arrays import ArrayPasses, Nest
from afcl.methods import get_method
from afcl.runtime.arrays import ArrayTable, in_place, moved
from afcl.runtime.coordinator import Spec
from afcl.runtime.simulate import simulate
from afcl.scale import Box

try:
    import torch
except ImportError:
    torch = None

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        torch is None or not torch.cuda.is_available(), reason="needs a CUDA GPU"
    ),
]


def blobs(n: int, d: int, k: int = 6, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    spots = rng.random((k, d)) * 10
    rows = spots[rng.integers(0, k, n)] + rng.normal(size=(n, d)) * 0.5
    return rows.astype(np.float32)


def fused(rows: Any, **about: Any) -> Any:
    from afcl.kernels.gpu.passes import FusedPasses

    passes = ArrayTable(torch.from_numpy(rows).cuda())._passes(**about)
    assert type(passes) is FusedPasses
    return passes


def box_of(rows: Any) -> Box:
    low = rows.min(axis=0).astype(np.float64)
    return Box(low, rows.max(axis=0).astype(np.float64) - low)


@pytest.mark.parametrize("d", [1, 2, 16, 33, 64, 128])
@pytest.mark.parametrize("k", [1, 7, 32, 128])
def test_a_tally_is_that_of_numpy(k, d):
    rows = blobs(20_011, d)
    box = box_of(rows)
    table = box.scale(rows.astype(np.float64))
    rng = np.random.default_rng(1)
    centers = rng.random((k + 300, d))
    sizes = rng.integers(1, 900, k + 300).astype(np.float64)
    spreads = rng.random(k + 300) * 0.02
    asked = (centers, np.array([0, 300, 300 + k]), np.array([0, 2 if k > 1 else 0]))
    expected = reference.tally(table, *asked, spreads, sizes)
    found = fused(rows, box=box).tally(*asked, spreads, sizes)
    # Rows as near to two centres as float32 tells may fall to either.
    odd = 8 if d != 1 else 40
    assert np.abs(found[0] - expected[0]).sum() <= odd
    assert found[0].sum() == expected[0].sum()
    whole = expected[0] > 200
    shift = found[1] / np.maximum(found[0], 1)[:, None]
    due = expected[1] / np.maximum(expected[0], 1)[:, None]
    np.testing.assert_allclose(shift[whole], due[whole], atol=1e-2 / 200 * odd)
    np.testing.assert_allclose(found[2].sum(), expected[2].sum(), rtol=1e-5)
    n = rows.shape[0]
    np.testing.assert_allclose(found[3] / n, expected[3] / n, atol=1e-5)
    assert np.abs(found[4] - expected[4]).sum() <= 2 * odd


@pytest.mark.parametrize("d", [5, 16, 20, 64])
@pytest.mark.parametrize("k", [33, 320, 700])
def test_both_silhouettes_of_many_centres_are_those_of_numpy(k, d):
    rows = blobs(20_011, d)
    box = box_of(rows)
    table = box.scale(rows.astype(np.float64))
    rng = np.random.default_rng(1)
    centers = table[rng.choice(len(table), k, replace=False)]
    sizes = rng.integers(1, 900, k).astype(np.float64)
    spreads = rng.random(k) * 0.02
    ask = fused(rows, box=box).asked(centers, spreads, sizes)
    ask.run(SCORE=2)
    counts, _, seconds, _ = ask.sums()
    bounds, scores = np.array([0, k]), np.array([2])
    expected = reference.tally(table, centers, bounds, scores, spreads, sizes)
    # A row as near to two centres as float32 tells may fall to either, and then it is
    # judged by that one's spread and size.
    fallen = np.abs(counts - expected[0]).sum() / 2
    assert fallen <= 4
    np.testing.assert_allclose(seconds.sum(), expected[2].sum(), rtol=1e-5)
    odd = np.abs(ask.totals() - expected[3][0])
    assert odd[0] <= 1e-5 * len(table)  # the simplified one is 0 at a tie
    assert odd[1] <= 1e-5 * len(table) + fallen


def test_rows_of_another_scale_and_a_part_of_a_table():
    rows = blobs(5000, 20) * 1e3 + 1e6
    wide = np.concatenate([rows, rows], axis=1)
    box = box_of(rows)
    plain = ArrayPasses(rows.astype(np.float64), box)
    passes = ArrayTable(torch.from_numpy(wide).cuda()[:, :20])._passes(box=box)
    centers = np.random.default_rng(0).random((40, 20))
    nothing = np.zeros(40)
    found = passes.tally_set(centers, nothing, nothing, 0)
    expected = plain.tally_set(centers, nothing, nothing, 0)
    assert np.abs(found[0] - expected[0]).sum() <= 4
    np.testing.assert_allclose(found[1].sum(0), expected[1].sum(0), atol=1)


@pytest.mark.parametrize("d", [3, 16])
def test_nested_groups_are_those_of_the_array_layer(d):
    rows = blobs(30_000, d)
    rng = np.random.default_rng(2)
    box = box_of(rows)
    coarse = Nest(rng.random((40, d)), np.zeros(40, dtype=np.int64), np.arange(40) // 2)
    parents = np.sort(np.concatenate([np.arange(20), rng.integers(0, 20, 60)]))
    fine = Nest(rng.random((80, d)), parents, np.arange(80))
    table = rows.astype(np.float64)
    for nests in ([coarse], [coarse, fine]):
        expected = ArrayPasses(table, box).nested(nests)
        found = fused(rows, box=box).nested(nests)
        assert np.abs(found[0] - expected[0]).sum() <= 8
        np.testing.assert_allclose(
            found[1].sum(0), expected[1].sum(0), atol=4, rtol=1e-4
        )
        np.testing.assert_allclose(
            found[2].sum(0), expected[2].sum(0), atol=4, rtol=1e-4
        )


def test_labels_and_picks():
    rows = blobs(50_000, 16)
    box = box_of(rows)
    plain, quick = ArrayPasses(rows.astype(np.float64), box), fused(rows, box=box)
    centers = np.random.default_rng(0).random((9, 16))
    labels, counts = plain.labels(centers)
    held, found = quick.labels(centers)
    assert held.dtype == torch.int32
    assert held.is_cuda
    assert (held.cpu().numpy() != labels).sum() <= 3
    assert np.abs(counts - found).sum() <= 6
    names = np.arange(9)[::-1].copy()
    renamed = quick.renamed(held.clone(), names)
    assert bool((renamed == 8 - held).all())
    index, draws = np.arange(0, 50_000, 5), np.random.default_rng(3).random(40)
    np.testing.assert_allclose(
        quick.placed(index, draws, 5), plain.placed(index, draws, 5), atol=1e-6
    )


@pytest.mark.parametrize("n", [1, 33, 5000, 32_768])
@pytest.mark.parametrize("d", [1, 16, 100])
def test_picks_are_those_of_numpy(n, d):
    rows = blobs(n, d).astype(np.float64)
    draws = np.random.default_rng(n).random(200)
    there = torch.from_numpy(rows).cuda()
    found = fused(blobs(10, d)).picked(there, draws)
    expected = reference_picks.plus_plus(rows, np.ones(n), draws)
    np.testing.assert_array_equal(found, expected)


def test_no_more_is_picked_than_there_are_places():
    there = torch.tensor([[0.0], [0.0], [1.0], [1.0]]).double().cuda().repeat(100, 1)
    draws = np.random.default_rng(0).random(9)
    assert fused(blobs(10, 1)).picked(there, draws).shape == (2,)


@pytest.mark.parametrize("level", ["summary", "secure(plain)+summary"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_is_that_of_numpy(level, dtype):
    tables = [blobs(4000, 16, seed=seed).astype(dtype) for seed in (0, 0, 0, 0)]
    spec = Spec(get_method("afcl"), {"privacy": level}, 0)
    expected = simulate(spec, [t.astype(np.float64) for t in tables])
    found = simulate(spec, in_place([torch.from_numpy(t).cuda() for t in tables]))
    assert found.clustering.k == expected.clustering.k
    close = 1e-5 if dtype == "float32" else 1e-10
    assert found.clustering.centers is not None
    assert expected.clustering.centers is not None
    np.testing.assert_allclose(
        found.clustering.centers, expected.clustering.centers, atol=close
    )
    held = found.labels[0].collection()
    assert held.is_cuda
    np.testing.assert_array_equal(held.cpu().numpy(), expected.labels[0])


def test_what_cannot_be_is_said_in_one_line():
    rows = torch.from_numpy(blobs(100, 3)).cuda()
    with pytest.raises(InputError, match="cuda:0 and the CPU"):
        in_place([rows, rows.cpu()])
    with pytest.raises(InputError, match="float16"):
        in_place([rows.half()])
    rows[3, 1] = float("nan")
    with pytest.raises(InputError, match="missing or infinite"):
        in_place([rows])
    with pytest.raises(InputError, match="not there"):
        moved([blobs(100, 3)], "cuda:64")


def test_too_little_memory_is_said_in_one_line():
    rows = torch.from_numpy(blobs(1000, 3)).cuda()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - (64 << 20), dtype=torch.uint8, device="cuda")
    with pytest.raises(InputError, match="too little free memory"):
        moved([np.zeros((40_000_000, 3))], "cuda")
    del hog
    assert rows.shape == (1000, 3)


def test_other_libraries_are_worked_on_where_they_are(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch has a share
    cupy = pytest.importorskip("cupy")
    table = blobs(3000, 4)
    spec = Spec(get_method("afcl"), {"privacy": "summary"}, 0)
    expected = simulate(spec, [table.astype(np.float64)] * 3)
    given = cupy.asarray(table)
    found = simulate(spec, in_place([given] * 3))
    assert found.clustering.k == expected.clustering.k
    assert isinstance(found.labels[0].collection(), cupy.ndarray)
    jax = pytest.importorskip("jax")
    found = simulate(spec, in_place([jax.numpy.asarray(table)] * 3))
    assert found.clustering.k == expected.clustering.k
