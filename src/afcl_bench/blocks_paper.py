# SPDX-License-Identifier: Apache-2.0
"""The paper's tables, twice from the same runs: as printed, and honestly.

As printed: AFCL by the squared silhouette over the runs with k' = k* alone, the rivals
by the Euclidean one over all runs. Honestly: all runs, one convention for everybody, a
collapsed run counted as SC = -1 and CH = 0, and its share shown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.resources import files

import numpy as np

from afcl._typing import Floats
from afcl_bench.frame import Frame
from afcl_bench.significance import (
    average_ranks,
    critical_difference,
    friedman,
    wilcoxon_holm,
)
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, mean_std, number, share, standing_out

DEFAULT, PUBLISHED, SWEEP = "afcl", "afcl-matlab", "pooled-kmeans-sweep"
#: The paper's rivals, in its order.
SIX = ("dk++", "k-fed", "ffcm-avg1", "ffcm-avg2", "fed-sc", "fedsc")
#: Ways in which a rival may get its k.
KNOWN, LEARNED, ANY = "given k*", "given AFCL's k'", "any-k"
UNKNOWN, AS_PRINTED = "unknown k", "as printed"

NAMES = {
    "sc": "silhouette",
    "sc2": "squared silhouette",
    "ch": "Calinski-Harabasz",
    "ari": "ARI",
    "nmi": "NMI",
}
#: What a collapsed run counts as, where the measure itself is not defined.
OF_COLLAPSED = {"ch": 0.0}


def published() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return the paper's printed figures: mean and std (NaN: none printed).

    From tables 3 and 4 of Zhang et al., AAAI 2025.
    """
    text = files("afcl_bench").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["method"], line["measure"]): (
            float(line["mean"]),
            float(line["std"] or "nan"),
        )
        for line in csv.DictReader(text.splitlines())
    }


def counted(frame: Frame, measure: str) -> Floats:
    """Return a measure of all runs: NaN where there is no answer to score."""
    values = frame.values(measure)
    if measure in OF_COLLAPSED:
        done = np.array([row.status == DONE for row in frame.rows], dtype=bool)
        values[done & np.isnan(values)] = OF_COLLAPSED[measure]
    return values


def plain(name: str) -> str:
    """Return a data set's name without its reading."""
    return name.removesuffix(":paper")


def selected(frame: Frame) -> Frame:
    """Keep the runs the published table counts: k' = k*, or else k' > 1."""
    done = [row for row in frame.rows if row.status == DONE]
    exact = [row for row in done if row.facts["k"] == row.k_true]
    return Frame(tuple(exact or [row for row in done if row.facts["k"] > 1]))


# ------------------------------------------------------------------ as printed


def printed(frame: Frame) -> Iterator[Table]:
    """Set AFCL's printed figures beside the same selection of our runs."""
    figures = published()
    runs = frame.where(group=AS_PRINTED, method=PUBLISHED)
    rows = []
    for name, group in runs.by(lambda row: row.cell.dataset).items():
        chosen = selected(group)
        exact = sum(row.facts.get("k") == row.k_true for row in group.rows)
        line = [name]
        for measure, own in (("sc", "sc2"), ("ch", "ch")):
            middle, std = figures[plain(name), PUBLISHED, measure]
            line += [f"{number(middle)} ± {number(std, 2)}".removesuffix(f" ± {NONE}")]
            line += [mean_std(chosen.values(own))]
        everything = mean_std(counted(group, "sc"))
        line += [f"{exact} of {len(group)}", everything]
        rows.append(tuple(line))
    header = ("data", "SC² printed", "SC² ours", "CH printed", "CH ours")
    yield Table(
        "printed",
        "AFCL as printed: the published code's behaviour (`matlab` preset), squared "
        "silhouette, only runs with k' = k\\* (where there is none, k' > 1). The last "
        "column counts all runs, Euclidean, a collapsed one as -1.",
        (*header, "k' = k*", "SC, all runs"),
        tuple(rows),
    )
    yield _printed_rivals(frame)


def _printed_rivals(frame: Frame) -> Table:
    figures = published()
    given = frame.where(group=KNOWN)
    rows = []
    for name in given.datasets():
        line = [name]
        for method in SIX:
            middle, _ = figures[plain(name), method, "sc"]
            ours = given.where(dataset=name, method=method).values("sc")
            line.append(f"{number(middle)} / {number(mean(ours))}")
        rows.append(tuple(line))
    return Table(
        "printed-rivals",
        "The rivals' Euclidean silhouette, printed / ours (given k\\*, all runs). Ours "
        "are written from the papers; clients are split without the class column.",
        ("data", *SIX),
        tuple(rows),
    )


