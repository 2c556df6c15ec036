# SPDX-License-Identifier: Apache-2.0
"""The paper's experiments honestly: all runs, one convention for everybody.

A collapsed run counts as SC = -1 and CH = 0, and its share is shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from afcl_bench.counting import (
    ANY,
    DEFAULT,
    KNOWN,
    LEARNED,
    NAMES,
    RANKED,
    RIGHT,
    SIX,
    SWEEP,
    UNKNOWN,
    contenders,
    counted,
    entry,
    mean,
    range_of_k,
    ranked,
    score_table,
    seven,
)
from afcl_bench.frame import kinds, parts, values
from afcl_bench.significance import critical_difference, friedman, wilcoxon_holm
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, mean_std, number, share, standing_out


def honest(frame: pl.DataFrame) -> Iterator[Table]:
    """All runs, one measure at a time, with ranks and collapsed shares."""
    for measure in NAMES:
        yield _by_method(frame, measure)
    yield _shares(frame)


def _by_method(frame: pl.DataFrame, measure: str) -> Table:
    names, methods, table = score_table(contenders(frame), measure)
    ranks = ranked(table)
    columns = []
    candidates = frame.filter(RANKED)
    for i, name in enumerate(names):
        runs = candidates.filter(dataset=name)
        texts = [entry(runs.filter(method=method), measure) for method in methods]
        columns.append(standing_out(texts, table[i]))
    rank_texts = standing_out([number(r, 2) for r in ranks], ranks, most=False)
    order = np.argsort(ranks, kind="stable")
    rows = [
        (methods[j], *(column[j] for column in columns), rank_texts[j]) for j in order
    ]
    for method in ("pooled-kmeans", SWEEP):
        runs = candidates.filter(method=method)
        cells = [entry(runs.filter(dataset=name), measure) for name in names]
        rows.append((f"({method})", *cells, NONE))
    return Table(
        f"honest-{measure}",
        f"Mean {NAMES[measure]} over all runs, best in bold, methods by average rank "
        "(rivals given k\\*; the pooled references are not ranked).",
        ("method", *names, "rank"),
        tuple(rows),
    )


def _shares(frame: pl.DataFrame) -> Table:
    runs = contenders(frame)
    names, rows = kinds(runs, "dataset"), []
    for method, group in parts(runs, "method").items():
        rows.append((method, *(_share(group.filter(dataset=n)) for n in names)))
    return Table(
        "honest-k",
        "Mean k' · share of runs with k' = k\\* · share of collapsed runs (in bold, "
        "where there are any). k\\* is the number of classes, which the features need "
        "not show.",
        ("method", *names),
        tuple(rows),
    )


def _share(runs: pl.DataFrame) -> str:
    done = runs.filter(status=DONE)
    right = values(done.select(k=RIGHT), "k")
    lost = mean(np.isnan(values(done, "ch")).astype(np.float64))
    text = f"{number(mean(values(done, 'k')), 1)} · {share(mean(right))}"
    return text + (f" · **{share(lost)}**" if lost > 0 else "")


def pooled_gap(frame: pl.DataFrame) -> Iterator[Table]:
    """Set the default beside the pooled sweep, which sees every row."""
    rows = []
    for name in kinds(frame.filter(method=DEFAULT, group=UNKNOWN), "dataset"):
        runs = frame.filter(dataset=name, group=UNKNOWN)
        own = mean(counted(runs.filter(method=DEFAULT), "sc"))
        sweep = mean(counted(runs.filter(method=SWEEP), "sc"))
        gap = own - sweep
        texts = (f"{gap:+.3f}", "yes" if gap >= -0.01 else "**no**")
        if np.isnan(gap):
            texts = (NONE, NONE)
        rows.append((name, number(own), number(sweep), *texts))
    yield Table(
        "pooled-gap",
        "Silhouette of the default beside a pooled k-means sweep that sees every row "
        "and takes the k of the largest silhouette.",
        ("data", "afcl", SWEEP, "difference", "≥ -.01"),
        tuple(rows),
    )


def capped(frame: pl.DataFrame) -> Iterator[Table]:
    """List what failed or met its time cap, and why."""
    rows = []
    unanswered = pl.col("status") != DONE
    where = ("group", "dataset", "method")
    for key, runs in frame.group_by(where, maintain_order=True):
        lost = runs.filter(unanswered)
        if lost.height:
            first = lost.row(0, named=True)
            count = f"{lost.height} of {runs.height}"
            rows.append((*map(str, key), first["status"], count, first["reason"]))
    yield Table(
        "capped",
        f"Runs without an answer: {frame.filter(unanswered).height} of {frame.height}.",
        ("group", "data", "method", "status", "runs", "first reason"),
        tuple(rows),
    )


# ------------------------------------------------------------------ how k is given


def three_ways(frame: pl.DataFrame) -> Iterator[Table]:
    """Rivals given k*, given AFCL's k', and left to find k."""
    best = frame.filter(method=DEFAULT, group=UNKNOWN)
    names = kinds(best, "dataset")
    own = np.array([mean(counted(best.filter(dataset=n), "sc")) for n in names])
    rows = [(DEFAULT, number(mean(own)), *[NONE] * 5)]
    for method in kinds(frame.filter(group=LEARNED), "method"):
        line = [method]
        for way, full in (
            (KNOWN, method),
            (LEARNED, method),
            (ANY, f"any-k:{method}"),
        ):
            runs = frame.filter(group=way, method=full)
            means = np.array(
                [mean(counted(runs.filter(dataset=n), "sc")) for n in names]
            )
            known = ~np.isnan(means)
            missing = "" if known.all() else f" ({int(known.sum())} sets)"
            line.append(number(mean(means[known])) + missing)
            wins = int((own >= np.where(known, means, -np.inf) - 1e-9).sum())
            line.append(f"{wins} of {len(names)}")
        rows.append(tuple(line))
    yield Table(
        "three-ways",
        "Mean silhouette over the data sets when a rival is given k\\*, given the k' "
        "that AFCL found, or swept by `any-k` (5 runs, k ≤ 10); and on how many data "
        "sets the default is at least as good. A set without an answer within the cap "
        "counts for the default.",
        ("method", KNOWN, "default ≥", "given k'", "default ≥", ANY, "default ≥"),
        tuple(rows),
    )


def learned_k(frame: pl.DataFrame) -> Iterator[Table]:
    """Rivals with k* and with the k' that AFCL found."""
    rows = []
    names = kinds(frame, "dataset")
    for name in names:
        runs = frame.filter(method=DEFAULT, dataset=name)
        cells = [mean_std(counted(runs, m)) for m in ("sc", "ch")]
        rows.append((name, f"{DEFAULT} (k' {range_of_k(runs)})", *cells, NONE, NONE))
    for method in kinds(frame.filter(group=LEARNED), "method"):
        for name in names:
            line = [name, method]
            for way in (KNOWN, LEARNED):
                runs = frame.filter(dataset=name, method=method, group=way)
                for measure in ("sc", "ch"):
                    line.append(mean_std(counted(runs, measure)))
            rows.append(tuple(line))
    rows.sort(key=lambda row: names.index(row[0]))
    header = ("data", "method", "SC, k*", "CH, k*", "SC, k'", "CH, k'")
    yield Table(
        "learned-k",
        "Rivals given k\\* and given the k' that the default found, all runs.",
        header,
        tuple(rows),
    )


