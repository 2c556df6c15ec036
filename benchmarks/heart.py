# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/examples/heart.md: ``python benchmarks/heart.py --data DIR``.

DIR has a folder ``heart`` with the four files that the page speaks of. The page's
commands are run on them, then everything is done again with all rows in one place, and
by every hospital for itself. Prints tables in Markdown; takes about a minute.
k-prototypes needs the package `kmodes`, and is left out without it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from typer.testing import CliRunner

from afcl import AFCL
from afcl._typing import Ints
from afcl.cli import app
from afcl.metrics import adjusted_rand
from mixed import Table, k_means, k_prototypes, swept_medoids, told_medoids
from mixed_runs import swept_k_means
from mixed_sets import HEART_CODES, NEVER_ZERO, Public, load

SITES = ("cleveland", "hungarian", "switzerland", "va")
#: What the page leaves out in the end, besides the diagnosis.
MOSTLY_EMPTY = ("ca", "thal")
SEED = 0
POOLED: dict[str, Callable[[Table, Ints, int], Ints]] = {
    "k-means on indicators, best silhouette of k = 2 … 15": swept_k_means,
    "k-medoids under Gower's distance, best silhouette": swept_medoids,
    "k-means on indicators, told 2": k_means,
    "k-medoids under Gower's distance, told 2": told_medoids,
}
if find_spec("kmodes") is not None:
    POOLED["k-prototypes, told 2"] = k_prototypes


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(map(str, cells)) + " |")
    print()


def emptied(data: Path, folder: Path) -> list[str]:
    """Write the files without zeros that mean no value; return where they are."""
    paths = []
    for name in SITES:
        frame = pl.read_csv(data / "heart" / f"{name}.csv", infer_schema=False)
        for column in NEVER_ZERO:
            is_zero = pl.col(column).cast(pl.Float64, strict=False) == 0
            kept = pl.when(is_zero).then(None).otherwise(pl.col(column))
            frame = frame.with_columns(kept.alias(column))
        paths.append(folder / f"{name}.csv")
        frame.write_csv(paths[-1])
    return [str(path) for path in paths]


def afcl_run(files: Sequence[str], out: Path, *options: str) -> dict[str, Any]:
    """Run a command of the page, print what it says, return what it writes."""
    given = ["run", *files, "--missing", "impute", "--out", str(out), *options]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    print(f"`afcl run … {' '.join(options)}`\n\n```text\n{done.stdout}```\n")
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result


def labels_in(out: Path) -> Ints:
    """Return the labels of all rows, hospital by hospital."""
    files = [pl.read_csv(out / "labels" / f"{name}.csv") for name in SITES]
    return np.concatenate([file["cluster"].to_numpy() for file in files])


def index(a: Ints, b: Ints) -> str:
    """Write a Rand index."""
    return f"{adjusted_rand(a, b):.2f}"


def diseased(found: Public, labels: Ints) -> str:
    """Write the share of the diseased in every cluster."""
    parts = [found.labels[labels == c].mean() for c in np.unique(labels)]
    return ", ".join(f"{part:.0%}" for part in parts[:6]) + ("…" if parts[6:] else "")


# ------------------------------------------------------------------ parts


def show_gaps(found: Public) -> None:
    """Print what every hospital has."""
    print("## Gaps\n")
    rows = []
    for i, name in enumerate(SITES):
        own = found.frame.filter(found.owners == i)
        gaps = {c: own[c].null_count() / len(own) for c in own.columns}
        most = sorted(gaps.items(), key=lambda item: -item[1])[:5]
        listed = ", ".join(f"{c} {share:.0%}" for c, share in most if share > 0)
        sick = found.labels[found.owners == i].mean()
        rows.append(
            [name, len(own), f"{sick:.0%}", sum(own.null_count().row(0)), listed]
        )
    table(["hospital", "rows", "diseased", "empty cells", "most of them"], rows)


def show_profile(result: dict[str, Any]) -> None:
    """Print centres: means of numbers, shares of categories."""
    levels = {f"{f['name']}={v}" for f in result["features"] for v in f["levels"]}
    centers = np.array(result["centers"])
    rows = [
        [name, *(f"{x:.0%}" if name in levels else f"{x:.1f}" for x in values)]
        for name, values in zip(result["columns"], centers.T, strict=True)
    ]
    table(["column", *(f"cluster {c}" for c in range(len(centers)))], rows)


