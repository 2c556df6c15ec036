# SPDX-License-Identifier: Apache-2.0
"""What sites that fit together agree on: columns, levels, box, and what is usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.core.terms import Category
from afcl.data.features import WIDTH, Embedding, bounds_of
from afcl.data.unit_check import ColumnStats
from afcl.runtime.agreement import AgreementRequest, agreed_box, notes_on
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.kinds import features_of, usual_key
from afcl.runtime.live.notes import SiteAgreement, lacks
from afcl.scale import with_bounds


def agree_on(
    request: AgreementRequest,
    columns: tuple[str, ...],
    categories: tuple[Category, ...],
    sites: Sequence[Announcement],
) -> tuple[SiteAgreement, list[str]]:
    """Return what the sites agree on, and what they alone are the cause of."""
    rows = {site.name: site.n_rows for site in sites}
    embedding = Embedding(columns, features_of(categories))
    ranges = [site.ranges(embedding) for site in sites]
    names, fixed = embedding.names, bounds_of(embedding.names, embedding.features)
    scale = request.scale
    if isinstance(scale, Mapping):
        levels = [name for each in embedding.features for name in each.columns]
        scale = {**scale, **dict.fromkeys(levels, (0.0, WIDTH))}
    box, stretches = agreed_box(scale, ranges, names)
    if categories and scale is not None:
        box = with_bounds(box, fixed)
    held = list(rows.values())
    notes = notes_on(stretches, held, list(rows).__getitem__, names)
    kinds = {each.name for each in categories}
    numbers = [column for column in columns if column not in kinds]
    parts = zip(*(site.stats(numbers) for site in sites), strict=True)
    lacking = {site.name: lacks(site, columns) for site in sites}
    agreement = SiteAgreement(
        names,
        replace(box, typical=_typical(names, sites, lacking)),
        sum(rows.values()),
        # Again, without the refused: a unit that only they declare binds nobody.
        declared_units(columns, sites),
        rows,
        ColumnStats(*(np.array(part) for part in parts)),
        {name: missed for name, missed in lacking.items() if missed},
        usual_key(sites),
        categories=categories,
    )
    return agreement, notes


def _typical(
    names: Sequence[str],
    sites: Sequence[Announcement],
    lacking: Mapping[str, tuple[str, ...]],
) -> Floats | None:
    """Return what stands for a column that a site lacks; None: nobody lacks any.

    Of numbers it is the middle of the others' medians, of a category no level.
    """
    if not any(lacking.values()) or not all(site.middle.size for site in sites):
        return None
    middles = np.array([site.stats(names).middle for site in sites])
    known = ~np.isnan(middles).all(axis=0)
    typical = np.zeros(len(names))
    typical[known] = np.nanmedian(middles[:, known], axis=0)
    return typical


def declared_units(
    columns: Sequence[str], sites: Sequence[Announcement]
) -> tuple[str, ...]:
    """Return per column the unit most declared (of several, the first by name)."""
    times = {column: Counter[str]() for column in columns}
    for site in sites:
        for column, unit in zip(site.columns, site.units, strict=True):
            if unit and column in times:
                times[column][unit] += 1
    return tuple(
        min(declared, key=lambda unit: (-declared[unit], unit), default="")
        for declared in times.values()
    )
