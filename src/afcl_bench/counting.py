# SPDX-License-Identifier: Apache-2.0
"""Which runs count, and as what: the arithmetic that tables and figures share."""

from __future__ import annotations

import numpy as np
import polars as pl

from afcl._typing import Floats
from afcl_bench.frame import kinds, parts, values
from afcl_bench.significance import average_ranks
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, number

#: Our method, the published code's behaviour, and what pooling all rows would give.
DEFAULT = "afcl"
PUBLISHED = "afcl-matlab"
SWEEP = "pooled-kmeans-sweep"
#: The paper's rivals, in its order.
SIX = ("dk++", "k-fed", "ffcm-avg1", "ffcm-avg2", "fed-sc", "fedsc")
#: Groups of runs: ways in which a rival may get its k.
KNOWN = "given k*"
LEARNED = "given AFCL's k'"
ANY = "any-k"
#: Groups of runs: methods that are told nothing, and the runs the paper's table counts.
UNKNOWN = "unknown k"
AS_PRINTED = "as printed"
SIXTY = "as printed, sixty seeds"

NAMES = {
    "sc": "silhouette",
    "sc2": "squared silhouette",
    "ch": "Calinski-Harabasz",
    "ari": "ARI",
    "nmi": "NMI",
}
#: What a collapsed run counts as, where the measure itself is not defined.
OF_COLLAPSED = {"ch": 0.0}
#: Whether a run found as many clusters as there are classes.
RIGHT = pl.col("k") == pl.col("k_true")
#: Whether a run is of a group whose methods are ranked.
RANKED = pl.col("group").is_in([UNKNOWN, KNOWN])


def counted(frame: pl.DataFrame, measure: str) -> Floats:
    """Return a measure of all runs: NaN where there is no answer to score."""
    found = values(frame, measure)
    if measure in OF_COLLAPSED:
        done = (frame["status"] == DONE).to_numpy()
        found[done & np.isnan(found)] = OF_COLLAPSED[measure]
    return found


def mean(found: Floats) -> float:
    """Return the mean of what is there; NaN where nothing is."""
    known = found[~np.isnan(found)]
    return float(known.mean()) if known.size else float("nan")


def entry(runs: pl.DataFrame, measure: str) -> str:
    """Return the mean over all runs, and how many answered where some did not."""
    found = counted(runs, measure)
    if found.size == 0:
        return NONE
    missing = int(np.isnan(found).sum())
    if missing == found.size:
        return "cap"
    return number(mean(found)) + (f" ({found.size - missing})" if missing else "")


def range_of_k(runs: pl.DataFrame) -> str:
    """Return the least and the largest k' of the answers."""
    ks = [int(k) for k in runs["k"].drop_nulls()]
    if not ks:
        return NONE
    low, high = min(ks), max(ks)
    return str(low) if low == high else f"{low}-{high}"


# ------------------------------------------------------------------ who is ranked


def contenders(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the federated methods that are ranked: unknown k, and given k*."""
    return frame.filter(RANKED, ~pl.col("method").str.starts_with("pooled"))


def seven(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the default and the paper's six rivals."""
    return contenders(frame).filter(pl.col("method").is_in([DEFAULT, *SIX]))


def score_table(
    frame: pl.DataFrame, measure: str
) -> tuple[list[str], list[str], Floats]:
    """Return data sets, methods and the mean over all runs of each.

    A method without any answer on a data set gets the worst value there is, so that it
    is ranked last: no answer within the cap is no good answer.
    """
    names, methods = kinds(frame, "dataset"), kinds(frame, "method")
    table = np.full((len(names), len(methods)), np.nan)
    for i, name in enumerate(names):
        for method, runs in parts(frame.filter(dataset=name), "method").items():
            table[i, methods.index(method)] = mean(counted(runs, measure))
    return names, methods, table


def ranked(table: Floats) -> Floats:
    """Return average ranks; what has no value is last."""
    if table.shape[0] == 0 or table.shape[1] < 2:
        return np.ones(table.shape[1])
    known = table[~np.isnan(table)]
    worst = known.min() - 1 if known.size else 0.0
    return average_ranks(np.where(np.isnan(table), worst, table))