def show_sites(found: Public, result: dict[str, Any], labels: Ints) -> None:
    """Print, hospital by hospital, rows, and who is diseased."""
    rows = []
    for i, site in enumerate(result["sites"]):
        own = found.owners == i
        part = Public(found.frame, found.labels[own])
        said = [site["name"], site["rows"], site.get("set_aside", 0)]
        said += [" / ".join(map(str, site["sizes"])), diseased(part, labels[own])]
        rows.append([*said, index(part.labels, labels[own])])
    whole = sum(site.get("set_aside", 0) for site in result["sites"])
    sizes = " / ".join(map(str, result["sizes"]))
    last = ["all", len(labels), whole, sizes, diseased(found, labels)]
    rows.append([*last, index(found.labels, labels)])
    head = ["hospital", "rows", "set aside", "clusters", "diseased in each", "ARI"]
    table(head, rows)


def show_pooled(found: Public, ours: Ints) -> None:
    """Print what analysis of all rows in one place says."""
    print(f"## Pooled, {found.frame.width} columns\n")
    filled = Table.of(found.filled(SEED))
    rows = []
    for name, method in POOLED.items():
        labels = method(filled, np.zeros(0, dtype=np.int64), SEED)
        k = np.unique(labels).size
        said = [name, k, diseased(found, labels), index(found.labels, labels)]
        rows.append([*said, index(ours, labels)])
    for least, name in (
        (True, "AFCL, one site"),
        (False, "AFCL, one site, at least two"),
    ):
        model = AFCL(random_state=SEED, missing="impute", allow_one=least)
        labels = model.fit(found.frame).labels_
        said = [name, model.n_clusters_, diseased(found, labels)]
        rows.append([*said, index(found.labels, labels), index(ours, labels)])
    head = ["pooled rows", "k", "diseased in each", "ARI with the diagnosis"]
    table([*head, "ARI with the federated two"], rows)


def show_alone(found: Public, ours: Ints) -> None:
    """Print what every hospital finds by itself."""
    print("## Alone\n")
    rows = []
    for i, name in enumerate(SITES):
        own = found.owners == i
        frame = found.frame.filter(own)
        # A column nobody has filled in is none.
        frame = frame.select(
            c for c in frame.columns if frame[c].null_count() < len(frame)
        )
        model = AFCL(random_state=SEED, missing="impute").fit(frame)
        two = AFCL(random_state=SEED, missing="impute", allow_one=False).fit(frame)
        part, labels = Public(frame, found.labels[own]), two.labels_
        said = [name, model.n_clusters_, f"{model.k_confidence_:.0%}", two.n_clusters_]
        said += [diseased(part, labels), index(part.labels, labels)]
        rows.append([*said, index(ours[own], labels)])
    head = ["alone", "k", "of the resamples", "at least two: k", "diseased in each"]
    table([*head, "ARI with the diagnosis", "ARI with the federated two"], rows)


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    warnings.simplefilter("ignore")
    found = load("heart", data)
    show_gaps(found)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        given = [str(data / "heart" / f"{name}.csv") for name in SITES]
        print("## As the files are\n")
        afcl_run(given, folder / "first", "--drop", "num")
        files = emptied(data, folder)
        codes = ",".join(HEART_CODES)
        print("## Codes are categories, zeros are gaps\n")
        second = afcl_run(
            files, folder / "second", "--drop", "num", "--category", codes
        )
        show_profile(second)
        show_sites(found, second, labels_in(folder / "second"))
        without = ",".join(["num", *MOSTLY_EMPTY])
        left = ["--drop", without, "--category", codes]
        print("## Without the columns that are mostly empty\n")
        for seed in range(5):
            afcl_run(files, folder / f"third{seed}", *left, "--seed", str(seed))
        print("## At least two\n")
        two = afcl_run(files, folder / "two", *left, "--at-least-two")
        ours = labels_in(folder / "two")
        show_profile(two)
        show_sites(found, two, ours)
    fewer = replace(found, frame=found.frame.drop(MOSTLY_EMPTY))
    for each in (fewer, found):
        show_pooled(each, ours)
    show_alone(fewer, ours)


if __name__ == "__main__":
    main()
