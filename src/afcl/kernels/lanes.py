# SPDX-License-Identifier: Apache-2.0
"""Nearest centres of a tile, in the vector instructions a compiler does not find.

One instruction works on as many rows as a register holds. What is known of them stays
in registers while all centres go by, four at a time, so that a number of the tile is
loaded once for four of them; a distance is written down only where somebody wants it.

Two ways to measure a distance. :func:`two_by_products` is for numbers of 32 bits: the
squared length of a centre and a product with it. The others add up squares of
differences, feature after feature: with the bits of :mod:`.reference`.

Beside each stands its twin in NumPy, which is meant by it, and is what runs where
nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import intrinsic

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.vectors import (
    HAS_WIDEST,
    IS_COMPILED,
    Least,
    Registers,
    Writer,
    written,
)

#: Registers of rows that are worked on together: what is known of more would have to be
#: kept in memory where a register is two or four of the machine's.
REGISTERS = 2 if HAS_WIDEST else 1
#: Centres that go by together.
TOGETHER = 4

_compiled = compiled(error_model="numpy")


class Nearest(NamedTuple):
    """What is found out about every row of a tile.

    Its nearest centre (of several the first), the two least distances, and the least
    distance plus spread of all the other centres.
    """

    label: Ints
    best: AnyArray
    second: AnyArray
    outside: AnyArray


@_compiled
def found_for(rows: int) -> Nearest:
    """Return room for so many rows."""
    return Nearest(
        np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    )


@_compiled
def in_fours(centers: AnyArray) -> AnyArray:
    """Return centres as they go by: groups of four, features first, (k / 4, d, 4).

    Places of the last group that are left are infinitely far from everything.
    """
    k, d = centers.shape
    groups = -(-k // TOGETHER)
    found = np.full((groups, d, TOGETHER), np.inf, dtype=centers.dtype)
    for center in range(k):
        for feature in range(d):
            place = found[center // TOGETHER, feature]
            place[center % TOGETHER] = centers[center, feature]
    return found


@_compiled
def one_each(values: AnyArray) -> AnyArray:
    """Return a number for every place of the groups of four, inf where none is."""
    k = values.shape[0]
    found = np.full(-(-k // TOGETHER) * TOGETHER, np.inf, dtype=values.dtype)
    found[:k] = values
    return found


# ------------------------------------------------------------------ in NumPy


def _distances(columns: Floats, centers: Floats) -> Floats:
    """Return squared distances (k, rows), features in order."""
    points = centers.transpose(0, 2, 1).reshape(-1, centers.shape[1])
    total = np.zeros((points.shape[0], columns.shape[1]))
    for feature in range(columns.shape[0]):
        difference = columns[feature] - points[:, feature, None]
        total += difference * difference
    return total


def _keep(distances: AnyArray, found: Nearest) -> None:
    """Write down the nearest centre and the two least distances (OUT)."""
    every = np.arange(distances.shape[1])
    found.label[:] = distances.argmin(axis=0)
    found.best[:] = distances[found.label, every]
    others = distances.copy()
    others[found.label, every] = np.inf
    found.second[:] = others.min(axis=0)


def _nearest_plain(columns: Floats, centers: Floats, found: Nearest) -> None:
    _keep(_distances(columns, centers), found)


def _ranked_plain(
    columns: Floats, centers: Floats, spreads: Floats, distances: Floats, found: Nearest
) -> None:
    distances[:] = _distances(columns, centers)
    _keep(distances, found)
    blurred = distances + spreads[:, None]
    blurred[found.label, np.arange(distances.shape[1])] = np.inf
    found.outside[:] = blurred.min(axis=0)


def _products_plain(
    columns: AnyArray, factors: AnyArray, norms: AnyArray, found: Nearest
) -> None:
    points = factors.transpose(0, 2, 1).reshape(-1, factors.shape[1])
    _keep(points @ columns + norms[:, None], found)


# ------------------------------------------------------------------ in LLVM's words


class _Pass:
    """Writes the loops over a tile's rows and all groups of centres.

    With `norms` distances are products in one rounding, without them sums of squares;
    with `spreads` they are written to `distances`, and compared with these added.
    """

    def __init__(
        self,
        context: Any,
        builder: Any,
        columns: Any,
        centers: Any,
        found: Any,
        seconds: bool,
        norms: Any = None,
        spreads: Any = None,
        distances: Any = None,
    ) -> None:
        self.writer = writer = Writer(context, builder, columns.data.type.pointee)
        self.columns, self.centers, self.found = columns, centers, found
        self.norms, self.spreads, self.distances = norms, spreads, distances
        self.seconds = seconds
        self.features, self.rows = writer.sizes(columns)
        self.nearest = Least(writer, REGISTERS)
        self.blurred = None if spreads is None else Least(writer, REGISTERS)
        self.sums = [
            Registers(writer, writer.numbers, 0.0, REGISTERS) for _ in range(TOGETHER)
        ]
        lanes = writer.lanes
        self.shifts = [writer.at(register * lanes) for register in range(REGISTERS)]

    def write(self) -> None:
        """Write all of it."""
        writer, builder = self.writer, self.writer.builder
        step = writer.at(REGISTERS * writer.lanes)
        with writer.loop(builder.udiv(self.rows, step)) as outer:
            row = builder.mul(outer.index, step)
            self.nearest.reset()
            if self.blurred is not None:
                self.blurred.reset()
            with writer.loop(writer.sizes(self.centers)[0]) as middle:
                first = builder.mul(middle.index, writer.at(TOGETHER))
                self._begin(first)
                with writer.loop(self.features) as inner:
                    self._add(row, builder.mul(first, self.features), inner.index)
                for place, total in enumerate(self.sums):
                    self._look(row, builder.add(first, writer.at(place)), total)
            self._tell(row)

    def _begin(self, first: Any) -> None:
        """Begin the sums of four centres."""
        writer = self.writer
        for place, total in enumerate(self.sums):
            total.reset()
            if self.norms is not None:
                center = writer.builder.add(first, writer.at(place))
                norm = writer.single(self.norms, center)
                for register in range(REGISTERS):
                    total.set(register, norm)

    def _add(self, row: Any, before: Any, feature: Any) -> None:
        """Add what one feature says of four centres."""
        writer, add, times = self.writer, self.writer.builder.add, self.writer.times
        line = add(times(feature, self.rows), row)
        values = [writer.load(self.columns, add(line, shift)) for shift in self.shifts]
        factor = add(before, times(feature, writer.at(TOGETHER)))
        more = writer.squared if self.norms is None else writer.product
        for place, total in enumerate(self.sums):
            other = writer.single(self.centers, add(factor, writer.at(place)))
            for register, value in enumerate(values):
                total.set(register, more(value, other, total.get(register)))

    def _look(self, row: Any, center: Any, total: Registers) -> None:
        """Compare with what is known of the rows so far."""
        writer, add = self.writer, self.writer.builder.add
        label = writer.numbered(center)
        for register, shift in enumerate(self.shifts):
            value = total.get(register)
            self.nearest.see(register, value, label)
            if self.blurred is not None:
                line = add(writer.times(center, self.rows), add(row, shift))
                writer.store(value, self.distances, line)
                spread = writer.single(self.spreads, center)
                self.blurred.see(register, writer.builder.fadd(value, spread), label)

    def _tell(self, row: Any) -> None:
        """Write down what was found."""
        writer, nearest = self.writer, self.nearest
        label, best, second, outside = self.found
        for register, shift in enumerate(self.shifts):
            line = writer.builder.add(row, shift)
            own = nearest.label.get(register)
            writer.store(own, label, line)
            writer.store(nearest.best.get(register), best, line)
            if self.seconds:
                writer.store(nearest.second.get(register), second, line)
            if (blurred := self.blurred) is not None:
                # The least of the others: of all, if that is another's.
                is_own = writer.same(blurred.label.get(register), own)
                others = (blurred.second.get(register), blurred.best.get(register))
                writer.store(writer.builder.select(is_own, *others), outside, line)


def _write_pass(context: Any, builder: Any, **asked: Any) -> None:
    """Write a pass of :class:`_Pass`."""
    _Pass(context, builder, **asked).write()


@intrinsic
def _nearest_written(_: Any, columns: Any, centers: Any, found: Any) -> Any:
    kinds = {"columns": columns, "centers": centers, "found": found}
    return written(_write_pass, kinds, seconds=False)


@intrinsic
def _two_written(_: Any, columns: Any, centers: Any, found: Any) -> Any:
    kinds = {"columns": columns, "centers": centers, "found": found}
    return written(_write_pass, kinds, seconds=True)


@intrinsic
def _ranked_written(
    _: Any, columns: Any, centers: Any, spreads: Any, distances: Any, found: Any
) -> Any:
    kinds = {"columns": columns, "centers": centers, "spreads": spreads}
    return written(
        _write_pass, kinds | {"distances": distances, "found": found}, seconds=True
    )


@intrinsic
def _products_written(
    _: Any, columns: Any, factors: Any, norms: Any, found: Any
) -> Any:
    kinds = {"columns": columns, "centers": factors, "norms": norms, "found": found}
    return written(_write_pass, kinds, seconds=True)


#: ``nearest(columns, centers, found)``: the nearest centre and the least distance.
nearest: Callable[..., None] = _nearest_written
#: ``two_nearest(columns, centers, found)``: the two least distances besides.
two_nearest: Callable[..., None] = _two_written
#: ``ranked(columns, centers, spreads, distances, found)``: all that is found out of a
#: row, and (OUT) all its distances, a line a centre.
ranked: Callable[..., None] = _ranked_written
#: ``two_by_products(columns, factors, norms, found)``: the two least values of
#: norm + factor x, in one rounding an addition where the machine has that.
two_by_products: Callable[..., None] = _products_written
if not IS_COMPILED:
    nearest = two_nearest = _nearest_plain
    ranked, two_by_products = _ranked_plain, _products_plain
