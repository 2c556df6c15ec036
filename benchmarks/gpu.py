# SPDX-License-Identifier: Apache-2.0
"""Rows on one GPU: passes, whole runs and rivals; the figures of docs/results/gpu.md.

Run it with a Python that has PyTorch for CUDA (and NumPy; Numba if it is there):

    make bench-gpu GPU_PYTHON=python3

Rows are drawn on the card. A pass is timed from the call until its sums are in main
memory, as the median of five; a run from the tensors to everybody's labels, k unknown.
Without Numba the server's reference kernels take most of a run: then every run is timed
once, without a warm-up.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from afcl.kernels import reference
from afcl.kernels.arrays import ArrayPasses
from afcl.kernels.gpu.passes import FusedPasses
from afcl.methods import get_method
from afcl.runtime.arrays import in_place
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec

#: Rows that are drawn at once.
DRAWN = 1 << 22
#: Clusters in the rows, and their width (they lie in a box of ten).
CLUSTERS, WIDTH = 8, 0.5
#: Rows, columns and centres of the passes, and the milliseconds that are asked for.
PASSES = (
    (100_000_000, 16, 32, 5.2),
    (100_000_000, 16, 320, 25.4),
    (20_000_000, 64, 32, 3.2),
    (20_000_000, 64, 320, 8.2),
    (1_000_000_000, 16, 320, 247.0),
)
LEVELS = ("summary", "secure(plain)+summary")


def rows_of(n: int, d: int, seed: int = 0) -> Any:
    """Draw a mixture on the card, in place."""
    draws = torch.Generator(device="cuda").manual_seed(1)
    spots = torch.rand(CLUSTERS, d, device="cuda", generator=draws) * 10
    draws.manual_seed(100 + seed)
    rows = torch.empty(n, d, device="cuda")
    for start in range(0, n, DRAWN):
        part = rows[start : start + DRAWN]
        own = torch.randint(CLUSTERS, part.shape[:1], device="cuda", generator=draws)
        part.normal_(0.0, WIDTH, generator=draws).add_(spots[own])
    return rows


def timed(work: Callable[[], Any], repeats: int = 5, warm: bool = True) -> float:
    """Return the median of milliseconds, after a warm-up."""
    if warm:
        work()
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def compiled() -> bool:
    """Whether the server's kernels are compiled ones."""
    choice = os.environ.get("AFCL_KERNELS", "auto")
    return importlib.util.find_spec("numba") is not None and choice != "reference"


def used() -> None:
    """Say on what, and with what, everything below was measured."""
    about = torch.cuda.get_device_properties(0)
    print(f"{about.name}, {about.total_memory / 2**30:.0f} GiB; {platform.machine()}")
    known = f"PyTorch {torch.__version__}, NumPy {np.__version__}, Python "
    print(known + platform.python_version())
    print(
        "server: compiled kernels (Numba)"
        if compiled()
        else "server: reference kernels (NumPy), as there is no Numba or none is wanted"
    )


def centers_among(rows: Any, k: int) -> Any:
    """Return rows as centres, in the rows' units."""
    return rows[: 64 * k : 64].double().cpu().numpy()


