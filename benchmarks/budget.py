# SPDX-License-Identifier: Apache-2.0
"""What is lost when the server may remember a quarter of the cells only.

``python benchmarks/budget.py --data DIR`` runs the default preset on every NAME.csv
below DIR (class in the last column, not used), once as it is and once with `max_cells`
a quarter of the cells that the first run remembered at most, and prints how often k'
is the same and how far apart the silhouettes of the rows are. Clients are few (five, by
k-means, the paper's) or many (about twenty rows each, dealt at random, `min_cell=1`),
everybody takes part at random. Where a quarter is less than `max_cells` may be, that
least one is the budget, and the line is marked; if there are fewer cells than that,
nothing is condensed, and the line is left out. Exits 1 if a k' differs or if a mean
silhouette is off by more than .005.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.params import LEAST_CELLS
from afcl.core.protocol import Diagnostics, Message
from afcl.core.state import ServerState
from afcl.data.split import iid_split
from afcl.methods.afcl import Afcl, State
from afcl.metrics import silhouette
from afcl.runtime.schedule import Rounds
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from quality import load, owners, scaled

SHARE = 4
ROWS_EACH = 20
TOLERANCE = 0.005
SPLITS = ("few", "many")


class Watched(Afcl):
    """The default preset; notes how many cells its server remembers."""

    def __init__(self) -> None:
        self.most = 0

    def absorb(self, state: State, message: Message) -> tuple[State, Diagnostics]:
        """Absorb, and look."""
        state, found = super().absorb(state, message)
        assert isinstance(state, ServerState)
        self.most = max(self.most, state.remembered)
        return state, found


@dataclass(frozen=True)
class Run:
    """One run: clusters, silhouette, most cells remembered, clients condensed."""

    k: int
    silhouette: float
    cells: int
    condensed: int


@dataclass(frozen=True)
class Line:
    """A data set in one split: all runs with and without a budget."""

    name: str
    split: str
    clients: int
    runs: int
    cells: int
    budget: int
    condensed: float
    same_k: int
    silhouette: float
    with_budget: float
    largest: float
    seconds: float

    @property
    def off(self) -> float:
        """How far apart the mean silhouettes are."""
        return self.with_budget - self.silhouette


def tables_of(X: Floats, split: str, run: int) -> list[Floats]:
    """Return one table per client."""
    if split == "few":
        owner = owners(X, run)
    else:
        owner = iid_split(X.shape[0], max(5, X.shape[0] // ROWS_EACH), run)
    return [X[owner == client] for client in range(int(owner.max()) + 1)]


def federated(tables: list[Floats], split: str, run: int, **options: Any) -> Run:
    """Run the default preset and score its labels."""
    if split == "many":
        options["min_cell"] = 1
    method = Watched()
    outcome = simulate(Spec(method, options, run), tables, Rounds(probability="random"))
    labels = np.concatenate(outcome.labels)
    rows = scaled(np.concatenate(tables))
    quality = float(silhouette(rows, labels)) if np.ptp(labels) else -1.0
    condensed = outcome.finished.clustering.extra.get("condensed", 0)
    return Run(outcome.clustering.k, quality, method.most, condensed)


def compared(folder: Path, name: str, split: str, runs: int) -> Line:
    """Run with and without a budget."""
    start = time.perf_counter()
    free, bound, budgets = [], [], []
    for run in range(runs):
        X, _ = load(folder, name, run)
        tables = tables_of(X, split, run)
        free.append(federated(tables, split, run))
        budgets.append(max(LEAST_CELLS, free[-1].cells // SHARE))
        if free[-1].cells <= LEAST_CELLS:
            bound.append(free[-1])
        else:
            bound.append(federated(tables, split, run, max_cells=budgets[-1]))
    pairs = list(zip(free, bound, strict=True))
    return Line(
        name,
        split,
        len(tables),
        runs,
        max(each.cells for each in free),
        max(budgets),
        float(np.mean([each.condensed for each in bound])),
        sum(a.k == b.k for a, b in pairs),
        float(np.mean([each.silhouette for each in free])),
        float(np.mean([each.silhouette for each in bound])),
        max(abs(a.silhouette - b.silhouette) for a, b in pairs),
        time.perf_counter() - start,
    )


def main() -> int:
    """Print the table; return 1 if something is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", help="names of data sets, with commas")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    chosen = parser.parse_args()
    names = sorted({path.stem for path in chosen.data.rglob("*.csv")})
    if chosen.only:
        names = [name for name in names if name in chosen.only.split(",")]
    print(
        "data         split clients  cells budget condensed same-k   SC   with largest"
    )
    lines = []
    for name in names:
        for split in chosen.splits.split(","):
            line = compared(chosen.data, name, split, chosen.runs)
            if not line.condensed:
                continue
            lines.append(line)
            print(
                f"{name:12} {split:5} {line.clients:7} {line.cells:6} {line.budget:6} "
                f"{line.condensed:9.1f} {line.same_k:3}/{line.runs:2} "
                f"{line.silhouette:6.3f} {line.with_budget:6.3f} {line.largest:7.4f}"
                f"{'  least' if line.budget == LEAST_CELLS else ''}",
                flush=True,
            )
    if chosen.out is not None:
        figures = [asdict(line) for line in lines]
        chosen.out.write_text(json.dumps(figures, indent=1) + "\n")
    lost = [x for x in lines if x.same_k < x.runs or abs(x.off) > TOLERANCE]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
