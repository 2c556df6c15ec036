# SPDX-License-Identifier: Apache-2.0
"""What hostile clients do to the default preset, and whether honest ones are refused.

``python benchmarks/hostile.py --data DIR`` runs ten clients, two of them hostile, on
SD1 (generated) and on Seeds (SE.csv in DIR, class in the last column; left out without
it) and prints, per kind of hostility, the silhouette of the honest rows beside that of
a run without the two, in the same box. Lines with a star are within the rules: a client
that copies one with as many rows, or repeats what it honestly said before, cannot be
told from an honest one. Then it counts the messages of honest clients that are refused
in runs of all sorts. Exits 1 if a silhouette without a star is off by more than .01 or
an honest message was refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells, Hello, Summary
from afcl.data.split import iid_split, kmeans_split
from afcl.data.synthetic import make_sd1
from afcl.methods import get_method
from afcl.metrics import silhouette
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.schedule import EventClock, Rounds, Schedule
from afcl.runtime.site import Site
from afcl.runtime.spec import Finished, Spec
from afcl.scale import minmax_box, ranges_of

CLIENTS, HOSTILE = 10, 2
#: Largest difference to a run without the hostile clients.
TOLERANCE = 0.01
#: What stands beside the kinds: not there at all, silent after the hello.
AWAY, SILENT = "away", "silent"
COPY, ECHO = "replay of another's", "replay of its own"


# ------------------------------------------------------------------ hostility


def each_cells(said: Any, change: Callable[[Cells], Cells]) -> Any:
    """Return a message with all its cells changed."""
    if isinstance(said, Hello):
        return replace(said, payload=change(said.payload))
    summary: Summary = said.payload
    levels = tuple(replace(x, cells=change(x.cells)) for x in summary.levels)
    changed = replace(summary, cells=change(summary.cells), levels=levels)
    return replace(said, payload=changed)


def not_a_number(said: Any) -> Any:
    """Put NaN into a mean."""

    def change(cells: Cells) -> Cells:
        means = cells.means.copy()
        means[0, 0] = np.nan
        return replace(cells, means=means)

    return each_cells(said, change)


def huge(said: Any) -> Any:
    """Put every mean far away."""
    return each_cells(said, lambda cells: replace(cells, means=cells.means + 1e6))


def inflated(said: Any) -> Any:
    """Claim a hundred times the rows."""
    if isinstance(said, Hello):
        said = replace(said, n_rows=100 * said.n_rows)
    return each_cells(said, lambda cells: replace(cells, counts=100 * cells.counts))


def cornered(said: Any) -> Any:
    """Put every mean into one corner of the box."""
    return each_cells(
        said, lambda cells: replace(cells, means=np.ones_like(cells.means))
    )


def spoilt(change: Callable[[Any], Any]) -> Callable[[Traitor, bytes], bytes]:
    """Answer honestly, then change what is sent."""

    def answer(site: Traitor, request: bytes) -> bytes:
        return encode(change(decode(site.honest(request))))

    return answer


def replayed(site: Traitor, request: bytes) -> bytes:
    """Say what another client says; later on, what was said before."""
    asked = decode(request)
    if site.said:
        return site.said[0]
    terms = replace(asked.terms, client=site.victim)
    honest = Site(site.others[site.victim])
    site.said.append(honest.answer(encode(replace(asked, terms=terms))))
    return site.said[0]


def echoed(site: Traitor, request: bytes) -> bytes:
    """Say an honest hello, and then the first honest answer again and again."""
    if isinstance(decode(site.honest(request)), Hello):
        return site.honest(request)
    if not site.said:
        site.said.append(site.honest(request))
    return site.said[0]


def forged(site: Traitor, request: bytes) -> bytes:
    """Speak in the name of another client."""
    return encode(replace(decode(site.honest(request)), client=site.victim))


KINDS: dict[str, Callable[[Traitor, bytes], bytes]] = {
    "not a number": spoilt(not_a_number),
    "huge": spoilt(huge),
    "mass inflation": spoilt(inflated),
    "all to one corner": spoilt(cornered),
    COPY: replayed,
    ECHO: echoed,
    "forged identity": forged,
}


class Traitor(Site):
    """A site that announces itself honestly and then does not play by the rules."""

    def __init__(self, tables: list[Floats], own: int, victim: int, kind: str) -> None:
        super().__init__(tables[own])
        self.others, self.victim, self.kind = tables, victim, kind
        self.said: list[bytes] = []

    def honest(self, request: bytes) -> bytes:
        """Return what an honest site would answer."""
        return super().answer(request)

    def answer(self, request: bytes) -> bytes:
        """Answer as the kind of hostility will have it."""
        if not hasattr(decode(request), "terms"):
            return self.honest(request)
        return KINDS[self.kind](self, request)


# ------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Score:
    """The honest rows' silhouette, k, and how many messages were refused."""

    silhouette: float
    k: int
    rejected: int


