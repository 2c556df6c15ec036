# SPDX-License-Identifier: Apache-2.0
"""What one lying site of five, or two of ten, do to the answer for the others' rows.

``python benchmarks/lies.py [--seeds 20] [--levels ...] [--lies ...] [--honest 1000]``

Every line is a lie at a level of privacy, on two kinds of data dealt out in three ways,
in turn. Beside each other stand the adjusted Rand index of the honest rows (against the
clusters they were drawn from) with the lies, with the liars left out, and with them
there and honest (what their true rows do is no lie's fault), the mean and the largest
loss against leaving them out, how many seeds lost more than .05 against that, and
against both, in how many runs something was said, and which seeds lost. Lines with a
star are within the rules: an honest site may hold such rows. Then honest federations of
unlike sites are counted. Exits 1 if a seed lost against both without a star, or an
honest site was refused.

The lies are told by sites that otherwise follow the protocol: far rows, extremes that
are not theirs, more rows than they have, other units, and sums that they add a number
to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells, Hello, Summary, Update
from afcl.core.tasks import Part, SecureHello
from afcl.core.terms import AskRanges, AskStep
from afcl.data.split import dirichlet_split, iid_split, kmeans_split
from afcl.data.synthetic import make_mixture, random_mixture
from afcl.exceptions import AfclError
from afcl.methods import get_method
from afcl.metrics import adjusted_rand
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.schedule import Schedule
from afcl.runtime.site import Site
from afcl.runtime.spec import Finished, Spec

#: The levels that are lied to; the first is the default of three sites and more.
LEVELS = ("secure(plain)+summary", "summary", "grouped(5)")
#: Largest loss of ARI against leaving the liars out.
TOLERANCE = 0.05
#: Rows that are declared where none are held.
DECLARED = 10**9


# ------------------------------------------------------------------ lies in rows


def far(times: float, columns: slice = slice(None), share: float = 1.0) -> Table:
    """Put (some of) one's rows into a blob, so many of the others' spans away."""

    def change(own: Floats, low: Floats, span: Floats, seed: int) -> Floats:
        rng = np.random.default_rng([seed, 77])
        rows, some = own.copy(), rng.random(own.shape[0]) < share
        blob = low + times * span + 0.1 * span * rng.standard_normal(own.shape)
        rows[some, columns] = blob[some, columns]
        return rows

    return change


def other_units(own: Floats, low: Floats, span: Floats, seed: int) -> Floats:
    """Leave the first column as it is, and take the others a thousand times."""
    factors = np.full(own.shape[1], 1000.0)
    factors[0] = 1.0
    stretched: Floats = own * factors
    return stretched


def enormous(own: Floats, low: Floats, span: Floats, seed: int) -> Floats:
    """Hold rows of plus and minus 1e300."""
    signs = np.random.default_rng([seed, 78]).choice([-1.0, 1.0], own.shape)
    return 1e300 * signs


# ------------------------------------------------------------------ lies in messages


def each_count(said: Any, times: int) -> Any:
    """Return a message that speaks of so many times the rows."""

    def more(cells: Cells) -> Cells:
        return replace(
            cells, counts=cells.counts * times, scatters=cells.scatters * float(times)
        )

    if isinstance(said, Hello):
        payload = said.payload
        if isinstance(payload, SecureHello):
            payload = replace(payload, cells=more(payload.cells))
        else:
            payload = more(payload)
        return replace(said, n_rows=said.n_rows * times, payload=payload)
    if isinstance(said.payload, Part):
        return replace(
            said, payload=replace(said.payload, values=said.payload.values * times)
        )
    summary: Summary = said.payload
    levels = tuple(
        replace(
            each,
            cells=more(each.cells),
            sums=each.sums * times,
            valleys=each.valleys * times,
        )
        for each in summary.levels
    )
    changed = replace(summary, cells=more(summary.cells), levels=levels)
    return replace(said, payload=changed)


def declared(site: Liar, request: bytes) -> bytes:
    """Speak of a thousand million rows, in every message alike."""
    said = decode(site.honest(request))
    times = DECLARED // site.rows.shape[0]
    if isinstance(decode(request), AskRanges):
        return encode(replace(said, n_rows=said.n_rows * times))
    return encode(each_count(said, times))


def announced(site: Liar, request: bytes) -> bytes:
    """Announce extremes of plus and minus 1e300, and be honest from then on."""
    said = decode(site.honest(request))
    if isinstance(decode(request), AskRanges):
        d = said.n_features
        said = replace(said, low=np.full(d, -1e300), high=np.full(d, 1e300))
    return encode(said)


def shifted(by: int, phases: Sequence[str], every: int = 1) -> Message:
    """Add a number to (every so many of) one's numbers in the sums of a cohort."""

    def answer(site: Liar, request: bytes) -> bytes:
        asked, said = decode(request), decode(site.honest(request))
        part = said.payload if isinstance(said, Update) else None
        if not isinstance(asked, AskStep) or not isinstance(part, Part):
            return encode(said)
        if part.phase not in phases:
            return encode(said)
        values = part.values.copy()
        values[::every] += by
        return encode(replace(said, payload=replace(part, values=values)))

    return answer


