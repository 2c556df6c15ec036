# SPDX-License-Identifier: Apache-2.0
"""Tables beyond the paper's two: trajectories to time, a function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from afcl_bench.blocks_paper import DEFAULT, counted, mean
from afcl_bench.frame import Frame, Row
from afcl_bench.plots import exponent
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, mean_std, number, share

#: Share of the final score at which a run has arrived.
ARRIVED = 0.99


def scores(frame: Frame) -> Iterator[Table]:
    """List every kind of run with its scores: what a spec gets by default."""
    rows = []
    for key, runs in frame.by(_kind).items():
        done = sum(row.status == DONE for row in runs.rows)
        measured = [mean_std(counted(runs, m)) for m in ("k", "sc", "sc2", "ch", "ari")]
        kilobytes = number(mean(runs.values("bytes")) / 1000, 1)
        rows.append((*key, f"{done} of {len(runs)}", *measured, kilobytes))
    header = ("data", "method", "options", "split", "participation", "runs")
    yield Table(
        "scores",
        "All runs: a collapsed one counts as SC = -1 and CH = 0.",
        (*header, "k'", "SC", "SC²", "CH", "ARI", "kB"),
        tuple(rows),
    )


# ------------------------------------------------------------------ over the rounds


def prepared(row: Row) -> list[dict[str, Any]]:
    """Return what the server thought, round by round."""
    return [event for event in row.trace or () if event["event"] == "prepare"]


def trajectories(frame: Frame) -> Iterator[Table]:
    """How many seeds there were, how many clusters came out, in how many rounds."""
    rows = []
    for method, runs in frame.by(lambda r: r.cell.method).items():
        for row in runs.rows:
            events = prepared(row)
            seeds = str(len(events[0]["seeds"])) if events else NONE
            found = [number(row.value(name), 0) for name in ("k", "rounds")]
            said = (method, str(row.cell.seed), seeds)
            rows.append((*said, *found, number(row.value("sc"))))
    yield Table(
        "trajectories",
        "SD1 over three clients: seeds at the start, clusters found (there are 4).",
        ("method", "seed", "seeds", "k'", "rounds", "SC"),
        tuple(rows),
    )


def convergence(frame: Frame) -> Iterator[Table]:
    """Count the rounds until a run stops by itself."""
    rows = []
    for (name, method), runs in frame.by(_where).items():
        rounds = runs.values("rounds")
        known = [row for row in runs.rows if row.trace or row.status != DONE]
        stopped = np.array([_end(row) == "done" for row in known], dtype=np.float64)
        rows.append(
            (
                name,
                method,
                mean_std(rounds, 1),
                number(max(rounds[~np.isnan(rounds)], default=None), 0),
                share(mean(stopped)),
                mean_std(runs.values("most_messages"), 1),
            )
        )
    yield Table(
        "convergence",
        "Rounds until the end, over all runs (100 at most).",
        ("data", "method", "rounds", "most", "stopped by itself", "messages a client"),
        tuple(rows),
    )


def _end(row: Row) -> str:
    ends = [event for event in row.trace or () if event["event"] == "end"]
    return str(ends[-1]["reason"]) if ends else ""


# ------------------------------------------------------------------ settings


def ablation(frame: Frame) -> Iterator[Table]:
    """Each step of the default added to the one before."""
    for measure, title in (("sc", "silhouette"), ("ari", "ARI")):
        rows = []
        for method, runs in frame.by(lambda r: r.cell.method).items():
            parts = runs.by(lambda r: r.cell.dataset)
            cells = [_step(parts.get(name), measure) for name in frame.datasets()]
            total = number(mean(counted(runs, measure)))
            rows.append((method.replace("ablation:", "+ "), *cells, total))
        yield Table(
            f"ablation-{measure}",
            f"Mean {title} over all runs (mean k'), then the share of collapsed runs "
            "where there are any; (n): only so many runs have an answer.",
            ("step", *frame.datasets(), "all"),
            tuple(rows),
        )


def _step(part: Frame | None, measure: str) -> str:
    if part is None:
        return NONE
    done = Frame(tuple(row for row in part.rows if row.status == DONE))
    if not len(done):
        return "cap"
    text = (
        f"{number(mean(counted(done, measure)))} ({number(mean(done.values('k')), 1)})"
    )
    lost = float(np.isnan(done.values("ch")).mean())
    text += f" {share(lost)}" if lost else ""
    return text if len(done) == len(part) else f"{text} ({len(done)})"


def seeds(frame: Frame) -> Iterator[Table]:
    """Quality against the number of seeds at the start."""
    starts = list(dict.fromkeys(row.option("n_seeds") or "auto" for row in frame.rows))
    rows = []
    for (name, method), runs in frame.by(_where).items():
        parts = runs.by(lambda r: r.option("n_seeds") or "auto")
        cells = []
        for start in starts:
            part = parts.get(start)
            cells.append(NONE if part is None else _score_and_k(part))
        rows.append((name, method, *cells))
    yield Table(
        "seeds",
        "Mean silhouette over all runs (mean k') by the number of seeds at the start.",
        ("data", "method", *starts),
        tuple(rows),
    )


def _score_and_k(part: Frame) -> str:
    found = mean(part.values("k"))
    if np.isnan(found):
        return "cap"
    return f"{number(mean(counted(part, 'sc')))} ({number(found, 1)})"


# ------------------------------------------------------------------ the number of k


def k_recovery(frame: Frame) -> Iterator[Table]:
    """How often k' is right."""
    mixtures = frame.where(group="mixtures")
    splits = list(dict.fromkeys(row.cell.split for row in mixtures.rows))
    methods_at = mixtures.by(_at_level)
    ours = methods_at.get(DEFAULT, Frame(()))
    rows = []
    for method, runs in methods_at.items():
        parts = runs.by(lambda r: r.cell.split)
        cells = [_hits(parts.get(s), ours.where(split=s)) for s in splits]
        rows.append((method, *cells))
    yield Table(
        "k-recovery",
        "Generated mixtures: share of all runs with k' exact / within 1, and the ARI. "
        "A run without an answer within its cap counts as wrong (ARI 0). Slow methods "
        "met the first 20 mixtures only; beside them stands the default on these.",
        ("method", *splits),
        tuple(rows),
    )
    suite = frame.where(group="suite")
    methods = suite.methods()
    rows = []
    for name, runs in suite.by(lambda r: r.cell.dataset).items():
        groups = runs.by(lambda r: r.cell.method)
        true = max(row.k_true for row in runs.rows)
        cells = [_ks(groups[m], true) if m in groups else NONE for m in methods]
        rows.append((name, str(true), *cells))
    yield Table(
        "k-recovery-suite",
        "Data with known classes: runs with k' = k\\*, and the k' found.",
        ("data", "k*", *methods),
        tuple(rows),
    )


