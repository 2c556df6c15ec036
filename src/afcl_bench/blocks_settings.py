# SPDX-License-Identifier: Apache-2.0
"""Rivals as they were given and at the best of a sweep of their settings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from afcl_bench.counting import DEFAULT, counted, entry, mean
from afcl_bench.frame import kinds, parts
from afcl_bench.tables import Table, number, standing_out

#: The group of runs with the settings that all other pages give a rival.
AS_GIVEN = "as given"
#: The option that tells k*, which is no setting.
TOLD = "n_clusters"


def settings(frame: pl.DataFrame) -> Iterator[Table]:
    """Set every setting of a rival beside the one it has on the other pages."""
    names = kinds(frame, "dataset")
    for measure, title in (("sc", "silhouette"), ("ari", "ARI")):
        rows = []
        for method, runs in parts(frame, "method").items():
            rows += _lines(method, runs, names, measure)
        yield Table(
            f"settings-{measure}",
            f"Mean {title} over all runs. *As given* is what the other pages give a "
            "rival; *best of its sweep* takes, for every data set by itself, the "
            "setting with the largest mean, in bold.",
            ("method", "setting", *names),
            tuple(rows),
        )


def setting(options: str) -> str:
    """Return options without what tells k*."""
    kept = [o for o in options.split(", ") if o and not o.startswith(f"{TOLD} ")]
    return ", ".join(kept) or "defaults"


def _lines(
    method: str, runs: pl.DataFrame, names: list[str], measure: str
) -> list[tuple[str, ...]]:
    texts, scores = [], []
    for (group, options), part in runs.group_by(
        "group", "options", maintain_order=True
    ):
        given = " (as given)" if group == AS_GIVEN and method != DEFAULT else ""
        kept = [part.filter(dataset=name) for name in names]
        texts.append(
            [setting(str(options)) + given, *(entry(each, measure) for each in kept)]
        )
        scores.append([mean(counted(each, measure)) for each in kept])
    if len(texts) == 1:
        return [(method, *texts[0])]
    table = np.array(scores)
    marked = [
        standing_out([line[j + 1] for line in texts], table[:, j])
        for j in range(len(names))
    ]
    lines = [
        (method, line[0], *(column[i] for column in marked))
        for i, line in enumerate(texts)
    ]
    known = np.where(np.isnan(table), -np.inf, table).max(axis=0)
    best = [number(value if np.isfinite(value) else None) for value in known]
    return [*lines, (method, "*best of its sweep*", *best)]