def only_sums(by: int, step: str) -> Message:
    """Leave counts as they are, and add a number to first moments alone."""

    def answer(site: Liar, request: bytes) -> bytes:
        asked, said = decode(request), decode(site.honest(request))
        part = said.payload if isinstance(said, Update) else None
        if not isinstance(part, Part) or part.phase != "sum":
            return encode(said)
        question = asked.payload.own.question
        fine = len(question.partitions) > 1
        if step != "all" and fine != (step == "fine"):
            return encode(said)
        values = part.values.reshape(question.partitions[-1].n_groups, -1).copy()
        values[:, 1 : 1 + question.n_features] += by
        if step == "all":  # second moments that fit the shift
            values[:, 1 + question.n_features :] += abs(by)
        return encode(replace(said, payload=replace(part, values=values.ravel())))

    return answer


#: Own rows, the others' lows and spans, a seed: the rows that the liar says it has.
Table = Callable[[Floats, Floats, Floats, int], Floats]
#: A liar and what it is asked: what it answers.
Message = Callable[["Liar", bytes], bytes]

ROWS: dict[str, Table] = {
    "far blob x 10": far(10),
    "far blob x 100": far(100),
    "far blob x 1000": far(1000),
    "far blob x 10, one column": far(10, slice(0, 1)),
    "far blob x 100, one column": far(100, slice(0, 1)),
    "far blob x 1000, one column": far(1000, slice(0, 1)),
    "a tenth far, x 10": far(10, share=0.1),
    "a tenth far, x 100": far(100, share=0.1),
    "a tenth far, x 1000": far(1000, share=0.1),
    "other columns x 1000": other_units,
    "rows of 1e300": enormous,
}
MESSAGES: dict[str, Message] = {
    "announced 1e300": announced,
    "declared 1e9 rows": declared,
    "all sums + 1": shifted(1, ("count", "sum", "score")),
    "all sums + 2^20": shifted(1 << 20, ("count", "sum", "score")),
    "all sums + 2^60": shifted(1 << 60, ("count", "sum", "score")),
    "counts + 100": shifted(100, ("count",)),
    "moments + 2^14": only_sums(1 << 14, "all"),
    "moments + 2^18": only_sums(1 << 18, "all"),
    "moments + 2^22": only_sums(1 << 22, "all"),
    "moments + 2^30": only_sums(1 << 30, "all"),
    "finer moments + 2^18": only_sums(1 << 18, "fine"),
    "finer moments + 2^22": only_sums(1 << 22, "fine"),
    "scores + 10": shifted(10, ("score",)),
    "scores + 1000": shifted(1000, ("score",)),
    "scores + 2^20": shifted(1 << 20, ("score",)),
}
#: Told only where there are sums.
SUMS = frozenset(MESSAGES) - {"announced 1e300", "declared 1e9 rows"}
LIES = (*ROWS, *MESSAGES)
#: An honest site may lie as far away as this: such lies are named, not undone.
HONEST_TOO = frozenset(
    {"far blob x 10", "far blob x 10, one column", "a tenth far, x 10"}
)