def _at_level(row: Row) -> str:
    """Return the method, with its privacy level where that is not the default."""
    level = row.option("privacy")
    return row.cell.method if level is None else f"{row.cell.method}, {level}"


def _hits(runs: Frame | None, ours: Frame) -> str:
    """Return the hits; of fewer runs than ours, with our hits in the same ones."""
    if runs is None:
        return NONE
    agreement = np.nan_to_num(runs.values("ari"))
    text = f"{_shares(runs)} · {number(float(agreement.mean()))}"
    lost = sum(row.status != DONE for row in runs.rows)
    if lost:
        text += f", {lost} capped"
    if len(runs) < len(ours):
        seeds = [row.cell.seed for row in runs.rows]
        text += f" ({len(runs)} runs; {DEFAULT} {_shares(ours.where(seed=seeds))})"
    return text


def _shares(runs: Frame) -> str:
    gaps = np.array([abs(_found(row) - row.k_true) for row in runs.rows])
    return f"{number((gaps == 0).mean(), 2)} / {number((gaps <= 1).mean(), 2)}"


def _found(row: Row) -> float:
    return float(row.facts["k"]) if row.status == DONE else np.inf


def _ks(runs: Frame, true: int) -> str:
    found = [int(k) for k in runs.values("k") if not np.isnan(k)]
    if not found:
        return "cap"
    low, high = min(found), max(found)
    text = str(low) if low == high else f"{low}-{high}"
    exact = sum(k == true for k in found)
    return (
        f"**{exact}/{len(runs)}**"
        if exact == len(runs)
        else (f"{exact}/{len(runs)} ({text})")
    )


# ------------------------------------------------------------------ asynchrony


def asynchrony(frame: Frame) -> Iterator[Table]:
    """Quality by how uneven participation is."""
    for group in ("skew", "one-shot"):
        runs = frame.where(group=group)
        levels = list(dict.fromkeys(row.cell.participation for row in runs.rows))
        for measure in ("sc", "ari"):
            rows = []
            for (name, method), part in runs.by(_where).items():
                parts = part.by(lambda r: r.cell.participation)
                cells = [_mean_of(parts.get(level), measure) for level in levels]
                rows.append((name, method, *cells))
            yield Table(
                f"asynchrony-{group}-{measure}",
                f"Mean {measure.upper()} over all runs, 20 clients; rivals given k\\*.",
                ("data", "method", *levels),
                tuple(rows),
            )


def late(frame: Frame) -> Iterator[Table]:
    """Let a client that owns a cluster alone join late."""
    runs = frame.where(group="late")
    habits = list(dict.fromkeys(row.cell.participation for row in runs.rows))
    rows = []
    for (name, method), part in runs.by(_where).items():
        line = [name, method]
        for habit in habits:
            some = part.where(participation=habit)
            right = np.array([_found(row) == row.k_true for row in some.rows])
            line += [_mean_of(some, "ari"), share(mean(right.astype(np.float64)))]
        rows.append(tuple(line))
    header = [text for h in habits for text in (f"ARI, {h}", f"k' = k*, {h}")]
    yield Table(
        "late",
        "One of five clients owns a class alone and is there from the start, or joins "
        "in round 4 (the scale is agreed without it); rivals given k\\*.",
        ("data", "method", *header),
        tuple(rows),
    )