def federate(sites: list[Site], schedule: Schedule, seed: int, **spec: Any) -> Finished:
    """Run the default preset over these sites."""
    transport = InProcess(sites, schedule.bind(len(sites), seed))
    return Coordinator(Spec(get_method("afcl"), seed=seed, **spec), transport).run()


def score(tables: list[Floats], bad: tuple[int, ...], kind: str, seed: int) -> Score:
    """Run with some clients hostile, away or silent after hello; judge the others."""
    good = [g for g in range(len(tables)) if g not in bad]
    sites: list[Site] = [Site(table) for table in tables]
    for g in bad if kind in KINDS else ():
        sites[g] = Traitor(tables, g, good[0], kind)
    away = dict.fromkeys(bad, 0) if kind == AWAY else {}
    silent = frozenset(bad if kind == SILENT else ())
    schedule = Rounds(probability="random", leaves=away, silent=silent)
    pooled = np.concatenate(tables)
    same_box = (pooled.min(axis=0), pooled.max(axis=0))
    scale = same_box if kind == AWAY else "minmax"
    finished = federate(sites, schedule, seed, scale=scale)
    labels = [
        get_method("afcl").label(
            finished.clustering, sites[g].scaled(finished.terms), None, g
        )
        for g in good
    ]
    rows = np.concatenate([tables[g] for g in good])
    found = np.concatenate(labels)
    box = minmax_box([ranges_of(rows)])
    collapsed = np.unique(found).shape[0] < 2
    quality = -1.0 if collapsed else float(silhouette(box.scale(rows), found))
    rejected = sum(finished.rejected.values())
    return Score(quality, finished.clustering.k, rejected)


def split(X: Floats, owners: Ints) -> list[Floats]:
    """Return one table per client."""
    return [X[owners == g] for g in range(CLIENTS)]


def hostile_table(
    rows: Callable[[int], Floats], runs: int, alike: bool
) -> Iterator[tuple[str, float, float, float, int]]:
    """Yield kind, silhouettes (with, left out), largest difference, refusals a run."""
    cases = []
    for seed in range(runs):
        X = rows(seed)
        owners = (
            iid_split(X.shape[0], CLIENTS, seed)
            if alike
            else kmeans_split(X, CLIENTS, seed)
        )
        bad = np.random.default_rng(seed).choice(CLIENTS, HOSTILE, replace=False)
        cases.append((split(X, owners), tuple(bad.tolist()), seed))
    without = {
        rest: [score(tables, bad, rest, seed) for tables, bad, seed in cases]
        for rest in (AWAY, SILENT)
    }
    for kind in KINDS:
        found = [score(tables, bad, kind, seed) for tables, bad, seed in cases]
        alone = without[SILENT if kind == ECHO else AWAY]
        both = zip(found, alone, strict=True)
        yield (
            kind,
            float(np.mean([each.silhouette for each in found])),
            float(np.mean([each.silhouette for each in alone])),
            max(abs(a.silhouette - b.silhouette) for a, b in both),
            sum(each.rejected for each in found),
        )


# ------------------------------------------------------------------ honest clients


