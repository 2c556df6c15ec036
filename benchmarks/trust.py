# SPDX-License-Identifier: Apache-2.0
"""Should k be trusted: false alarms, power, invariance and calibration, measured.

``python benchmarks/trust.py [--data DIR] [--only PART,...] [--runs N] [--plot FILE]
[--same-runs N] [--sets NAME,...] [--first SEED]``

*alarms*: rows without clusters (cubes, round and long Gaussians, Student's t with three
degrees of freedom, correlated columns; 2, 5 and 20 columns, 200 to 20,000 rows), dealt
out in five ways; how often clusters are found. *power*: mixtures whose centres are at
least 2.5 standard deviations apart and, with DIR, the suite; how often they are found.
*recovery*: how often k is right on mixtures, in the box and packed tightly.
*same*: with DIR, whether k stays when nothing new is said: rows or clients repeated,
shuffled, columns shuffled, shifted and scaled, twice as many clusters allowed.
*calibration*: how often k is right where so much confidence is told, on mixtures.
The default of everything, k never given. Prints tables in Markdown. *SEED* begins every
part at other seeds than those of the page.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.synthetic import BOX, make_mixture, random_mixture
from quality import CLUSTERS, LEAST, load, owners
from splits import SPLITS

PARTS = ("alarms", "power", "recovery", "same", "calibration")
#: How rows without clusters are dealt out.
DEALT = ("k-means 5", "random 5", "one site", "random 50", "20 rows each")
COLUMNS = (2, 5, 20)
ROWS = (200, 1000, 4000, 20_000)
#: First seeds. Which of them had been looked at when the rule was last changed stands
#: on the page; those of `recovery` had not.
FIRST = {
    "alarms": 500,
    "power": 5000,
    "recovery": 40_000,
    "same": 10,
    "calibration": 0,
}
#: Confidences from which on runs are counted together.
BINS = (0.0, 0.5, 0.7, 0.9, 1.0)


def quietly(X: Floats, seed: int, **options: object) -> AFCL:
    """Fit without warnings."""
    warnings.simplefilter("ignore")
    clients = options.pop("clients")
    return AFCL(random_state=seed, **options).fit(X, clients=clients)  # type: ignore[arg-type]


# ------------------------------------------------------------------ no clusters


def cube(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw evenly from a cube."""
    return rng.random((n, d))