def _mean_of(runs: Frame | None, measure: str) -> str:
    if runs is None or not len(runs):
        return NONE
    values = counted(runs, measure)
    known = values[~np.isnan(values)]
    missing = "" if known.size == values.size else f" ({known.size})"
    return number(float(known.mean())) + missing if known.size else "cap"


# ------------------------------------------------------------------ cost


def arrivals(frame: Frame) -> dict[tuple[str, str], list[tuple[float, float, float]]]:
    """Return kB, messages a client and final score of runs when they have arrived.

    A run has arrived at the first of the rounds looked at from which on its silhouette
    stays at 99 % of the final one or above; a run that ends collapsed never arrives.
    """
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for where, runs in frame.by(_where).items():
        found[where] = []
        for steps in runs.by(lambda r: r.cell.seed).values():
            ordered = sorted(steps.rows, key=lambda r: int(r.option("max_rounds")))
            found[where].append(_arrival([r for r in ordered if r.status == DONE]))
    return found


def _arrival(steps: list[Row]) -> tuple[float, float, float]:
    nothing = (float("nan"), float("nan"), float("nan"))
    if not steps:
        return nothing
    values = [row.scores["sc"] or 0.0 for row in steps]
    final = values[-1]
    if final <= -1.0:
        return (*nothing[:2], final)
    bound = final - (1 - ARRIVED) * abs(final)
    first = len(steps) - 1
    while first > 0 and values[first - 1] >= bound:
        first -= 1
    facts = steps[first].facts
    return facts["bytes"] / 1000, float(facts["most_messages"]), final


def cost(frame: Frame) -> Iterator[Table]:
    """Say what it takes to reach 99 % of the final score."""
    found = arrivals(frame)
    names = frame.datasets()
    rows = []
    for method in frame.methods():
        cells = []
        for name in names:
            if (name, method) not in found:
                cells.append(NONE)
                continue
            values = np.array(found[name, method])
            if np.isnan(values[:, 0]).all():
                cells.append("collapsed" if (values[:, 2] == -1).any() else "cap")
                continue
            kilobytes, messages, final = np.nanmean(values, axis=0)
            cells.append(
                f"{number(float(kilobytes), 1)} kB, {number(float(messages), 1)} "
                f"→ {number(float(final))}"
            )
        rows.append((method, *cells))
    yield Table(
        "cost",
        "kB of all clients together and messages of the busiest client until the "
        "silhouette stays within 1 % of its final value, → the final value.",
        ("method", *names),
        tuple(rows),
    )


# ------------------------------------------------------------------ time


def measured_size(of: int, row: Row) -> int:
    """Return the rows (0) or the features (1) of generated data, from its name."""
    return int(row.cell.dataset.split(":")[1 + of])


def time(frame: Frame) -> Iterator[Table]:
    """Seconds by size, and how they grow."""
    for group, of in (("rows", 0), ("rows, ours", 0), ("features", 1)):
        runs = frame.where(group=group)
        if len(runs):
            yield _times(runs, group, partial(measured_size, of))


def _times(runs: Frame, group: str, size: Callable[[Row], int]) -> Table:
    sizes = sorted({size(row) for row in runs.rows})
    rows = []
    for method, part in runs.by(lambda r: r.cell.method).items():
        by_size = part.by(size)
        seconds = np.array([_median(by_size.get(s)) for s in sizes])
        known = ~np.isnan(seconds)
        cells = [
            number(float(second), 2)
            if not np.isnan(second)
            else "cap"
            if size in by_size
            else NONE
            for size, second in zip(sizes, seconds, strict=True)
        ]
        grows = exponent(np.array(sizes, dtype=np.float64)[known], seconds[known])
        rows.append((method, *cells, number(grows, 2)))
    what = "rows (d = 2)" if "rows" in group else "features (n = 2000)"
    return Table(
        f"time-{group.replace(', ', '-')}",
        f"CPU seconds (median) by number of {what}, one thread, five clients, "
        "everybody present; e: fitted exponent of growth.",
        ("method", *(f"{s:,}" for s in sizes), "e"),
        tuple(rows),
    )


# ------------------------------------------------------------------ keys


def _where(row: Row) -> tuple[str, str]:
    return row.cell.dataset, row.cell.method


def _kind(row: Row) -> tuple[str, ...]:
    cell = row.cell
    options = ", ".join(f"{name} = {value}" for name, value in cell.options)
    return cell.dataset, cell.method, options, cell.split, cell.participation


def _median(runs: Frame | None) -> float:
    """Return the median CPU seconds of the answers; NaN where there is none."""
    seconds = runs.values("cpu_seconds") if runs is not None else np.zeros(0)
    known = seconds[~np.isnan(seconds)]
    return float(np.median(known)) if known.size else float("nan")
