# SPDX-License-Identifier: Apache-2.0
"""Columns that look as if they were in another unit than at the other sites."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from afcl._typing import Floats

#: A column whose range shares more than this with the others' is not noted.
OVERLAP = 0.25
#: Nor is one where the others differ by more than this part of the conversion.
SPREAD = 0.25
#: A median nearer to zero than this part of the span says nothing amid both signs.
OFF_CENTRE = 0.25


class Conversion(NamedTuple):
    """Two units: y = factor x + offset, recognised up to a factor of `within`."""

    factor: float
    units: str
    within: float = 1.25
    offset: float = 0.0


#: The units that get mixed up. Sites hardly ever differ a hundredfold by themselves, so
#: the large factors are recognised from further away; the smallest only from near.
#: Factors that are too near each other to be told apart share a line.
CONVERSIONS = (
    Conversion(10.0, "cm and mm"),
    Conversion(100.0, "m and cm, shares and percent", within=2.0),
    Conversion(1000.0, "kg and g", within=2.0),
    Conversion(1e6, "kg and mg", within=2.0),
    Conversion(1.609, "miles and km", within=1.2),
    Conversion(1.8, "°C and °F", offset=32.0),
    Conversion(2.2046, "kg and lb"),
    Conversion(2.54, "in and cm"),
    Conversion(3.2808, "m and ft"),
    Conversion(7.50062, "kPa and mmHg"),  # blood pressure, gases in blood
    Conversion(18.02, "mmol/l and mg/dl of glucose"),  # 180.16 g/mol
    Conversion(24.0, "days and hours"),
    Conversion(38.67, "mmol/l and mg/dl of cholesterol"),  # 386.7 g/mol
    Conversion(60.0, "minutes and seconds"),
    Conversion(  # 88.42 and 88.57
        88.42, "mg/dl and µmol/l of creatinine, mmol/l and mg/dl of triglycerides"
    ),
    Conversion(3600.0, "hours and seconds", within=2.0),
)


class ColumnStats(NamedTuple):
    """Where columns lie: each of shape (n_columns,), or (n_sites, n_columns).

    The medians over sites of `span` are not `high - low` of the other medians.
    """

    low: Floats
    high: Floats
    middle: Floats
    span: Floats

    def at(self, column: int) -> ColumnStats:
        """Return those of one column."""
        return ColumnStats(*(part[..., column] for part in self))

    def typical(self) -> ColumnStats:
        """Return the medians over the sites that have a column."""
        gaps = bool(self.low.size) and bool(np.isnan(self.low).any())
        median = np.nanmedian if gaps else np.median
        return ColumnStats(*(median(part, axis=0) for part in self))

    def moved(self, units: Conversion) -> ColumnStats:
        """Return the same in the smaller units, where the numbers are larger."""
        low, high, middle = (part * units.factor + units.offset for part in self[:3])
        return ColumnStats(low, high, middle, self.span * units.factor)


def converted_columns(
    own: ColumnStats, others: ColumnStats, typical: ColumnStats | None = None
) -> dict[tuple[Conversion, bool], list[int]]:
    """Return the columns that look converted: by what, and whether they are larger.

    A column does if its median and its span are both about one known factor times the
    medians of the others' medians and spans, and if three things hold, all of which
    keep sites apart that merely differ: its range and the others' hardly overlap, the
    others agree among themselves, and no median is near zero amid both signs.
    """
    if typical is None:
        typical = others.typical()
    nearest = np.full(own.low.shape, np.inf)
    found: dict[int, tuple[Conversion, bool]] = {}
    for conversion in CONVERSIONS:
        for larger in (True, False):
            pair = (typical, own) if larger else (own, typical)
            apart = _mismatch(*pair, conversion)
            close = (apart <= math.log(conversion.within)) & (apart < nearest)
            for column in np.flatnonzero(close).tolist():
                if _stands_out(own.at(column), others.at(column), conversion, larger):
                    nearest[column] = apart[column]
                    found[column] = conversion, larger
    grouped: dict[tuple[Conversion, bool], list[int]] = {}
    for column in sorted(found):
        grouped.setdefault(found[column], []).append(column)
    return grouped


def _mismatch(small: ColumnStats, large: ColumnStats, conversion: Conversion) -> Floats:
    """Return how far the conversion is from taking one to the other, as a logarithm."""
    moved = small.moved(conversion)
    middle = _apart(large.middle, moved.middle)
    return np.maximum(middle, _apart(large.span, moved.span))


def _stands_out(
    own: ColumnStats, others: ColumnStats, conversion: Conversion, larger: bool
) -> bool:
    """Whether one column of a site is set apart from the others', who agree."""
    if _overlap(own, others.typical()) > OVERLAP:
        return False
    if larger:
        others = others.moved(conversion)
    else:
        own = own.moved(conversion)
    typical = others.typical()
    if _centred(own) or _centred(typical):
        return False
    middles = np.median(_apart(others.middle, typical.middle))
    spans = np.median(_apart(others.span, typical.span))
    return bool(max(middles, spans) <= SPREAD * math.log(conversion.factor))


def _overlap(a: ColumnStats, b: ColumnStats) -> float:
    """Return how much of two ranges together is in both."""
    shared = min(a.high, b.high) - max(a.low, b.low)
    return float(shared / (max(a.high, b.high) - min(a.low, b.low)))


def _centred(column: ColumnStats) -> bool:
    """Whether both signs occur and the median is near zero: ratios say little."""
    signed = column.low < 0 < column.high
    return bool(signed and abs(column.middle) < OFF_CENTRE * column.span)


def _apart(a: Floats, b: Floats) -> Floats:
    """Return |log(a / b)|, infinite unless both are of one sign and neither is zero."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = a / b
    return np.abs(np.log(np.where(ratio > 0, ratio, np.inf)))
