# SPDX-License-Identifier: Apache-2.0
"""Tables beyond the paper's two: trajectories to time, a function each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from afcl_bench.counting import counted, entry, mean
from afcl_bench.frame import kinds, parts, values
from afcl_bench.plots import exponent
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, mean_std, number, share

#: Share of the final score at which a run has arrived.
ARRIVED = 0.99
#: kB, messages a client and final score of a run that has arrived; NaN: it never does.
Arrival = tuple[float, float, float]


def scores(frame: pl.DataFrame) -> Iterator[Table]:
    """List every kind of run with its scores: what a spec gets by default."""
    rows = []
    kind = ("dataset", "method", "options", "split", "participation")
    for key, runs in frame.group_by(kind, maintain_order=True):
        done = runs.filter(status=DONE).height
        measured = [mean_std(counted(runs, m)) for m in ("k", "sc", "sc2", "ch", "ari")]
        kilobytes = number(mean(values(runs, "bytes")) / 1000, 1)
        count = f"{done} of {runs.height}"
        rows.append((*map(str, key), count, *measured, kilobytes))
    header = ("data", "method", "options", "split", "participation", "runs")
    yield Table(
        "scores",
        "All runs: a collapsed one counts as SC = -1 and CH = 0.",
        (*header, "k'", "SC", "SC²", "CH", "ARI", "kB"),
        tuple(rows),
    )


# ------------------------------------------------------------------ over the rounds


def prepared(trace: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return what the server thought, round by round."""
    return [event for event in trace or () if event["event"] == "prepare"]


def trajectories(frame: pl.DataFrame) -> Iterator[Table]:
    """How many seeds there were, how many clusters came out, in how many rounds."""
    rows = []
    for method, runs in parts(frame, "method").items():
        for row in runs.iter_rows(named=True):
            events = prepared(row["trace"])
            seeds = str(len(events[0]["seeds"])) if events else NONE
            found = [number(row[name], 0) for name in ("k", "rounds")]
            rows.append((method, str(row["seed"]), seeds, *found, number(row["sc"])))
    yield Table(
        "trajectories",
        "SD1 over three clients: seeds at the start, clusters found (there are 4).",
        ("method", "seed", "seeds", "k'", "rounds", "SC"),
        tuple(rows),
    )


def convergence(frame: pl.DataFrame) -> Iterator[Table]:
    """Count the rounds until a run stops by itself."""
    rows = []
    for key, runs in frame.group_by("dataset", "method", maintain_order=True):
        rounds = values(runs, "rounds")
        # An answer without its trace does not say how it ended.
        stopped = [
            _end(trace) == "done"
            for trace, status in runs.select("trace", "status").iter_rows()
            if trace or status != DONE
        ]
        rows.append(
            (
                *map(str, key),
                mean_std(rounds, 1),
                number(max(rounds[~np.isnan(rounds)], default=None), 0),
                share(mean(np.array(stopped, dtype=np.float64))),
                mean_std(values(runs, "most_messages"), 1),
            )
        )
    yield Table(
        "convergence",
        "Rounds until the end, over all runs (100 at most).",
        ("data", "method", "rounds", "most", "stopped by itself", "messages a client"),
        tuple(rows),
    )


def _end(trace: list[dict[str, Any]] | None) -> str:
    ends = [event for event in trace or () if event["event"] == "end"]
    return str(ends[-1]["reason"]) if ends else ""


# ------------------------------------------------------------------ settings


def ablation(frame: pl.DataFrame) -> Iterator[Table]:
    """Each step of the default added to the one before."""
    names = kinds(frame, "dataset")
    for measure, title in (("sc", "silhouette"), ("ari", "ARI")):
        rows = []
        for method, runs in parts(frame, "method").items():
            cells = [_step(runs.filter(dataset=name), measure) for name in names]
            total = number(mean(counted(runs, measure)))
            rows.append((method.replace("ablation:", "+ "), *cells, total))
        yield Table(
            f"ablation-{measure}",
            f"Mean {title} over all runs (mean k'), then the share of collapsed runs "
            "where there are any; (n): only so many runs have an answer.",
            ("step", *names, "all"),
            tuple(rows),
        )


def _step(runs: pl.DataFrame, measure: str) -> str:
    done = runs.filter(status=DONE)
    if not done.height:
        return "cap" if runs.height else NONE
    found = number(mean(values(done, "k")), 1)
    text = f"{number(mean(counted(done, measure)))} ({found})"
    lost = float(np.isnan(values(done, "ch")).mean())
    text += f" {share(lost)}" if lost else ""
    return text if done.height == runs.height else f"{text} ({done.height})"


def seeds(frame: pl.DataFrame) -> Iterator[Table]:
    """Quality against the number of seeds at the start."""
    frame = frame.with_columns(pl.col("n_seeds").fill_null("auto"))
    starts = kinds(frame, "n_seeds")
    rows = []
    for key, runs in frame.group_by("dataset", "method", maintain_order=True):
        cells = [_score_and_k(runs.filter(n_seeds=start)) for start in starts]
        rows.append((*map(str, key), *cells))
    yield Table(
        "seeds",
        "Mean silhouette over all runs (mean k') by the number of seeds at the start.",
        ("data", "method", *starts),
        tuple(rows),
    )


def _score_and_k(runs: pl.DataFrame) -> str:
    if not runs.height:
        return NONE
    found = mean(values(runs, "k"))
    if np.isnan(found):
        return "cap"
    return f"{number(mean(counted(runs, 'sc')))} ({number(found, 1)})"