def gaussian(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw from a round Gaussian."""
    return rng.normal(size=(n, d))


def elongated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw from a Gaussian ten times as long as wide, in any direction."""
    X = rng.normal(size=(n, d))
    X[:, 0] *= 10
    turned: Floats = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    return turned


def student(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw from Student's t with three degrees of freedom."""
    rows: Floats = rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)
    return rows


def correlated(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw from a Gaussian whose columns are correlated by .8."""
    own, common = rng.normal(size=(n, d)), rng.normal(size=(n, 1))
    rows: Floats = np.sqrt(0.2) * own + np.sqrt(0.8) * common
    return rows


def exponential(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw exponential columns: skewed, with a corner (for information)."""
    return rng.exponential(size=(n, d))


CLOUDS: dict[str, Callable[[int, int, np.random.Generator], Floats]] = {
    "cube": cube,
    "Gaussian": gaussian,
    "Gaussian 10 : 1": elongated,
    "Student's t, 3": student,
    "correlated .8": correlated,
    "exponential (for information)": exponential,
}


def corner(run: int) -> tuple[int, int, str]:
    """Return columns, rows and split of a run without clusters."""
    rest, d = divmod(run, len(COLUMNS))
    rest, n = divmod(rest, len(ROWS))
    return COLUMNS[d], ROWS[n], DEALT[rest % len(DEALT)]


def alarm(kind: str, run: int) -> tuple[int, str]:
    """Return k' and the verdict of one run without clusters."""
    rng = np.random.default_rng([run, *map(ord, kind)])
    d, n, split = corner(run)
    X = CLOUDS[kind](n, d, rng)
    model = quietly(X, run, clients=SPLITS[split](X, np.zeros(n, np.int64), run))
    return answer(model)


def answer(model: AFCL) -> tuple[int, str]:
    """Return k' and whether there are clusters: `clusters`, `none` or `unclear`."""
    assert model.structure_ is not None
    return model.n_clusters_, model.structure_["verdict"]


def alarms(runs: int, jobs: Parallel) -> None:
    """Print how often clusters are found where there are none, also by corner."""
    print("| rows without clusters | k' = 1 | found clusters | cannot tell |")
    print("|---|---|---|---|")
    seeds = range(FIRST["alarms"], FIRST["alarms"] + runs)
    wrong = {}
    for kind in CLOUDS:
        found = jobs(delayed(alarm)(kind, r) for r in seeds)
        told = [verdict for _, verdict in found]
        none = sum(k == 1 for k, _ in found)
        shares = [none, told.count("clusters"), told.count("unclear")]
        print(
            f"| {kind} | {' | '.join(f'{s / runs:.3f}' for s in shares)} |", flush=True
        )
        wrong[kind] = np.array(told) == "clusters"
    of_interest = np.array([wrong[kind] for kind in CLOUDS if "(" not in kind])
    print("\n| all but the last, by | runs | found clusters |")
    print("|---|---|---|")
    corners = [corner(run) for run in seeds]
    for i, (values, unit) in enumerate(
        ((COLUMNS, "columns"), (ROWS, "rows"), (DEALT, ""))
    ):
        for value in values:
            print_share(of_interest, [c[i] == value for c in corners], value, unit)
    for d in COLUMNS:
        for n in ROWS:
            here = [c[:2] == (d, n) for c in corners]
            print_share(of_interest, here, f"{n:,} × {d}", "")


def print_share(wrong: Any, here: list[bool], value: object, unit: str) -> None:
    """Print how often clusters were found in the runs that are meant."""
    chosen = wrong[:, here]
    if chosen.size:
        name = f"{value:,}" if isinstance(value, int) else value
        print(f"| {name} {unit} | {chosen.size} | {chosen.mean():.3f} |", flush=True)


# ------------------------------------------------------------------ clusters


def drawn(run: int, least: float, box: float = BOX) -> tuple[Floats, Ints, float]:
    """Return a mixture of drawn parameters and its separation: `least` or 4."""
    rng = np.random.default_rng([run, 16])
    separation = float(rng.choice((least, 4.0)))
    X, y = make_mixture(
        int(np.exp(rng.uniform(np.log(2), np.log(41)))),
        int(rng.choice((2, 3, 5, 10, 20))),
        separation=separation,
        imbalance=float(rng.choice((1.0, 3.0, 20.0))),
        random_state=rng,
        box=box,
    )
    return X, y, separation


def seen(run: int) -> tuple[int, str]:
    """Return k' and the verdict of a mixture with some separation."""
    X, y, _ = drawn(run, 2.5)
    split = DEALT[run % len(DEALT)]
    return answer(quietly(X, run, clients=SPLITS[split](X, y, run)))


def seen_in(folder: Path, name: str, run: int) -> tuple[int, str]:
    """Return k' and the verdict of a set of the suite."""
    X, y = load(folder, name, run)
    split = DEALT[run % len(DEALT)]
    return answer(quietly(X, run, clients=SPLITS[split](X, y, run)))


def power(folder: Path | None, runs: int, jobs: Parallel) -> None:
    """Print how often clusters are found where there are some."""
    print("| rows with clusters | runs | found | cannot tell |")
    print("|---|---|---|---|")
    first = FIRST["power"]
    found = jobs(delayed(seen)(run) for run in range(first, first + runs))
    print_found("mixtures, separation ≥ 2.5", found)
    if folder is None:
        print("\nThe suite was left out: give --data.")
        return
    each = max(1, runs // len(CLUSTERS))
    tasks = [delayed(seen_in)(folder, n, r) for n in CLUSTERS for r in range(each)]
    print_found("suite", jobs(tasks))


def print_found(what: str, found: list[tuple[int, str]]) -> None:
    """Print a line: found is what has several clusters and is told for certain."""
    sure = np.mean([k > 1 and verdict == "clusters" for k, verdict in found])
    unsure = np.mean([verdict == "unclear" for _, verdict in found])
    print(f"| {what} | {len(found)} | {sure:.3f} | {unsure:.3f} |", flush=True)


# ------------------------------------------------------------------ the number


def is_right(run: int, box: float) -> bool:
    """Whether k is right on a mixture at five sites by k-means."""
    X, y = random_mixture(run, box)
    found = quietly(X, run, clients=owners(X, run)).n_clusters_
    return found == len(np.unique(y))


def recovery(runs: int, jobs: Parallel) -> None:
    """Print how often k is right on mixtures, in the box and packed tightly."""
    print("| mixtures, five sites by k-means | runs | k right |")
    print("|---|---|---|")
    seeds = range(FIRST["recovery"], FIRST["recovery"] + runs)
    for how, box in (("in the box", BOX), ("packed tightly", 0.0)):
        right = jobs(delayed(is_right)(run, box) for run in seeds)
        print(f"| {how} | {runs} | {np.mean(right):.3f} |", flush=True)


# ------------------------------------------------------------------ nothing new


def repeated(X: Floats, who: Ints, times: int) -> tuple[Floats, Ints]:
    """Return every row several times, at its own site."""
    return np.repeat(X, times, axis=0), np.repeat(who, times)


def doubled(X: Floats, who: Ints, times: int) -> tuple[Floats, Ints]:
    """Return every site several times."""
    sites = int(who.max()) + 1
    return np.tile(X, (times, 1)), np.concatenate(
        [who + sites * i for i in range(times)]
    )


def shuffled(X: Floats, who: Ints, seed: int) -> tuple[Floats, Ints]:
    """Return the rows in another order."""
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order], who[order]


def other_columns(X: Floats, who: Ints, seed: int) -> tuple[Floats, Ints]:
    """Return the columns in another order."""
    return X[:, np.random.default_rng(seed).permutation(X.shape[1])], who


SAME: dict[str, Callable[[Floats, Ints, int], tuple[Floats, Ints]]] = {
    "rows × 2": lambda X, who, seed: repeated(X, who, 2),
    "rows × 4": lambda X, who, seed: repeated(X, who, 4),
    "clients × 2": lambda X, who, seed: doubled(X, who, 2),
    "clients × 4": lambda X, who, seed: doubled(X, who, 4),
    "rows shuffled": shuffled,
    "clients reversed": lambda X, who, seed: (X, who.max() - who),
    "columns shuffled": other_columns,
    "shifted, scaled": lambda X, who, seed: (X * 3.7 + 11, who),
}
MORE = "twice the largest k"
#: The paper's sets and the suite.
SETS = tuple(dict.fromkeys((*CLUSTERS, *LEAST, "aggregation", "ecoli")))


def unchanged(folder: Path, name: str, run: int) -> list[bool]:
    """Return whether k stays under every change."""
    X, _ = load(folder, name, run)
    who = owners(X, run)
    before = quietly(X, run, clients=who)
    changed = [change(X, who, run) for change in SAME.values()]
    ks = [quietly(rows, run, clients=own).n_clusters_ for rows, own in changed]
    most = 2 * min(128, max(10, int(np.sqrt(len(X)))))
    ks.append(quietly(X, run, clients=who, max_clusters=most).n_clusters_)
    return [k == before.n_clusters_ for k in ks]


def same(folder: Path, names: list[str], runs: int, jobs: Parallel) -> None:
    """Print how often k stays, by change, and the sets on which it does not."""
    first = FIRST["same"]
    tasks = [(name, run) for name in names for run in range(first, first + runs)]
    kept = np.array(jobs(delayed(unchanged)(folder, *task) for task in tasks))
    print("| nothing new is said | k stays |")
    print("|---|---|")
    for change, column in zip((*SAME, MORE), kept.T, strict=True):
        print(f"| {change} | {column.mean():.3f} |")
    print(f"| all | {kept.mean():.3f} |")
    by_set = kept.reshape(len(names), -1).mean(axis=1)
    less = [f"{n} {v:.2f}" for n, v in zip(names, by_set, strict=True) if v < 1]
    print(
        f"\nSets on which it does not always: {', '.join(less) or 'none'}.", flush=True
    )


# ------------------------------------------------------------------ calibration


def calibrated(run: int, box: float) -> tuple[bool, float, float]:
    """Return whether k is right, the confidence, and the separation of clusters."""
    X, y, separation = drawn(run, 1.8, box)
    split = DEALT[run % len(DEALT)]
    model = quietly(X, run, clients=SPLITS[split](X, y, run))
    assert model.k_confidence_ is not None
    return model.n_clusters_ == len(np.unique(y)), model.k_confidence_, separation


def calibration(runs: int, jobs: Parallel, plot: Path | None) -> None:
    """Print, by confidence, how often k is right; draw it if asked."""
    first = FIRST["calibration"]
    tasks = [(run, box) for box in (BOX, 0.0) for run in range(first, first + runs)]
    found = np.array(jobs(delayed(calibrated)(*task) for task in tasks), dtype=float)
    right, told, separation = found.T
    print("| confidence told | runs | k right |")
    print("|---|---|---|")
    bins = np.minimum(np.searchsorted(BINS, told, side="right") - 1, len(BINS) - 2)
    points = []
    for i, (low, high) in enumerate(zip(BINS, BINS[1:], strict=False)):
        inside = bins == i
        if inside.any():
            points.append((told[inside].mean(), right[inside].mean(), inside.sum()))
            share = f"{right[inside].mean():.3f}"
            print(f"| {low:.0%} to {high:.0%} | {inside.sum()} | {share} |")
    says = told[separation >= 3] >= 0.9
    print(f"\nOf {len(says)} with separation 4, {says.mean():.3f} are told 90 %.")
    if plot is not None:
        draw(points, plot)


def draw(points: list[tuple[float, float, int]], plot: Path) -> None:
    """Draw how often k is right against the confidence told."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="as told")
    told, right, runs = zip(*points, strict=True)
    axes.plot(told, right, "o-", color="#2f6f9f", label="measured")
    for x, y, n in points:
        axes.annotate(f"{n} runs", (x, y), xytext=(6, -12), textcoords="offset points")
    axes.set(
        xlabel="confidence told", ylabel="k is right", xlim=(0, 1.2), ylim=(0, 1.05)
    )
    axes.legend(loc="upper left", frameon=False)
    figure.savefig(plot, dpi=150)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--same-runs", type=int, default=20)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--first", type=int)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs, parts = Parallel(n_jobs=options.jobs), options.only.split(",")
    sets = options.sets.split(",")
    for named, known in ((parts, PARTS), (sets, SETS)):
        unknown = [name for name in named if name not in known]
        if unknown:
            parser.exit(2, f"no {unknown[0]}: choose from {', '.join(known)}\n")
    if "same" in parts and options.data is None:
        parser.exit(2, "same needs --data, or leave it out with --only\n")
    if min(options.runs, options.same_runs) < 1:
        parser.exit(2, "--runs and --same-runs must be at least 1\n")
    if options.first is not None:
        FIRST.update(dict.fromkeys(PARTS, options.first))
    if "alarms" in parts:
        alarms(options.runs, jobs)
    if "power" in parts:
        power(options.data, options.runs, jobs)
    if "recovery" in parts:
        recovery(options.runs, jobs)
    if "same" in parts:
        same(options.data, sets, options.same_runs, jobs)
    if "calibration" in parts:
        calibration(options.runs, jobs, options.plot)


if __name__ == "__main__":
    main()
