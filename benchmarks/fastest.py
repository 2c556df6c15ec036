# SPDX-License-Identifier: Apache-2.0
"""Whole runs beside other libraries, on both kinds of data: CPU and wall seconds.

A sweep k = 2 to 10 on the pooled rows by every library of k-means that is installed,
other ways to an unknown k, and a run of AFCL over five sites at both levels, turn by
turn in one process; then a client's step beside one Lloyd iteration. What is not
installed is named; none of it is needed for anything else: scikit-learn-intelex,
faiss-cpu, superkmeans, betula-cluster, fast_hdbscan.
``python benchmarks/fastest.py [--turns 3] [--threads 1] [--shapes 200000x2 ...]``
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data import make_mixture
from afcl.kernels import tally
from turns import lloyd_iteration, timed

SHAPES = ("200000x2", "1000000x16")
#: From these rows on a sweep is done once.
LARGE = 3_000_000
CENTERS = 32
SWEEP = range(2, 11)
#: Lloyd iterations of libraries that do not stop by themselves.
ITERATIONS = 25
#: Rows up to which a density-based method is waited for, and the features.
FEW, NARROW = 100_000, 4
#: Libraries by the name they are installed under, and what is imported.
LIBRARIES = {
    "scikit-learn-intelex": "sklearnex.cluster",
    "faiss-cpu": "faiss",
    "superkmeans": "superkmeans",
    "betula-cluster": "betula_cluster",
    "fast_hdbscan": "fast_hdbscan",
}
Answer = tuple[int, Ints] | None
Work = Callable[[], Answer]


def blobs(n: int, d: int) -> tuple[Floats, Ints]:
    """Rows as a new user would make them."""
    X, y = make_blobs(n, d, centers=8, cluster_std=0.7, random_state=1)
    return X, y


def mixture(n: int, d: int) -> tuple[Floats, Ints]:
    """Rows of the stored benchmark."""
    X, y = make_mixture(8, d, separation=2.5, imbalance=1, random_state=0, n_samples=n)
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    return X, y


def installed() -> dict[str, Any]:
    """Return the libraries that are there, and name the others."""
    found = {}
    for name, module in LIBRARIES.items():
        try:
            found[name] = import_module(module)
        except ImportError as error:
            print(f"not measured: {name} ({error})")
    return found


@contextmanager
def on_threads(threads: int) -> Iterator[None]:
    """Let everybody use so many threads."""
    os.environ["AFCL_THREADS"] = str(threads)
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def estimator_sweep(kind: Any, X: Floats) -> None:
    """Fit scikit-learn's estimator, or one like it, for every k."""
    for k in SWEEP:
        kind(k, n_init=1, random_state=0).fit(X)


def faiss_sweep(faiss: Any, X: Any) -> None:
    """Train faiss on all rows for every k."""
    for k in SWEEP:
        model = faiss.Kmeans(
            X.shape[1], k, niter=ITERATIONS, seed=0, max_points_per_centroid=X.shape[0]
        )
        model.train(X)
        model.assign(X)


def superkmeans_sweep(module: Any, X: Any, threads: int) -> None:
    """Train superkmeans on all rows for every k."""
    for k in SWEEP:
        model = module.SuperKMeans(
            k,
            X.shape[1],
            hierarchical=False,
            iters=ITERATIONS,
            sampling_fraction=1.0,
            n_threads=threads,
        )
        model.assign(X, model.train(X))


def federation(X: Floats, privacy: str | None, seed: int) -> Answer:
    """Run AFCL over five sites."""
    options: dict[str, Any] = {} if privacy is None else {"privacy": privacy}
    model = AFCL(random_state=seed, **options).fit_clients(np.array_split(X, 5))
    return model.n_clusters_, model.labels_


def labelled(fit: Callable[[], Any]) -> Answer:
    """Return what an estimator's labels are."""
    labels = np.asarray(fit())
    return np.unique(labels[labels >= 0]).shape[0], labels