def default_squared(frame: Frame) -> Iterator[Table]:
    """Set the default preset, all runs, beside AFCL's printed figures."""
    figures = published()
    runs = frame.where(method=DEFAULT)
    rows, held = [], {"sc": 0, "ch": 0}
    for name, group in runs.by(lambda row: row.cell.dataset).items():
        line = [name]
        for measure, own in (("sc", "sc2"), ("ch", "ch")):
            middle, _ = figures[plain(name), PUBLISHED, measure]
            values = counted(group, own)
            holds = bool(mean(values) >= middle)
            held[measure] += holds and plain(name) == name
            line += [number(middle), mean_std(values), "yes" if holds else "**no**"]
        rows.append((*line, _range(group)))
    total = len([name for name in runs.datasets() if plain(name) == name])
    counts = [f"{held[m]} of {total}" for m in ("sc", "ch")]
    rows.append(("holds", "", "", counts[0], "", "", counts[1], ""))
    header = ("data", "SC² printed", "SC² default", "≥", "CH printed", "CH default")
    yield Table(
        "default-squared",
        "The default preset in the paper's own convention (squared silhouette), all "
        "runs counted, one setting for all data sets, beside AFCL's printed figures.",
        (*header, "≥", "k'"),
        tuple(rows),
    )


# ------------------------------------------------------------------ honestly


def honest(frame: Frame) -> Iterator[Table]:
    """All runs, one measure at a time, with ranks and collapsed shares."""
    for measure in NAMES:
        yield _by_method(frame, measure)
    yield _shares(frame)


def contenders(frame: Frame) -> Frame:
    """Keep the federated methods that are ranked: unknown k, and given k*."""
    kept = frame.where(group=[UNKNOWN, KNOWN])
    return Frame(tuple(r for r in kept.rows if not r.cell.method.startswith("pooled")))


def score_table(frame: Frame, measure: str) -> tuple[list[str], list[str], Floats]:
    """Return data sets, methods and the mean over all runs of each.

    A method without any answer on a data set gets the worst value there is, so that it
    is ranked last: no answer within the cap is no good answer.
    """
    names, methods = frame.datasets(), frame.methods()
    table = np.full((len(names), len(methods)), np.nan)
    for i, name in enumerate(names):
        group = frame.where(dataset=name).by(lambda row: row.cell.method)
        for j, method in enumerate(methods):
            if method in group:
                table[i, j] = mean(counted(group[method], measure))
    return names, methods, table


def ranked(table: Floats) -> Floats:
    """Return average ranks; what has no value is last."""
    if table.shape[0] == 0 or table.shape[1] < 2:
        return np.ones(table.shape[1])
    known = table[~np.isnan(table)]
    worst = known.min() - 1 if known.size else 0.0
    return average_ranks(np.where(np.isnan(table), worst, table))


def _by_method(frame: Frame, measure: str) -> Table:
    names, methods, table = score_table(contenders(frame), measure)
    ranks = ranked(table)
    columns = []
    for i, name in enumerate(names):
        runs = frame.where(dataset=name, group=[UNKNOWN, KNOWN])
        texts = [_entry(runs.where(method=method), measure) for method in methods]
        columns.append(standing_out(texts, table[i]))
    rank_texts = standing_out([number(r, 2) for r in ranks], ranks, most=False)
    order = np.argsort(ranks, kind="stable")
    rows = [
        (methods[j], *(column[j] for column in columns), rank_texts[j]) for j in order
    ]
    for method in ("pooled-kmeans", SWEEP):
        runs = frame.where(method=method, group=[UNKNOWN, KNOWN])
        cells = [_entry(runs.where(dataset=name), measure) for name in names]
        rows.append((f"({method})", *cells, NONE))
    return Table(
        f"honest-{measure}",
        f"Mean {NAMES[measure]} over all runs, best in bold, methods by average rank "
        "(rivals given k\\*; the pooled references are not ranked).",
        ("method", *names, "rank"),
        tuple(rows),
    )


def _entry(runs: Frame, measure: str) -> str:
    values = counted(runs, measure)
    if values.size == 0:
        return NONE
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        return "cap"
    return number(mean(values)) + (f" ({values.size - missing})" if missing else "")


