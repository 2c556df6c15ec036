# SPDX-License-Identifier: Apache-2.0
"""How fast, as ratios within one run; ``make bench`` runs it and writes the page.

Every benchmark keeps its name for good, so that results of different versions can be
compared. Times are CPU seconds unless they say otherwise; work and its reference take
turns, on one thread each. What is asked stands in `extra_info` beside what was seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score
from threadpoolctl import threadpool_limits

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.core.client import reply
from afcl.core.messages import Level, Plan
from afcl.core.params import DefaultParams
from afcl.data import make_mixture
from afcl.kernels import tally
from turns import Seconds, compared, lloyd_iteration, timed

#: Rows, features and centres of a client step, and how many times Lloyd's speed.
STEPS = {
    (200_000, 2, 8): 1.0,
    (200_000, 2, 32): 1.2,
    (1_000_000, 16, 32): 1.2,
    (200_000, 64, 32): 1.2,
    (5_000_000, 4, 16): 1.2,
    (100_000, 784, 32): 1.0,
}
#: Sizes of the seven levels of a reply: 70 centres.
LEVELS = (4, 6, 8, 10, 12, 14, 16)
SEEDS = 256


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AFCL_THREADS", "1")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def mixture(n: int, d: int, k: int = 8) -> tuple[Floats, Ints]:
    """Rows of k Gaussian clusters in the unit box, and their clusters."""
    X, y = make_mixture(k, d, separation=2.5, imbalance=1, random_state=0, n_samples=n)
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    return X, y


def some(X: Floats, k: int, seed: int = 1) -> Floats:
    """Rows to begin with, as centres."""
    rng = np.random.default_rng(seed)
    return X[np.sort(rng.choice(X.shape[0], k, replace=False))].copy()


def take_turns(
    benchmark: Any,
    ours: Callable[[], Any],
    theirs: Callable[[], Seconds],
    turns: int,
    **asked: Any,
) -> dict[str, Any]:
    """Time both, turn by turn, and keep the figures with the benchmark."""
    own: list[Seconds] = []
    other: list[Seconds] = []
    ours()
    theirs()
    benchmark.pedantic(
        lambda: own.append(timed(ours)[1]),
        setup=lambda: other.append(theirs()),
        rounds=turns,
    )
    found = compared(own, other)
    benchmark.extra_info.update(found, **asked)
    return found


@pytest.mark.parametrize(
    ("n", "d", "k"), STEPS, ids=["-".join(map(str, shape)) for shape in STEPS]
)
def bench_client_step(benchmark: Any, n: int, d: int, k: int) -> None:
    """Nearest seed, count, sum, scatter and simplified silhouette against Lloyd."""
    X, _ = mixture(n, d)
    centers = some(X, k)
    nothing = np.zeros(k)
    work = partial(tally, X, centers, np.array([0, k]), np.array([1]), nothing, nothing)
    theirs = partial(lloyd_iteration, X, centers)
    turns = 7 if n * d * k > 2e8 else 31
    asked = STEPS[n, d, k]
    take_turns(benchmark, work, theirs, turns, n=n, d=d, k=k, asked_ratio=asked)


@pytest.mark.parametrize("d", [2, 16])
def bench_reply(benchmark: Any, d: int) -> None:
    """Answer 256 seeds and 7 levels with both silhouettes, against Lloyd at k = 326."""
    n = 200_000
    X, _ = mixture(n, d)
    levels = []
    for place, k in enumerate(LEVELS):
        centers = some(X, k, place)
        levels.append(Level(centers, np.full(k, 0.01), np.full(k, n / k), 0))
    plan = Plan(some(X, SEEDS), tuple(levels))
    centers = some(X, SEEDS + sum(LEVELS), 2)
    found = take_turns(
        benchmark,
        partial(reply, X, plan, DefaultParams()),
        partial(lloyd_iteration, X, centers),
        5,
        n=n,
        d=d,
        k=centers.shape[0],
    )
    benchmark.extra_info["iterations"] = 1 / found["ratio_cpu"]
    benchmark.extra_info["asked_iterations"] = 2.0


def sweep(X: Floats) -> list[KMeans]:
    """Fit a pooled k-means for every k from 2 to 10."""
    return [KMeans(k, n_init=1, random_state=0).fit(X) for k in range(2, 11)]


def score(X: Floats, models: list[KMeans]) -> list[float]:
    """Score every fit by the silhouette of 10 000 rows, as one would to choose k."""
    return [
        silhouette_score(X, model.labels_, sample_size=10_000, random_state=0)
        for model in models
    ]


@pytest.mark.parametrize(("n", "d"), [(200_000, 2), (1_000_000, 16)])
def bench_whole_run(benchmark: Any, n: int, d: int) -> None:
    """Five sites and an unknown k against a pooled sweep over k = 2 to 10."""
    X, y = mixture(n, d)
    tables = np.array_split(X, 5)
    models: list[Any] = []
    fits: list[AFCL] = []

    def ours() -> None:
        fits.append(AFCL(random_state=len(fits)).fit_clients(tables))

    def theirs() -> Seconds:
        found, seconds = timed(partial(sweep, X))
        models[:] = found
        return seconds

    turns = 3 if n * d > 1e6 else 9
    found = take_turns(benchmark, ours, theirs, turns, n=n, d=d, asked_ratio=4.0)
    scores, (scoring, _) = timed(partial(score, X, models))
    best = models[int(np.argmax(scores))]
    benchmark.extra_info.update(
        k=[fit.n_clusters_ for fit in fits],
        ari=[adjusted_rand_score(y, fit.labels_) for fit in fits],
        sweep_k=best.n_clusters,
        sweep_ari=adjusted_rand_score(y, best.labels_),
        ratio_with_scoring=(found["theirs_cpu"] + scoring) / found["ours_cpu"],
        asked_ratio_with_scoring=10.0,
    )


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of time over size, both logarithmic."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def growth(
    benchmark: Any, name: str, sizes: list[int], make: Callable[[int], list[Floats]]
) -> None:
    """Time whole runs of growing size and keep the exponent."""
    taken = []
    for size in sizes:
        tables = make(size)
        AFCL(random_state=0).fit_clients(tables)
        once = [
            timed(lambda t=tables: AFCL(random_state=1).fit_clients(t))[1][0]  # type: ignore[misc]
            for _ in range(3)
        ]
        taken.append(float(np.median(once)))
    tables = make(sizes[0])
    benchmark.pedantic(lambda: AFCL(random_state=1).fit_clients(tables), rounds=1)
    benchmark.extra_info.update(
        grows_with=name,
        sizes=sizes,
        cpu=taken,
        exponent=exponent(sizes, taken),
        asked_exponent=1.05,
    )


def bench_growth_in_rows(benchmark: Any) -> None:
    """From 50 000 to 5 000 000 rows of two features at five sites."""
    growth(
        benchmark,
        "rows",
        [50_000, 500_000, 5_000_000],
        lambda n: np.array_split(mixture(n, 2)[0], 5),
    )


def bench_growth_in_features(benchmark: Any) -> None:
    """From 4 to 400 features of 50 000 rows at five sites."""
    growth(
        benchmark,
        "features",
        [4, 40, 400],
        lambda d: np.array_split(mixture(50_000, d)[0], 5),
    )


def bench_growth_in_clients(benchmark: Any) -> None:
    """From 10 to 1 000 clients of 200 rows and two features each."""
    growth(
        benchmark,
        "clients",
        [10, 100, 1_000],
        lambda p: np.array_split(mixture(200 * p, 2)[0], p),
    )
