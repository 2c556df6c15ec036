# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/privacy.md, measured: ``make privacy DATA=dir``.

What an honest-but-curious server recovers of every level, what each level costs in
quality, and what masks cost. All runs are counted; a collapsed run scores -1; k* is
never used. DIR is searched for NAME.csv files whose last column is the class; SD1 and
mixtures are generated. Prints tables and one line per promised figure, and exits 1 if
one is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.audit import LevelFinding, audit
from afcl.core.messages import Update
from afcl.core.tasks import SUM, Part
from afcl.data import dirichlet_split, iid_split, make_mixture
from afcl.data.features import Feature, bounds_of
from afcl.exceptions import SmallClientsWarning
from afcl.metrics import adjusted_rand, silhouette
from afcl.privacy.masks import mask, public_key
from afcl.runtime.codec import encode
from quality import CLIENTS, load, owners, scaled

#: Rows on which a silhouette is computed.
SCORED = 2500
ATTACKED = ("IR", "SE", "TF", "mixture")
LEVELS = (
    "exact",
    "affine",
    "summary",
    "grouped(5)",
    "secure+summary",
    "secure+grouped(5)",
    "dp(8)",
)
NOTHING = ("grouped(5)", "secure+grouped(5)", "dp(8)")
GROUPED = ("SD1", "SE", "IR", "TF", "s1", "a1")
COMPARED = ("summary", "grouped(5)")
SMALL = {"r15": 15, "a1": 20, "wine": 3}
NOISY = {"SD1": 4, "eight": 8}
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, None)
SMALL_SITES = ("IR", "SE", "TF")
LIED_TO = ("summary", "grouped(5)", "secure+summary", "secure+grouped(5)", "dp(1)")
LEVEL_NAMES = ("a", "b", "c", "d")
TOLD = ("summary", "grouped(5)", "secure+summary", "secure+grouped(5)", "dp(8)")
COMPARED_RUNS = ("summary", "grouped(5)")
STEPS = {"IR": 4, "TF": 4}
CURVES = ("SD1", "eight", "TF", "SE")

#: One line of a table.
Row = dict[str, Any]


def rows_of(folder: Path, name: str, run: int) -> tuple[Floats, Ints]:
    """Return a data set; `mixture` has 2 300 rows, `eight` 20 000, both 8 clusters."""
    sizes = {"mixture": 2300, "eight": 20_000}
    if name not in sizes:
        return load(folder, name, run)
    return make_mixture(
        8, 2, separation=2.5, imbalance=1, random_state=run, n_samples=sizes[name]
    )


def score(X: Floats, labels: Ints) -> float:
    """Return the silhouette, -1 for a single cluster."""
    return silhouette(scaled(X), labels, sample=SCORED)


def at_random(X: Floats, run: int) -> Ints:
    """Deal the rows out to five clients at random."""
    return iid_split(X.shape[0], CLIENTS, run)


#: How rows come to clients: hardly a cluster in common, or every cluster everywhere.
SPLITS: dict[str, Callable[[Floats, int], Ints]] = {
    "k-means": owners,
    "random": at_random,
}


def fitted(X: Floats, owner: Ints, run: int, level: str, **options: Any) -> AFCL:
    """Fit at a level; `dp` gets the true bounds as public ones."""
    scale: Any = (X.min(axis=0), X.max(axis=0)) if "dp" in level else "minmax"
    model = AFCL(privacy=level, scale=scale, random_state=run, **options)
    return model.fit(X, clients=owner)


# ------------------------------------------------------------------ what is measured


def recovered(folder: Path, runs: int) -> list[Row]:
    """Rows recovered exactly per level, 5 clients by k-means, 30 rounds."""
    found = []
    for name in ATTACKED:
        X, _ = rows_of(folder, name, 0)
        owner = owners(X, 0)
        tables = [X[owner == client] for client in range(owner.max() + 1)]
        bounds = (X.min(axis=0), X.max(axis=0))
        for rounds, levels in ((30, LEVELS), (2, ("summary",))):
            audited = audit(tables, levels, scale=bounds, rounds=rounds).levels
            found += [_line(name, rounds, level) for level in audited]
    return found


def _line(name: str, rounds: int, level: LevelFinding) -> Row:
    return {
        "dataset": name,
        "level": level.level,
        "rounds": rounds,
        "recovered": level.recovered,
        "precision": level.precision,
        "shared": level.shared,
        "nearest": level.nearest,
        "claimed": level.claimed,
        "measured": level.measured,
        "bytes": level.bytes,
        "k": level.clusters,
        "SC": level.silhouette,
        "ARI": level.ari,
        "broken": level.broken,
    }