class Liar(Site):
    """A site that answers by the protocol, but for one lie."""

    def __init__(self, rows: Floats, lie: Message | None) -> None:
        super().__init__(rows)
        self.lie = lie

    def honest(self, request: bytes) -> bytes:
        """Return what an honest site would answer."""
        return super().answer(request)

    def answer(self, request: bytes) -> bytes:
        """Answer with the lie."""
        return self.honest(request) if self.lie is None else self.lie(self, request)


# ------------------------------------------------------------------ federations


def separated(seed: int) -> tuple[Floats, Ints]:
    """Draw five well separated clusters in three columns."""
    about = {"separation": 4.0, "imbalance": 2.0, "n_samples": 800}
    return make_mixture(5, 3, random_state=[seed, 5], **about)  # type: ignore[arg-type]


DATA: dict[str, Callable[[int], tuple[Floats, Ints]]] = {
    "separated": separated,
    "mixture": lambda seed: random_mixture(3000 + seed),
}


def _dirichlet(X: Floats, y: Ints, seed: int) -> Ints:
    owners = dirichlet_split(y, 10, alpha=0.3, random_state=seed)
    held = np.bincount(owners, minlength=10)
    return np.where(held[owners] < 10, held.argmax(), owners)


SPLITS: dict[str, Callable[[Floats, Ints, int], Ints]] = {
    "random 5": lambda X, y, seed: iid_split(X.shape[0], 5, seed),
    "k-means 5": lambda X, y, seed: kmeans_split(X, 5, seed),
    "Dirichlet 10": _dirichlet,
}


@dataclass(frozen=True)
class Federation:
    """Tables and classes by site, and who lies."""

    tables: list[Floats]
    classes: list[Ints]
    bad: tuple[int, ...]

    @property
    def good(self) -> list[int]:
        """Who does not."""
        return [g for g in range(len(self.tables)) if g not in self.bad]


def federation(data: str, split: str, seed: int) -> Federation:
    """Deal out rows; one site of five lies, two of ten."""
    X, y = DATA[data](seed)
    owners = SPLITS[split](X, y, seed)
    held = np.unique(owners).tolist()
    rng = np.random.default_rng([seed, 79])
    liars = rng.choice(len(held), 2 if len(held) > 7 else 1, replace=False)
    return Federation(
        [X[owners == g] for g in held],
        [y[owners == g] for g in held],
        tuple(liars.tolist()),
    )


def sites_of(fed: Federation, lie: str, seed: int) -> list[Site]:
    """Return the sites, the liars among them."""
    pooled = np.concatenate([fed.tables[g] for g in fed.good])
    low, span = pooled.min(axis=0), np.ptp(pooled, axis=0)
    sites: list[Site] = [Site(table) for table in fed.tables]
    for g in fed.bad:
        rows = fed.tables[g]
        if lie in ROWS:
            rows = ROWS[lie](rows, low, span, seed + g)
        sites[g] = Liar(rows, MESSAGES.get(lie))
    return sites


def run(
    sites: list[Site], level: str, seed: int, away: Sequence[int] = (), **more: Any
) -> Finished:
    """Run the default preset over these sites; some may never come."""
    schedule = Schedule(leaves=dict.fromkeys(away, 0))
    transport = InProcess(sites, schedule.bind(len(sites), seed))
    names = tuple(f"site-{i + 1}" for i in range(len(sites)))
    options = {"privacy": level}
    spec = Spec(get_method("afcl"), options, seed, names=names, **more)
    return Coordinator(spec, transport).run()


def agreement(fed: Federation, finished: Finished) -> float:
    """Return the ARI of the honest rows."""
    method = get_method("afcl")
    found = [
        method.label(
            finished.clustering, Site(fed.tables[g]).scaled(finished.terms), None, g
        )
        for g in fed.good
    ]
    truth = np.concatenate([fed.classes[g] for g in fed.good])
    return float(adjusted_rand(truth, np.concatenate(found)))