def passes() -> None:
    """Time assignment with counts, sums and both silhouettes; and check it."""
    print("\n| rows | columns | centres | asked, ms | both silhouettes, ms | the same, "
          "centres sent | counts and sums only, ms | one reading, ms |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for n, d, k, asked in PASSES:
        found = one_pass(n, d, k)
        torch.cuda.empty_cache()
        cells = " | ".join(f"{taken:.2f}" for taken in found)
        print(f"| {n:,} | {d} | {k} | {asked} | {cells} |", flush=True)


def one_pass(n: int, d: int, k: int) -> tuple[float, ...]:
    """Return milliseconds: with silhouettes, with preparations, without, reading."""
    rows = rows_of(n, d)
    fused = FusedPasses(rows)
    centers = centers_among(rows, k)
    spreads, sizes = np.full(k, 0.02), np.full(k, 1000.0)

    def launched(ask: Any, score: int) -> None:
        ask.run(SCORE=score)
        ask.sums()

    ready = fused.asked(centers, spreads, sizes)
    return (
        timed(lambda: launched(ready, 2)),
        timed(lambda: launched(fused.asked(centers, spreads, sizes), 2)),
        timed(lambda: launched(ready, 0)),
        timed(rows.sum),
    )


def checked() -> None:
    """Compare the fused pass with float64 in main memory."""
    for d, k in ((16, 32), (16, 320), (64, 32), (64, 320)):
        rows = rows_of(400_000, d)
        low, span = rows.amin(0), rows.amax(0) - rows.amin(0)
        scaled = (rows - low) / span
        centers = centers_among(scaled, k)
        spreads, sizes = np.full(k, 0.02), np.full(k, 1000.0)
        ask = FusedPasses(scaled).asked(centers, spreads, sizes)
        ask.run(SCORE=2)
        counts, firsts, *_ = ask.sums()
        exact = reference.tally(
            scaled.double().cpu().numpy(), centers, np.array([0, k]), np.array([2]),
            spreads, sizes,
        )  # fmt: skip
        means = firsts / np.maximum(counts, 1)[:, None]
        due = exact[1] / np.maximum(exact[0], 1)[:, None]
        weight = exact[0] / exact[0].sum()
        off = float((np.abs(means - due).max(axis=1) * weight).sum())
        totals = np.abs(ask.totals() - exact[3][0]).max() / len(scaled)
        moved = int(np.abs(counts - exact[0]).sum() / 2)
        print(f"checked, {d} columns, {k} centres, 400,000 rows: {moved} at another "
              f"centre, means off by {off:.1e} of the range (mean over rows), "
              f"silhouettes by {totals:.1e}", flush=True)  # fmt: skip


def runs(sizes: list[int], levels: list[str]) -> None:
    """Time whole runs of four sites, k unknown."""
    print("\n| rows in 4 sites x 16 | level | seconds | k | most memory / rows |")
    print("|---|---|---|---|---|")
    warm = [rows_of(200_000, 16, seed) for seed in range(4)]
    for level in levels if compiled() else []:
        spec = Spec(get_method("afcl"), {"privacy": level}, 0)
        simulate(spec, in_place(warm))
    del warm
    for n in sizes:
        sites = [rows_of(n // 4, 16, seed) for seed in range(4)]
        for level in levels:
            spec = Spec(get_method("afcl"), {"privacy": level}, 0)
            gc.collect()  # what a run before has left
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            taken = []
            for _ in range((5 if n < 1e9 else 2) if compiled() else 1):
                torch.cuda.synchronize()
                start = time.perf_counter()
                outcome = simulate(spec, in_place(sites))
                torch.cuda.synchronize()
                taken.append(time.perf_counter() - start)
                k = outcome.clustering.k
                del outcome
                gc.collect()
            peak = torch.cuda.max_memory_allocated() / (n * 16 * 4)
            print(f"| {n:,} | {level} | {min(taken):.3f} | {k} | {peak:.3f} |",
                  flush=True)  # fmt: skip
        del sites
        torch.cuda.empty_cache()


# ------------------------------------------------------------------------ rivals


def plain_step(rows: Any, centers: Any, chunk: int = 1 << 20) -> Any:
    """Return the centres after one Lloyd iteration: torch.cdist in chunks."""
    k, d = centers.shape
    sums = torch.zeros(k, d, device="cuda")
    counts = torch.zeros(k, device="cuda")
    for start in range(0, rows.shape[0], chunk):
        part = rows[start : start + chunk]
        own = torch.cdist(part, centers).argmin(1)
        sums.index_add_(0, own, part)
        counts += torch.bincount(own, minlength=k)
    return torch.where(counts[:, None] > 0, sums / counts[:, None], centers)


def _of_chunk(part: Any, centers: Any) -> tuple[Any, Any]:
    """Return sums and counts of a chunk, for the compiler."""
    far = (centers * centers).sum(1) - 2 * part @ centers.T
    own = far.argmin(1)
    hot = (own[:, None] == torch.arange(centers.shape[0], device="cuda")).to(part.dtype)
    return hot.T @ part, hot.sum(0)


def compiled_step(rows: Any, centers: Any, step: Any, chunk: int = 1 << 20) -> Any:
    """Return the same, by what torch.compile makes of a chunk."""
    k, d = centers.shape
    sums, counts = torch.zeros(k, d, device="cuda"), torch.zeros(k, device="cuda")
    for start in range(0, rows.shape[0] // chunk * chunk, chunk):
        more, held = step(rows[start : start + chunk], centers)
        sums += more
        counts += held
    return torch.where(counts[:, None] > 0, sums / counts[:, None], centers)


def sorted_step(rows: Any, fused: FusedPasses, centers: Any) -> Any:
    """Return the same: argmin on the fly, then a sort and sums of segments."""
    labels, counts = fused.labels(centers.double().cpu().numpy())
    order = torch.sort(labels)[1]
    lengths = torch.from_numpy(counts).cuda()
    sums = torch.segment_reduce(rows[order], "sum", lengths=lengths, axis=0)
    return torch.where(lengths[:, None] > 0, sums / lengths[:, None], centers)


def fused_step(fused: FusedPasses, centers: Any) -> Any:
    """Return the same, by the pass of AFCL without silhouettes."""
    there = centers.double().cpu().numpy()
    nothing = np.zeros(there.shape[0])
    counts, firsts, *_ = fused.tally_set(there, nothing, nothing, 0)
    means = there + firsts / np.maximum(counts, 1)[:, None]
    return torch.from_numpy(means).to("cuda", torch.float32)


def rivals(n: int, d: int) -> None:
    """Time one Lloyd iteration at equal k, each way."""
    rows = rows_of(n, d)
    fused = FusedPasses(rows)
    step = torch.compile(_of_chunk)
    print(f"\n| one iteration, {n:,} x {d} | 32 centres, ms | 320 centres, ms |")
    print("|---|---|---|")
    ways: dict[str, Callable[[Any], Any]] = {
        "AFCL's pass (no silhouettes)": lambda c: fused_step(fused, c),
        "argmin on the fly, then sort and sums of segments": (
            lambda c: sorted_step(rows, fused, c)
        ),
        "torch.cdist in chunks": lambda c: plain_step(rows, c),
        "torch.compile, chunks of 2^20": lambda c: compiled_step(rows, c, step),
    }
    for name, way in ways.items():
        cells = []
        for k in (32, 320):
            start = torch.from_numpy(centers_among(rows, k)).to("cuda", torch.float32)
            cells.append(f"{timed(lambda: way(start), 3):.1f}")  # noqa: B023
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def sweep(n: int, levels: list[str], most: int = 50) -> None:
    """Time a whole run beside k-means for k = 2 to 10 on all rows, one start each."""
    sites = [rows_of(n // 4, 16, seed) for seed in range(4)]
    print(f"\n| {n:,} x 16, all of it | seconds |")
    print("|---|---|")
    repeats = 3 if compiled() else 1
    for level in levels:
        spec = Spec(get_method("afcl"), {"privacy": level}, 0)
        taken = timed(
            lambda: simulate(spec, in_place(sites)),  # noqa: B023
            repeats, compiled(),
        )  # fmt: skip
        print(f"| AFCL, 4 sites, k unknown, {level} | {taken / 1e3:.2f} |", flush=True)
    rows = torch.cat(sites)
    fused = FusedPasses(rows)
    plain = ArrayPasses(rows)
    draws = np.random.default_rng(0).random(10)

    def fits(step: Callable[[Any], Any]) -> None:
        for k in range(2, 11):
            sample = rows[:: max(1, n // 32768)]
            centers = sample[torch.from_numpy(plain.picked(sample, draws[:k])).cuda()]
            for _ in range(most):
                moved = step(centers)
                if float((moved - centers).abs().max()) < 1e-3:
                    break
                centers = moved

    for name, way in {
        "k = 2 to 10 by AFCL's pass": lambda c: fused_step(fused, c),
        "k = 2 to 10 by torch.cdist in chunks": lambda c: plain_step(rows, c),
    }.items():
        print(f"| {name} | {timed(lambda: fits(way), 1) / 1e3:.2f} |", flush=True)  # noqa: B023


def main() -> None:
    """Print all tables, or some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="checked,passes,rivals,sweep,runs")
    parser.add_argument("--rows", default="1e8,1e9", help="Rows of the whole runs.")
    parser.add_argument("--levels", default=",".join(LEVELS), help="Of whole runs.")
    chosen = parser.parse_args()
    parts, levels = chosen.only.split(","), chosen.levels.split(",")
    used()
    if "checked" in parts:
        checked()
    if "passes" in parts:
        passes()
    if "rivals" in parts:
        rivals(100_000_000, 16)
    torch.cuda.empty_cache()
    if "sweep" in parts:
        sweep(10_000_000, levels)
    if "runs" in parts:
        runs([int(float(n)) for n in chosen.rows.split(",")], levels)


if __name__ == "__main__":
    main()