def grouped(folder: Path, runs: int) -> list[Row]:
    """Compare k' and SC of `grouped(5)` and `summary`, random participation."""
    found = []
    for name in GROUPED:
        for run in range(runs):
            X, _ = rows_of(folder, name, run)
            owner = owners(X, run)
            row: Row = {"dataset": name, "run": run}
            for level in COMPARED:
                model = fitted(X, owner, run, level, participation="random")
                row[f"k {level}"] = model.n_clusters_
                row[f"SC {level}"] = score(X, model.labels_)
            found.append(row)
    return found


def small_clients(folder: Path, runs: int) -> list[Row]:
    """Find k' of `secure` and `summary` with n/20 clients of some 20 mixed rows."""
    found = []
    for name, k_true in SMALL.items():
        for run in range(runs):
            X, y = rows_of(folder, name, run)
            owner = dirichlet_split(y, len(y) // 20, 1.0, run)
            sizes = np.bincount(owner)
            kept = sizes[owner] >= 5
            X, y = X[kept], y[kept]
            owner = np.unique(owner[kept], return_inverse=True)[1]
            clients = int(owner.max()) + 1
            row: Row = {"dataset": name, "run": run, "k*": k_true, "clients": clients}
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for level in ("secure", "summary"):
                    model = fitted(X, owner, run, level)
                    row[f"k {level}"] = model.n_clusters_
                    row[f"ARI {level}"] = adjusted_rand(y, model.labels_)
            kinds = [each.category for each in caught]
            row["summary warned"] = SmallClientsWarning in kinds
            found.append(row)
    return found


def noisy(folder: Path, runs: int) -> list[Row]:
    """Find k' of `dp(8)` on SD1 and on 20 000 rows of 8 clusters."""
    found = []
    for (name, k_true), (split, divide) in product(NOISY.items(), SPLITS.items()):
        for run in range(runs):
            X, _ = rows_of(folder, name, run)
            model = fitted(X, divide(X, run), run, "dp(8)")
            row: Row = {"dataset": f"{name}, {split}", "run": run, "k*": k_true}
            row |= {"k": model.n_clusters_, "SC": score(X, model.labels_)}
            found.append(row)
    return found


def curves(folder: Path, runs: int) -> list[Row]:
    """SC and k' against epsilon, one synopsis (`dp`) and noise in every message."""
    found = []
    for name, (split, divide) in product(CURVES, SPLITS.items()):
        for run in range(min(runs, 5)):
            X, _ = rows_of(folder, name, run)
            owner = divide(X, run)
            for epsilon, family in product(EPSILONS, ("dp", "dp-rounds")):
                level = "summary" if epsilon is None else f"{family}({epsilon:g})"
                model = fitted(X, owner, run, level)
                row: Row = {"dataset": name, "split": split, "family": family}
                row |= {"run": run, "epsilon": epsilon, "k": model.n_clusters_}
                found.append({**row, "score": score(X, model.labels_)})
    return found


def cost_of_masks(folder: Path, runs: int) -> list[Row]:
    """Time and bytes of one member's part: 512 numbers, a cohort of 10."""
    secrets = [bytes([member]) * 32 for member in range(1, 11)]
    keys = [public_key(secret) for secret in secrets]
    seconds = []
    for repeat in range(20):
        start = time.perf_counter()
        values = mask(secrets[0], 0, keys, f"purpose {repeat}", 512)
        seconds.append(time.perf_counter() - start)
    size = len(encode(Update(Part(0, SUM, values))))
    milliseconds = 1000 * float(np.median(seconds))
    return [{"numbers": 512, "cohort": 10, "milliseconds": milliseconds, "bytes": size}]


def across(folder: Path, runs: int) -> list[Row]:
    """Rows that follow from 1 to 10 runs on five sites of 40 mixed rows each."""
    found = []
    for name, level in product(SMALL_SITES, COMPARED_RUNS):
        tables = _forty(folder, name, CLIENTS)
        rows = np.concatenate(tables)
        bounds = (rows.min(axis=0), rows.max(axis=0))
        (audited,) = audit(
            tables, [level], scale=bounds, rounds=10, runs=10, canary_trials=4
        ).levels
        for each in audited.across:
            row: Row = {"dataset": name, "level": level, "runs": each.runs}
            row |= {"other seeds": each.reseeded, "a row left": each.after_leaving}
            found.append(row)
    return found


def steps(folder: Path, runs: int) -> list[Row]:
    """Values that follow from one message about few columns measured in steps."""
    found = []
    for (name, columns), level in product(STEPS.items(), COMPARED):
        for width in (1, 2, columns):
            tables = [rows[:, :width] for rows in _forty(folder, name, 3, rows=100)]
            (audited,) = audit(tables, [level], rounds=2, runs=1).levels
            row: Row = {"dataset": name, "columns": width, "level": level}
            row |= {"enumerated": audited.enumerated, "broken": audited.broken}
            found.append(row)
    return found


def categories(folder: Path, runs: int) -> list[Row]:
    """Count what first messages tell of levels and gaps: three sites of 60 rows."""
    names = ["age", "pressure", "smoker", *(f"kind={level}" for level in LEVEL_NAMES)]
    low, high = bounds_of(names, [Feature("kind", LEVEL_NAMES)])
    found = []
    for gaps, start, level in product((0.0, 0.1), (0, 100), TOLD):
        if gaps and "dp" in level:
            continue
        tables = [mixed_table(start + site, gaps) for site in range(3)]
        rows = np.concatenate(tables)
        public = (
            np.where(np.isnan(low), np.nanmin(rows, axis=0), low),
            np.where(np.isnan(high), np.nanmax(rows, axis=0), high),
        )
        (audited,) = audit(
            tables,
            [level],
            scale=public if "dp" in level else "minmax",
            bounds=(low, high),
            missing="impute" if gaps else "error",
            rounds=2,
            runs=1,
            canary_trials=4,
            lies=False,
        ).levels
        assert audited.columns is not None
        row: Row = {"gaps": gaps, "draw": start, "level": level, **audited.columns}
        found.append({**row, "enumerated": audited.enumerated})
    return found


def mixed_table(seed: int, gaps: float, n: int = 60) -> Floats:
    """Return ages, pressures, yes or no, and a category whose fifth level is rare."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, n)
    middles = np.array([[40, 120], [60, 150], [75, 130]])
    numbers = np.round(rng.normal(middles[kinds], [6, 9]))
    shares = np.array(
        [
            [0.6, 0.3, 0.06, 0.03, 0.01],
            [0.1, 0.6, 0.2, 0.07, 0.03],
            [0.2, 0.1, 0.6, 0.02, 0.08],
        ]
    )
    drawn = np.array([rng.choice(5, p=share) for share in shares[kinds]])
    smoker = rng.random(n) < 0.05
    levels = drawn[:, None] == np.arange(len(LEVEL_NAMES))
    X = np.column_stack([numbers, smoker, levels]).astype(np.float64)
    holes = rng.random((n, 4)) < gaps
    X[:, :3][holes[:, :3]] = np.nan
    X[holes[:, 3], 3:] = np.nan
    return X


def active(folder: Path, runs: int) -> list[Row]:
    """Rows that a coordinator gets by dishonest requests to three sites of 40 rows."""
    found = []
    for name in SMALL_SITES:
        tables = _forty(folder, name, 3)
        rows = np.concatenate(tables)
        bounds = (rows.min(axis=0), rows.max(axis=0))
        audited = audit(tables, LIED_TO, scale=bounds, rounds=2, canary_trials=4).levels
        for level in audited:
            for lie in level.lies:
                row: Row = {"dataset": name, "level": level.level, "attack": lie.name}
                row |= {"learned": lie.share, "of": lie.what}
                found.append({**row, "promised": bool(lie.promise)})
    return found


def _forty(folder: Path, name: str, sites: int, rows: int = 40) -> list[Floats]:
    """Return sites of so many rows each, drawn at random."""
    X, _ = load(folder, name, 0)
    return [
        X[np.random.default_rng(site).choice(len(X), rows, replace=False)]
        for site in range(sites)
    ]


PARTS: dict[str, Callable[[Path, int], list[Row]]] = {
    "recovered": recovered,
    "across": across,
    "steps": steps,
    "categories": categories,
    "active": active,
    "grouped": grouped,
    "small clients": small_clients,
    "noisy": noisy,
    "curves": curves,
    "masks": cost_of_masks,
}


# ------------------------------------------------------------------ what is promised


def promised(part: str, rows: list[Row]) -> list[tuple[str, str, bool]]:
    """Return what is promised of a part, what was measured, and whether it holds."""
    lines = []
    if part == "recovered":
        for row in rows:
            what = f"recovered exactly: {row['dataset']}, {row['level']}"
            if row["level"] == "exact":
                lines.append((f"{what}, all", row["recovered"], row["recovered"] == 1))
            elif row["level"] in NOTHING:
                holds = row["recovered"] == 0 and not row["broken"]
                lines.append((f"{what}, none", row["recovered"], holds))
    if part == "active":
        for row in rows:
            if row["promised"]:
                who = f"{row['dataset']}, {row['level']}"
                what = f"learned by {row['attack']}: {who}, nothing"
                lines.append((what, row["learned"], row["learned"] == 0))
    if part == "categories":
        for row in rows:
            if "grouped" in row["level"]:
                what = f"levels of few rows counted: {row['level']}, {row['gaps']:.0%}"
                none = row["rare_counted"] == 0 and row["enumerated"] == 0
                lines.append((f"{what} gaps, none", row["rare_counted"], none))
    if part == "steps":
        for row in rows:
            if row["level"] != "summary":
                what = f"enumerated: {row['dataset']}, {row['columns']} columns, none"
                lines.append((what, row["enumerated"], row["enumerated"] == 0))
    if part == "across":
        for row in rows:
            if row["level"] != "summary":
                what = f"{row['runs']} runs, other seeds: {row['dataset']}, none"
                lines.append((what, row["other seeds"], row["other seeds"] == 0))
    for name in dict.fromkeys(row.get("dataset") for row in rows):
        own = [row for row in rows if row.get("dataset") == name]
        if part == "grouped":
            # Transfusion has 2 or 3 clusters at any level: the most frequent k' counts.
            plain, other = ([row[f"k {level}"] for row in own] for level in COMPARED)
            same = sum(a == b for a, b in zip(plain, other, strict=True))
            loss = np.mean([row["SC summary"] - row["SC grouped(5)"] for row in own])
            text = f"same k' in {same} of {len(own)}, SC lost {loss:.4f}"
            holds = mode(plain) == mode(other) and loss <= 0.02
            lines.append((f"grouped(5) on {name}: same k', SC lost ≤ .02", text, holds))
        if part == "small clients":
            ks = np.array([row["k secure"] for row in own])
            exact = ks == own[0]["k*"]
            text = f"{ks.tolist()}; summary {[row['k summary'] for row in own]}"
            near = np.abs(ks - own[0]["k*"]).max() <= 1
            holds = bool(near and exact.mean() >= 0.8)
            lines.append((f"secure on {name}: k in ≥ 4 of 5, within 1", text, holds))
            warned = sum(row["summary warned"] for row in own)
            text, holds = f"{warned} of {len(own)}", warned == len(own)
            lines.append((f"summary on {name} warns of small clients", text, holds))
        if part == "noisy":
            ks = np.array([row["k"] for row in own])
            right = float((ks == own[0]["k*"]).mean())
            lines.append(
                (f"dp(8) on {name}: k in ≥ 8 of 10", str(ks.tolist()), right >= 0.8)
            )
    return [(what, str(measured), bool(holds)) for what, measured, holds in lines]


# ------------------------------------------------------------------ tables, pictures


def table(rows: list[Row]) -> str:
    """Return rows as a table in Markdown."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_shown(row[n]) for n in names) + " |" for row in rows]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def summarised(rows: list[Row]) -> list[Row]:
    """Return means of SC and all k' by data set, family and epsilon."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["dataset"], row["split"], row["family"], row["epsilon"])
        groups.setdefault(key, []).append(row)
    return [
        {
            "dataset": name,
            "split": split,
            "family": family,
            "epsilon": "∞" if epsilon is None else epsilon,
            "SC": float(np.mean([row["score"] for row in own])),
            "k'": " ".join(str(row["k"]) for row in own),
        }
        for (name, split, family, epsilon), own in groups.items()
    ]


def draw(rows: list[Row], out: Path) -> None:
    """Draw SC against epsilon, one picture per split and family."""
    from afcl_bench.plots import quality_epsilon, save

    for split, family in product(SPLITS, ("dp", "dp-rounds")):
        own = [row for row in rows if (row["split"], row["family"]) == (split, family)]
        ax = quality_epsilon(own, label="silhouette")
        for ending in ("png", "svg"):
            save(ax, out.with_name(f"{out.stem}-{split}-{family}.{ending}"))


def main() -> None:
    """Measure, print, and fail if something promised does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="Two runs of everything.")
    parser.add_argument("--only", default="", help=f"Some of {', '.join(PARTS)}.")
    parser.add_argument("--out", type=Path, help="JSON file; pictures land beside it.")
    options = parser.parse_args()
    runs = 2 if options.quick else options.runs
    wanted = [part.strip() for part in options.only.split(",") if part] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        parser.exit(2, f"--only {unknown[0]}: choose from {', '.join(PARTS)}\n")
    everything: dict[str, list[Row]] = {}
    lines: list[tuple[str, str, bool]] = []
    for part in wanted:
        start = time.perf_counter()
        rows = everything[part] = PARTS[part](options.data, runs)
        lines += promised(part, rows)
        seconds = time.perf_counter() - start
        shown = summarised(rows) if part == "curves" else rows
        print(f"\n## {part} ({seconds:.0f} s)\n\n{table(shown)}", flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(everything, indent=1))
            if part == "curves":
                draw(rows, options.out)
    print("\n| promised | measured | holds |\n|---|---|---|")
    for what, measured, holds in lines:
        print(f"| {what} | {measured} | {'yes' if holds else '**no**'} |")
    sys.exit(0 if all(holds for _, _, holds in lines) else 1)


if __name__ == "__main__":
    main()