def without(fed: Federation, level: str, seed: int) -> float:
    """Return the ARI of the run in which the liars are left out."""
    sites = [Site(table) for table in fed.tables]
    return agreement(fed, run(sites, level, seed, fed.bad))


def honestly(fed: Federation, level: str, seed: int) -> float:
    """Return the ARI of the run in which the liars are there, and do not lie."""
    return agreement(fed, run([Site(table) for table in fed.tables], level, seed))


def said(finished: Finished) -> list[str]:
    """Return what a run says of its sites."""
    notes = [event["text"] for event in finished.trace.of("note")]
    refused = [
        event["reason"]
        for kind in ("rejected", "failure")
        for event in finished.trace.of(kind)
    ]
    about = [finished.clustering.note] if finished.clustering.note else []
    return [*notes, *refused, *about]


@dataclass(frozen=True)
class Told:
    """ARI with a lie and k; whether anything was said."""

    ari: float
    k: int
    lines: list[str]


def lied_to(fed: Federation, lie: str, level: str, seed: int) -> Told:
    """Return what becomes of the honest rows."""
    try:
        finished = run(sites_of(fed, lie, seed), level, seed)
    except AfclError as error:
        return Told(-1.0, 0, [f"failed: {error}"])
    ari = agreement(fed, finished)
    return Told(ari, finished.clustering.k, said(finished))


# ------------------------------------------------------------------ honest sites


def _one_cluster_each(rng: np.random.Generator, d: int) -> list[Floats]:
    spots = rng.uniform(0, 20, (5, d))
    return [rng.normal(spot, 1, (int(rng.integers(20, 200)), d)) for spot in spots]


def _one_far_away(rng: np.random.Generator, d: int) -> list[Floats]:
    tables = _common(rng, d)
    span = np.ptp(np.concatenate(tables[1:]), axis=0)
    moved = rng.random(d) < rng.choice([0.2, 1.0])
    moved[rng.integers(d)] = True
    tables[0] = tables[0] + rng.uniform(5, 20) * span * moved
    return tables


def _common(rng: np.random.Generator, d: int) -> list[Floats]:
    spots = rng.uniform(0, 20, (int(rng.integers(2, 7)), d))
    return [
        spots[rng.integers(0, len(spots), n)] + rng.normal(0, 1, (n, d))
        for n in rng.integers(20, 200, int(rng.integers(3, 9))).tolist()
    ]


def _heavy_tails(rng: np.random.Generator, d: int) -> list[Floats]:
    tables = _common(rng, d)
    return [X + rng.standard_t(1.5, X.shape) for X in tables]


def _log_normal(rng: np.random.Generator, d: int) -> list[Floats]:
    sigma = rng.choice([0.5, 1.0, 2.0])
    return [np.exp(sigma * (X - 10) / 5) for X in _common(rng, d)]


def _one_huge(rng: np.random.Generator, d: int) -> list[Floats]:
    spots = rng.uniform(0, 20, (4, d))
    sizes = (6000, 6, 6, 6, 6)
    return [spots[rng.integers(0, 4, n)] + rng.normal(0, 1, (n, d)) for n in sizes]


def _constant_elsewhere(rng: np.random.Generator, d: int) -> list[Floats]:
    tables = _common(rng, d)
    for X in tables[1:]:
        X[:, 0] = 3.0
    return tables


def _two(rng: np.random.Generator, d: int) -> list[Floats]:
    tables = _common(rng, d)[:2]
    tables[0] = tables[0] * rng.choice([1.0, 30.0, 1000.0])
    return tables


def _tiny(rng: np.random.Generator, d: int) -> list[Floats]:
    spots = rng.uniform(0, 20, (3, d))
    sizes = rng.integers(5, 13, int(rng.integers(3, 20))).tolist()
    return [spots[rng.integers(0, 3, n)] + rng.normal(0, 1, (n, d)) for n in sizes]