def _shares(frame: Frame) -> Table:
    runs = contenders(frame)
    names, rows = runs.datasets(), []
    for method, group in runs.by(lambda row: row.cell.method).items():
        cells = []
        for name in names:
            part = group.where(dataset=name)
            done = Frame(tuple(row for row in part.rows if row.status == DONE))
            lost = float(np.isnan(done.values("ch")).mean()) if len(done) else np.nan
            found = done.values("k").mean() if len(done) else np.nan
            right = np.mean([r.facts["k"] == r.k_true for r in done.rows] or [np.nan])
            text = f"{number(float(found), 1)} · {share(float(right))}"
            cells.append(text + (f" · **{share(lost)}**" if lost > 0 else ""))
        rows.append((method, *cells))
    return Table(
        "honest-k",
        "Mean k' · share of runs with k' = k\\* · share of collapsed runs (in bold, "
        "where there are any). k\\* is the number of classes, which the features need "
        "not show.",
        ("method", *names),
        tuple(rows),
    )


def pooled_gap(frame: Frame) -> Iterator[Table]:
    """Set the default beside the pooled sweep, which sees every row."""
    rows = []
    for name in frame.where(method=DEFAULT, group=UNKNOWN).datasets():
        runs = frame.where(dataset=name, group=UNKNOWN)
        own = mean(counted(runs.where(method=DEFAULT), "sc"))
        sweep = mean(counted(runs.where(method=SWEEP), "sc"))
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


def three_ways(frame: Frame) -> Iterator[Table]:
    """Rivals given k*, given AFCL's k', and left to find k."""
    best = frame.where(method=DEFAULT, group=UNKNOWN)
    names = best.datasets()
    own = np.array([mean(counted(best.where(dataset=n), "sc")) for n in names])
    rows = [(DEFAULT, number(mean(own)), *[NONE] * 5)]
    for method in frame.where(group=LEARNED).methods():
        line = [method]
        for way, full in (
            (KNOWN, method),
            (LEARNED, method),
            (ANY, f"any-k:{method}"),
        ):
            runs = frame.where(group=way, method=full)
            means = np.array(
                [mean(counted(runs.where(dataset=n), "sc")) for n in names]
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


def capped(frame: Frame) -> Iterator[Table]:
    """List what failed or met its time cap, and why."""
    rows = []
    kinds = frame.by(lambda r: (r.cell.group, r.cell.dataset, r.cell.method))
    for (group, name, method), runs in kinds.items():
        lost = [row for row in runs.rows if row.status != DONE]
        if lost:
            reasons = list(dict.fromkeys(row.reason for row in lost))
            count = f"{len(lost)} of {len(runs)}"
            rows.append((group, name, method, lost[0].status, count, reasons[0]))
    yield Table(
        "capped",
        f"Runs without an answer: {sum(r.status != DONE for r in frame.rows)} of "
        f"{len(frame)}.",
        ("group", "data", "method", "status", "runs", "first reason"),
        tuple(rows),
    )


# ------------------------------------------------------------------ significance


def seven(frame: Frame) -> Frame:
    """Keep the default and the paper's six rivals."""
    kept = contenders(frame)
    return kept.where(method=[DEFAULT, *SIX])


def significance(frame: Frame) -> Iterator[Table]:
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


def _ranks(frame: Frame) -> Table:
    group = contenders(frame)
    methods = group.methods()
    columns = [ranked(score_table(group, m)[2]) for m in ("sc", "sc2", "ch")]
    order = np.argsort(columns[0], kind="stable")
    marked = [standing_out([number(r, 2) for r in c], c, False) for c in columns]
    return Table(
        "ranks",
        f"Average ranks of all {len(methods)} federated methods (rivals given k\\*).",
        ("method", "SC", "SC²", "CH"),
        tuple((methods[j], *(column[j] for column in marked)) for j in order),
    )


def _wilcoxon(frame: Frame) -> Table:
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


def learned_k(frame: Frame) -> Iterator[Table]:
    """Rivals with k* and with the k' that AFCL found."""
    rows = []
    names = frame.datasets()
    own = frame.where(method=DEFAULT)
    for name in names:
        runs = own.where(dataset=name)
        cells = [mean_std(counted(runs, m)) for m in ("sc", "ch")]
        rows.append((name, f"{DEFAULT} (k' {_range(runs)})", *cells, NONE, NONE))
    for method in frame.where(group=LEARNED).methods():
        for name in names:
            line = [name, method]
            for way in (KNOWN, LEARNED):
                runs = frame.where(dataset=name, method=method, group=way)
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


def _range(runs: Frame) -> str:
    ks = [int(k) for k in runs.values("k") if not np.isnan(k)]
    if not ks:
        return NONE
    low, high = min(ks), max(ks)
    return str(low) if low == high else f"{low}-{high}"


def mean(values: Floats) -> float:
    """Return the mean of what is there; NaN where nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