# ------------------------------------------------------------------ asynchrony


def asynchrony(frame: pl.DataFrame) -> Iterator[Table]:
    """Quality by how uneven participation is."""
    for group in ("skew", "one-shot"):
        runs = frame.filter(group=group)
        levels = kinds(runs, "participation")
        for measure in ("sc", "ari"):
            rows = []
            for key, part in runs.group_by("dataset", "method", maintain_order=True):
                cells = [
                    entry(part.filter(participation=level), measure) for level in levels
                ]
                rows.append((*map(str, key), *cells))
            yield Table(
                f"asynchrony-{group}-{measure}",
                f"Mean {measure.upper()} over all runs, 20 clients; rivals given k\\*.",
                ("data", "method", *levels),
                tuple(rows),
            )


def late(frame: pl.DataFrame) -> Iterator[Table]:
    """Let a client that owns a cluster alone join late."""
    runs = frame.filter(group="late")
    habits = kinds(runs, "participation")
    rows = []
    for key, part in runs.group_by("dataset", "method", maintain_order=True):
        line = [*map(str, key)]
        for habit in habits:
            some = part.filter(participation=habit)
            right = values(some, "k") == values(some, "k_true")
            line += [entry(some, "ari"), share(mean(right.astype(np.float64)))]
        rows.append(tuple(line))
    header = [text for h in habits for text in (f"ARI, {h}", f"k' = k*, {h}")]
    yield Table(
        "late",
        "One of five clients owns a class alone and is there from the start, or joins "
        "in round 4 (the scale is agreed without it); rivals given k\\*.",
        ("data", "method", *header),
        tuple(rows),
    )


# ------------------------------------------------------------------ cost


def arrivals(frame: pl.DataFrame) -> dict[tuple[str, str], list[Arrival]]:
    """Return kB, messages a client and final score of runs when they have arrived.

    A run has arrived at the first of the rounds looked at from which on its silhouette
    stays at 99 % of the final one or above; a run that ends collapsed never arrives.
    """
    found: dict[tuple[str, str], list[Arrival]] = {}
    where = ("dataset", "method", "seed")
    for (name, method, _), runs in frame.group_by(where, maintain_order=True):
        steps = runs.drop("trace", "centers", "labels").filter(status=DONE)
        ordered = steps.sort(pl.col("max_rounds").cast(pl.Int64))
        found.setdefault((str(name), str(method)), []).append(_arrival(ordered))
    return found


def _arrival(steps: pl.DataFrame) -> Arrival:
    if not steps.height:
        return np.nan, np.nan, np.nan
    scores = steps["sc"].fill_null(0.0).to_list()
    final = scores[-1]
    if final <= -1.0:
        return np.nan, np.nan, final
    bound = final - (1 - ARRIVED) * abs(final)
    first = steps.height - 1
    while first > 0 and scores[first - 1] >= bound:
        first -= 1
    return steps["bytes"][first] / 1000, steps["most_messages"][first], final


def cost(frame: pl.DataFrame) -> Iterator[Table]:
    """Say what it takes to reach 99 % of the final score."""
    found = arrivals(frame)
    names = kinds(frame, "dataset")
    rows = []
    for method in kinds(frame, "method"):
        cells = [_price(found.get((name, method), [])) for name in names]
        rows.append((method, *cells))
    yield Table(
        "cost",
        "kB of all clients together and messages of the busiest client until the "
        "silhouette stays within 1 % of its final value, → the final value.",
        ("method", *names),
        tuple(rows),
    )


def _price(found: list[Arrival]) -> str:
    if not found:
        return NONE
    arrived = np.array(found)
    if np.isnan(arrived[:, 0]).all():
        return "collapsed" if (arrived[:, 2] == -1).any() else "cap"
    kilobytes, messages, final = np.nanmean(arrived, axis=0).tolist()
    return f"{number(kilobytes, 1)} kB, {number(messages, 1)} → {number(final)}"


# ------------------------------------------------------------------ time


def sized(frame: pl.DataFrame, of: int) -> pl.DataFrame:
    """Add the size: the rows (0) or the features (1) of generated data, by its name."""
    size = pl.col("dataset").str.split(":").list.get(1 + of).cast(pl.Int64)
    return frame.with_columns(size=size)


def time(frame: pl.DataFrame) -> Iterator[Table]:
    """Seconds by size, and how they grow."""
    for group, of in (("rows", 0), ("rows, ours", 0), ("features", 1)):
        runs = frame.filter(group=group)
        if runs.height:
            yield _times(sized(runs, of), group)


def _times(runs: pl.DataFrame, group: str) -> Table:
    sizes = runs["size"].unique().sort().to_list()
    rows = []
    for method, part in parts(runs, "method").items():
        medians = [_median(part.filter(size=size)) for size in sizes]
        seconds = np.array([np.nan if s is None else s for s in medians])
        known = ~np.isnan(seconds)
        cells = [
            number(second, 2) if second is not None else _why(part.filter(size=size))
            for size, second in zip(sizes, medians, strict=True)
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


def _median(runs: pl.DataFrame) -> float | None:
    """Return the median CPU seconds of the answers, if there are any."""
    seconds = values(runs, "cpu_seconds")
    known = seconds[~np.isnan(seconds)]
    return float(np.median(known)) if known.size else None


def _why(runs: pl.DataFrame) -> str:
    """Say why there are no seconds: runs that met their cap, or no runs."""
    return "cap" if runs.height else NONE