UNLIKE: dict[str, Callable[[np.random.Generator, int], list[Floats]]] = {
    "one cluster a site": _one_cluster_each,
    "one site far away": _one_far_away,
    "heavy tails": _heavy_tails,
    "log-normal columns": _log_normal,
    "one huge site": _one_huge,
    "constant elsewhere": _constant_elsewhere,
    "two sites": _two,
    "tiny sites": _tiny,
}


def unlike(kind: str, seed: int) -> tuple[list[Floats], str]:
    """Draw an honest federation of unlike sites, and a level for it."""
    rng = np.random.default_rng([seed, *kind.encode()])
    tables = UNLIKE[kind](rng, int(rng.choice([1, 2, 3, 8])))
    level = str(rng.choice(LEVELS))
    return tables, "summary" if len(tables) < 3 else level


def honest(count: int) -> int:
    """Print how unlike honest sites fare; return how many messages were refused."""
    refused = 0
    print("honest sites            runs  refused  spoilt sums  walls  named")
    for kind in UNLIKE:
        seen = np.zeros(4, dtype=int)
        runs = -(-count // len(UNLIKE))
        for seed in range(runs):
            tables, level = unlike(kind, seed)
            finished = run([Site(table) for table in tables], level, seed)
            spoilt = "could not be true" in finished.clustering.note
            notes = finished.trace.of("note")
            walls = bool(finished.terms.box.walls)
            seen += (sum(finished.rejected.values()), spoilt, walls, bool(notes))
        refused += int(seen[0] + seen[1])
        print(f"{kind:22} {runs:5} {seen[0]:8} {seen[1]:12} {seen[2]:6} {seen[3]:6}")
    return refused


#: What is dealt out how: one of these after the other, seed by seed.
CASES = tuple((data, split) for split in SPLITS for data in DATA)


def table(levels: Sequence[str], lies: Sequence[str], seeds: range) -> int:
    """Print what every lie does; return how many runs lost too much, unexcused."""
    cases = [CASES[seed % len(CASES)] for seed in seeds]
    feds = [federation(*case, seed) for case, seed in zip(cases, seeds, strict=True)]
    missed = 0
    print("level, lie: ARI with it, left out, honest; mean and largest loss; seeds")
    print("that lose against leaving out, and against both")
    for level in levels:
        both = list(zip(feds, seeds, strict=True))
        alone = [without(fed, level, seed) for fed, seed in both]
        there = [honestly(fed, level, seed) for fed, seed in both]
        for lie in lies:
            if lie in SUMS and "secure" not in level:
                continue
            told = [lied_to(fed, lie, level, seed) for fed, seed in both]
            loss = [a - t.ari for a, t in zip(alone, told, strict=True)]
            where = [seed for x, seed in zip(loss, seeds, strict=True) if x > TOLERANCE]
            lies_on = [
                x > TOLERANCE and h - t.ari > TOLERANCE
                for x, h, t in zip(loss, there, told, strict=True)
            ]
            missed += 0 if lie in HONEST_TOO else sum(lies_on)
            print(
                f"{level:22} {lie:28} {np.mean([t.ari for t in told]):.3f}  "
                f"{np.mean(alone):.3f}  {np.mean(there):.3f}  {np.mean(loss):6.3f} "
                f"{max(loss):6.3f} {len(where):3} {sum(lies_on):3}"
                f"{'*' if lie in HONEST_TOO else ' '} "
                f"said in {sum(bool(t.lines) for t in told)} of {len(told)} {where}",
                flush=True,
            )
    return missed


def main() -> int:
    """Print the tables; return 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--levels", default=";".join(LEVELS))
    parser.add_argument("--lies", default=";".join(LIES))
    parser.add_argument("--honest", type=int, default=1000, help="honest federations")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    levels, lies = chosen.levels.split(";"), chosen.lies.split(";")
    missed = table(levels, lies, seeds) if seeds else 0
    refused = honest(chosen.honest) if chosen.honest else 0
    print(f"{missed} runs lost more than {TOLERANCE}, {refused} honest refused")
    return int(missed > 0 or refused > 0)


if __name__ == "__main__":
    sys.exit(main())
