# SPDX-License-Identifier: Apache-2.0
"""Tables that come from several sites by nature: a table of methods for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from afcl.metrics import adjusted_rand
from afcl_bench.counting import KNOWN, entry, mean, range_of_k
from afcl_bench.frame import parts
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, number

#: The split into the sites as they are.
SITES = "sites"
#: The split with all rows in one place.
POOLED = "pooled"
#: How names of such data begin,
PREFIX = "sites:"
#: and how they end where categories and gaps are kept.
MIXED = ":mixed"


def sites(frame: pl.DataFrame) -> Iterator[Table]:
    """Return a table of all methods for every set."""
    base = pl.col("dataset").str.strip_prefix(PREFIX).str.strip_suffix(MIXED)
    for name, runs in parts(frame.with_columns(base=base), "base").items():
        yield _of_set(name, runs)


def _of_set(name: str, frame: pl.DataFrame) -> Table:
    rows = []
    kind = ("dataset", "group", "method", "options")
    for key, runs in frame.group_by(kind, maintain_order=True):
        dataset, group, method, options = map(str, key)
        apart = runs.filter(split=SITES)
        if not apart.height:
            continue
        known_k = ", told k*" if group == KNOWN else _setting(options)
        mixed = ", with categories and gaps" if dataset.endswith(MIXED) else ""
        answered = apart.filter(status=DONE).height
        rows.append(
            (
                f"{method}{known_k}{mixed}",
                f"{answered} of {apart.height}",
                range_of_k(apart) if answered else str(apart["reason"][0]),
                entry(apart, "ari") if _has_classes(frame) else NONE,
                entry(apart, "sc"),
                _stability(apart),
                _agreement(apart, runs.filter(split=POOLED)),
            )
        )
    return Table(
        f"sites-{name}",
        f"{name}: {_size(frame)}.",
        ("method", "answered", "k'", "ARI", "SC", "over seeds", "with pooled"),
        tuple(rows),
    )


def _setting(options: str) -> str:
    return f", {options}" if options else ""


def _has_classes(frame: pl.DataFrame) -> bool:
    return bool((frame["k_true"].fill_null(0) > 0).any())


def _size(frame: pl.DataFrame) -> str:
    """Say how many rows and sites there are, and classes."""
    done = frame.filter(status=DONE, split=SITES)
    if not done.height:
        return "no method answered"
    rows = max((len(labels) for labels in _labels(done).values()), default=0)
    clients, classes = max(done["clients"].fill_null(0)), max(done["k_true"])
    known = f"{classes} classes" if classes else "no class is known"
    return f"{rows:,} rows at {clients} sites, {known}"


def _labels(runs: pl.DataFrame) -> dict[int, Any]:
    """Return the labels of every seed that answered."""
    pairs = zip(runs["seed"].to_list(), runs["labels"].to_list(), strict=True)
    return {seed: labels for seed, labels in pairs if labels is not None}


def _stability(runs: pl.DataFrame) -> str:
    """Return the mean ARI between the answers of any two seeds."""
    found = list(_labels(runs).values())
    pairs = [adjusted_rand(a, b) for a, b in combinations(found, 2)]
    return number(mean(np.array(pairs, dtype=np.float64)))


def _agreement(apart: pl.DataFrame, together: pl.DataFrame) -> str:
    """Return the mean ARI to the same method, same seed, with all rows in one place."""
    left, right = _labels(apart), _labels(together)
    both = [adjusted_rand(left[s], right[s]) for s in left if s in right]
    return number(mean(np.array(both, dtype=np.float64)))
