# SPDX-License-Identifier: Apache-2.0
"""What the sites' columns hold: their kinds, gaps and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats
from afcl.data.features import Feature
from afcl.data.sites import Sites, SiteTable
from afcl.data.tables import Table

# Kinds of columns.
NUMBER = "number"
CATEGORY = "category"
DATE = "date"
ABSENT = "no value here"
ORDERED = "ordered"
DATE_PARTS = "date"


@dataclass(frozen=True, slots=True)
class ColumnContent:
    """One column at one site.

    Attributes
    ----------
    name, kind : str
    gaps : float or None
        The part of the cells that have no value; None: there are no rows.
    levels : tuple of str or None
        Of a category, those that the site has; in their order, if they have one. Of a
        date, its parts that count.
    smallest, median, largest : float, str or None
        Of numbers and, as texts, of dates; None: there are none.
    """

    name: str
    kind: str
    gaps: float | None
    levels: tuple[str, ...] | None = None
    smallest: float | str | None = None
    median: float | str | None = None
    largest: float | str | None = None


@dataclass(frozen=True, slots=True)
class SiteContent:
    """One site: its name, rows and columns."""

    name: str
    rows: int
    columns: tuple[ColumnContent, ...]


def site_contents(
    sites: Sites[SiteTable], dates: Sequence[str] = ()
) -> list[SiteContent]:
    """Describe the columns of every site that is in memory.

    Parameters
    ----------
    sites : Sites
    dates : sequence of str
        Columns that are dates.

    Returns
    -------
    list of SiteContent

    Examples
    --------
    >>> rows = np.array([[1.5, 0.0], [np.nan, 1.0], [4.0, 1.0]])
    >>> north = Table("north", rows, ("age", "sex=male"), None)
    >>> (site,) = site_contents(Sites((north,), (), (Feature("sex", ("male",)),)))
    >>> [(c.name, c.kind, c.median, c.levels) for c in site.columns]
    [('age', 'number', 2.75, None), ('sex', 'category', None, ('male',))]
    """
    found = []
    for table in sites.tables:
        if isinstance(table, Table):
            columns = tuple(_columns(table, sites.features, dates))
            found.append(SiteContent(table.name, table.shape[0], columns))
    return found


def _columns(
    table: Table, features: Sequence[Feature], dates: Sequence[str]
) -> list[ColumnContent]:
    """Describe the columns in their order; those of a category are one."""
    of = {column: feature for feature in features for column in feature.columns}
    found: dict[str, ColumnContent] = {}
    for place, name in enumerate(table.columns):
        feature = of.get(name)
        if feature is None:
            values = table.values[:, place]
            found[name] = _numbers(name, values, name in dates)
        elif feature.name not in found:
            values = table.values[:, place : place + len(feature.columns)]
            found[feature.name] = _category(feature, values)
    return list(found.values())


def _numbers(name: str, values: Floats, is_date: bool) -> ColumnContent:
    held = values[~np.isnan(values)]
    gaps = _share(values.size - held.size, values.size)
    if not held.size:
        return ColumnContent(name, ABSENT, gaps)
    three = (float(held.min()), float(np.median(held)), float(held.max()))
    if is_date:
        return ColumnContent(name, DATE, gaps, None, *map(_day, three))
    return ColumnContent(name, NUMBER, gaps, None, *three)


def _category(feature: Feature, values: Floats) -> ColumnContent:
    empty = np.isnan(values[:, 0])
    gaps = _share(int(empty.sum()), empty.size)
    if feature.parts:
        return ColumnContent(feature.name, DATE_PARTS, gaps, feature.levels)
    if feature.ordered:
        ranks = np.unique(values[~empty, 0]).astype(np.int64).tolist()
        held = tuple(feature.levels[rank] for rank in ranks)
        return ColumnContent(feature.name, ORDERED, gaps, held)
    has = np.nansum(values, axis=0) > 0
    pairs = zip(feature.levels, has.tolist(), strict=True)
    levels = tuple(level for level, here in pairs if here)
    return ColumnContent(feature.name, CATEGORY, gaps, levels)


def _share(some: int, every: int) -> float | None:
    return some / every if every else None


def _day(days: float) -> str:
    return str(np.datetime64(int(np.floor(days)), "D"))