def sweeps(X: Floats, found: dict[str, Any], threads: int) -> dict[str, Work]:
    """Return what is measured, by name."""
    single = np.ascontiguousarray(X, dtype=np.float32)
    works: dict[str, Callable[[], Any]] = {
        "scikit-learn, nine fits": partial(estimator_sweep, KMeans, X)
    }
    if "scikit-learn-intelex" in found:
        kind = found["scikit-learn-intelex"].KMeans
        works["scikit-learn-intelex, nine fits"] = partial(estimator_sweep, kind, X)
    if "faiss-cpu" in found:
        found["faiss-cpu"].omp_set_num_threads(threads)
        works["faiss, nine fits"] = partial(faiss_sweep, found["faiss-cpu"], single)
    if "superkmeans" in found:
        works["superkmeans, nine fits"] = partial(
            superkmeans_sweep, found["superkmeans"], single, threads
        )
    if "betula-cluster" in found:
        model = found["betula-cluster"].Betula
        fit = partial(model(0, auto_k_max=10).fit_predict, X)
        works["betula-cluster, k unknown"] = partial(labelled, fit)
    if "fast_hdbscan" in found and len(X) <= FEW and X.shape[1] <= NARROW:
        density = found["fast_hdbscan"].HDBSCAN(min_cluster_size=500)
        works["fast_hdbscan, k unknown"] = partial(
            labelled, partial(density.fit_predict, X)
        )
    works["AFCL, summary"] = partial(federation, X, "summary", 0)
    works["AFCL, default level"] = partial(federation, X, None, 0)
    return works


def iteration(X: Floats) -> None:
    """Print one Lloyd iteration beside a client's step with as many centres."""
    rng = np.random.default_rng(1)
    centers = X[np.sort(rng.choice(X.shape[0], CENTERS, replace=False))].copy()
    nothing = np.zeros(CENTERS)
    bounds, scores = np.array([0, CENTERS]), np.array([1])
    step = partial(tally, X, centers, bounds, scores, nothing, nothing)
    step()
    ratios, own = [], []
    for _ in range(5):
        theirs, _ = lloyd_iteration(X, centers)
        own.append(timed(step)[1][0])
        ratios.append(theirs / own[-1])
    print(
        f"  a step with {CENTERS} centres {np.median(own):.4f} s, "
        f"{np.median(ratios):.2f} times as fast as an iteration of scikit-learn"
    )


def measure(
    X: Floats, y: Ints, found: dict[str, Any], threads: int, turns: int
) -> None:
    """Print a line for everything that can be measured on these rows."""
    taken: dict[str, list[tuple[float, float]]] = {}
    answers: dict[str, Answer] = {}
    broken: dict[str, str] = {}
    works = sweeps(X, found, threads)
    federation(X[:: max(1, len(X) // 50_000)], None, 0)  # compiled, and loaded
    for _ in range(turns):
        for name, work in works.items():
            if name in broken:
                continue
            try:
                answers[name], seconds = timed(work)
            except Exception as error:
                broken[name] = f"{type(error).__name__}: {str(error)[:90]}"
                continue
            taken.setdefault(name, []).append(seconds)
    base = np.median(np.array(taken["scikit-learn, nine fits"]), axis=0)
    for name, each in taken.items():
        cpu, wall = np.median(np.array(each), axis=0)
        line = f"  {name:<32}{cpu:8.2f}{wall:8.2f}{base[0] / cpu:8.1f}"
        answer = answers[name]
        if answer is not None:
            k, labels = answer
            line += f"   k = {k}, ARI {adjusted_rand_score(y, labels):.4f}"
        print(line, flush=True)
    for name, why in broken.items():
        print(f"  {name:<32}failed: {why}")


def main() -> None:
    """Measure every shape and kind of data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count()])
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    asked = parser.parse_args()
    found = installed()
    for shape in asked.shapes:
        n, d = (int(word) for word in shape.split("x"))
        for kind in (blobs, mixture):
            X, y = kind(n, d)
            for threads in dict.fromkeys(asked.threads):
                print(
                    f"{n:,} x {d}, {kind.__name__}, {threads} thread(s)\n"
                    f"  {'':<32}{'CPU s':>8}{'wall s':>8}{'times':>8}"
                )
                with on_threads(threads):
                    measure(X, y, found, threads, 1 if n >= LARGE else asked.turns)
                    if threads == 1:
                        iteration(X)


if __name__ == "__main__":
    main()
