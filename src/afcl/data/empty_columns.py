# SPDX-License-Identifier: Apache-2.0
"""Columns that hardly anybody has filled in: what stands there nobody measured."""

from __future__ import annotations

from collections.abc import Sequence

from afcl.data.column_rules import ENOUGH
from afcl.data.column_sample import column_samples
from afcl.data.errors import drop_option, listed
from afcl.data.features import Feature
from afcl.data.sites import SiteTable
from afcl.data.suspicion import MOSTLY_EMPTY, Suspicion
from afcl.data.tables import Table
from afcl.gaps import has_gaps

#: A larger share of gaps, over all sites, and most rows would have a value made up.
EMPTY = 0.5
#: Most columns that the ready option names.
NAMED = 8


def mostly_empty(
    tables: Sequence[SiteTable], features: Sequence[Feature]
) -> list[Suspicion]:
    """Return one finding on all columns that are empty in most rows, or none.

    A category counts as one column. One that nobody has filled in is left out anyway.
    """
    owner = {c: feature.name for feature in features for c in feature.columns}
    # Of a category any column will do: a row has all of them, or none.
    first = {owner.get(c, c): c for c in reversed(tables[0].columns)}
    names = list(first)[::-1]
    rows = sum(table.shape[0] for table in tables)
    if rows < ENOUGH or not any(map(_may_have_gaps, tables)):
        return []
    samples = column_samples(tables, [first[name] for name in names])
    gaps = {
        name: 1 - sum(sample.n_values) / rows
        for name, sample in zip(names, samples, strict=True)
    }
    empty = [name for name, share in gaps.items() if EMPTY < share < 1]
    if not empty:
        return []
    one = len(empty) == 1
    shown = listed([f"{name!r} ({gaps[name]:.0%})" for name in empty])
    remedy = drop_option(*empty) if len(empty) <= NAMED else "a --drop of these"
    text = (
        f"{shown} {'is' if one else 'are'} empty in most rows: what is filled in there "
        f"nobody measured, and clusters may follow it; compare with {remedy}"
    )
    return [Suspicion(None, empty[0] if one else None, MOSTLY_EMPTY, text)]


def _may_have_gaps(table: SiteTable) -> bool:
    """Whether it is worth a look; of rows in files nobody knows before."""
    return not isinstance(table, Table) or has_gaps(table.values)