# ------------------------------------------------------------------ significance


def significance(frame: pl.DataFrame) -> Iterator[Table]:
    """Friedman, Bonferroni-Dunn and Wilcoxon on the honest means."""
    rows = []
    for measure in ("sc", "sc2", "ch"):
        _, methods, table = score_table(seven(frame), measure)
        filled = np.where(np.isnan(table), -1e9, table)
        test = friedman(filled)
        for alpha in (0.05, 0.1):
            cd = critical_difference(filled, methods, DEFAULT, alpha)
            far = [
                method
                for method, rank in zip(cd.names, cd.ranks, strict=True)
                if rank - cd.control_rank > cd.cd
            ]
            rows.append(
                (
                    NAMES[measure],
                    f"{test.p_value:.1e}",
                    f"{alpha:g}",
                    number(cd.cd),
                    f"{cd.control_rank:.2f}",
                    ", ".join(far) or NONE,
                    ", ".join(m for m in SIX if m not in far) or NONE,
                )
            )
    yield Table(
        "significance",
        "Default against the paper's six rivals (given k\\*), ranks of the honest "
        "means over the data sets: Friedman and Bonferroni-Dunn.",
        ("measure", "p", "α", "CD", "rank", "significantly worse", "not significantly"),
        tuple(rows),
    )
    yield _ranks(frame)
    yield _wilcoxon(frame)


def _ranks(frame: pl.DataFrame) -> Table:
    group = contenders(frame)
    methods = kinds(group, "method")
    columns = [ranked(score_table(group, m)[2]) for m in ("sc", "sc2", "ch")]
    order = np.argsort(columns[0], kind="stable")
    marked = [standing_out([number(r, 2) for r in c], c, False) for c in columns]
    return Table(
        "ranks",
        f"Average ranks of all {len(methods)} federated methods (rivals given k\\*).",
        ("method", "SC", "SC²", "CH"),
        tuple((methods[j], *(column[j] for column in marked)) for j in order),
    )


def _wilcoxon(frame: pl.DataFrame) -> Table:
    rows: dict[str, list[str]] = {}
    for measure in ("sc", "ch"):
        _, methods, table = score_table(seven(frame), measure)
        filled = np.where(np.isnan(table), -1.0 if measure == "sc" else 0.0, table)
        for found in wilcoxon_holm(filled, methods, DEFAULT):
            text = f"{found.adjusted:.3f}"
            rows.setdefault(found.name, []).append(text)
    return Table(
        "wilcoxon",
        "Wilcoxon signed-rank p (Holm-adjusted), default against each rival.",
        ("method", "SC", "CH"),
        tuple((method, *texts) for method, texts in rows.items()),
    )