def honest_rows(rng: np.random.Generator) -> list[Floats]:
    """Draw the tables of a federation, as odd as honest ones can be."""
    d = int(rng.choice([1, 2, 3, 8, 20]))
    spots = rng.normal(0, 3, (int(rng.integers(1, 8)), d))
    shape = rng.integers(5)
    tables = []
    for _ in range(int(rng.integers(1, 12))):
        n = int(rng.choice([5, 6, 9, 25, 60, 200]))
        X = spots[rng.integers(0, len(spots), n)] + rng.normal(0, 1, (n, d))
        if shape == 1:
            X = np.rint(X)  # many equal rows
        elif shape == 2:
            X = np.exp(2 * X)  # far outliers
        elif shape == 3:
            X = 1e6 + 1e-3 * X
        elif shape == 4:
            X[:, 0] = 7.0  # a constant column
            X = X[rng.integers(0, max(1, n // 4), n)]
        tables.append(np.ascontiguousarray(X))
    return tables


def honest_run(seed: int) -> tuple[int, int]:
    """Return how many messages a run of honest clients has, and how many are refused.

    Late joiners hold rows like the others': who lies more than a box width outside the
    box that was agreed without it is refused by intent.
    """
    rng = np.random.default_rng(seed)
    tables = honest_rows(rng)
    pooled = np.concatenate(tables)
    n_clients = len(tables)
    late = {}
    if n_clients > 2 and rng.random() < 0.4:
        tables[-1] = tables[0][rng.integers(0, tables[0].shape[0], tables[-1].shape[0])]
        late = {n_clients - 1: int(rng.integers(1, 5))}
    schedule = rng.choice(
        np.array(
            [
                Schedule(late=late),
                Rounds(probability="random", late=late),
                Rounds(probability=0.7, delay=4, late=late),
                EventClock(loss=0.2, late=late),
            ],
            dtype=object,
        )
    )
    options: dict[str, Any] = {
        "min_cell": int(rng.choice([1, 2, 5])),
        "contacts": int(rng.choice([2, 3, 6, 12])),
        "n_seeds": [None, None, 3, 40][rng.integers(4)],
        "drift": float(rng.choice([0.01, 0.5, 5.0])),
    }
    level = rng.choice(["summary", "summary", "grouped(3)", "dp(8)"])
    bounds = (pooled.min(axis=0), pooled.max(axis=0))
    scale: Any = ["minmax", bounds, None][rng.integers(3)]
    if level == "dp(8)":
        scale = bounds
    options["privacy"] = str(level)
    sites = [Site(table) for table in tables]
    finished = federate(
        sites, schedule, seed, options=options, scale=scale, max_rounds=60
    )
    messages = sum(tally.messages for tally in finished.tallies.values())
    return messages, sum(finished.rejected.values())


def honest_messages(least: int) -> tuple[int, int, int]:
    """Run honest federations until they have sent so many messages."""
    count: Counter[str] = Counter()
    while count["messages"] < least:
        messages, rejected = honest_run(count["runs"])
        count.update(messages=messages, rejected=rejected, runs=1)
    return count["messages"], count["rejected"], count["runs"]


# ------------------------------------------------------------------ the command


def _find(folder: Path) -> Path:
    """Return SE.csv, wherever it lies in the folder."""
    for path in sorted(folder.rglob("SE.csv")):
        return path
    raise SystemExit(f"no SE.csv in {folder}: give the folder that holds it")


def main() -> int:
    """Print the tables; return 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with SE.csv")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--messages", type=int, default=10_000)
    chosen = parser.parse_args()
    sets: dict[str, Callable[[int], Floats]] = {"SD1": lambda seed: make_sd1(seed)[0]}
    if chosen.data is not None:
        seeds = np.loadtxt(_find(chosen.data), delimiter=",", skiprows=1)[:, :-1]
        sets["SE"] = lambda _: seeds
    holds = True
    print(f"{CLIENTS} clients, {HOSTILE} hostile, {chosen.runs} runs, all counted")
    print("data split  kind                 with   without  largest  refused")
    for name, rows in sets.items():
        for alike in (False, True):
            for kind, found, alone, off, refused in hostile_table(
                rows, chosen.runs, alike
            ):
                star = kind == ECHO or (alike and kind == COPY)
                holds = holds and (star or off <= TOLERANCE)
                mixed = "iid" if alike else "k-means"
                print(
                    f"{name:4} {mixed:7} {kind:20} {found:.3f}  {alone:.3f}    "
                    f"{off:.3f}{'*' if star else ' '}   {refused}",
                    flush=True,
                )
    messages, rejected, runs = honest_messages(chosen.messages)
    print(f"honest: {rejected} of {messages} messages refused in {runs} runs")
    return 0 if holds and not rejected else 1


if __name__ == "__main__":
    sys.exit(main())
