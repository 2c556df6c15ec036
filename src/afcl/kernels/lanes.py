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
from numba.core import cgutils, config
from numba.extending import intrinsic

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.vectors import Writer, written

#: Registers of rows that are worked on together.
REGISTERS = 2
#: Centres that go by together.
TOGETHER = 4

_compiled = compiled(error_model="numpy")


class Found(NamedTuple):
    """What is found out about every row of a tile.

    Its nearest centre (of several the first), the two least distances, and the least
    distance plus spread of all the other centres.
    """

    label: Ints
    best: AnyArray
    second: AnyArray
    outside: AnyArray


@_compiled
def found_for(rows: int) -> Found:
    """Return room for so many rows."""
    return Found(
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
    """Return a number for every place of the groups of four, inf where there is none."""
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


def _keep(distances: AnyArray, found: Found) -> None:
    """Write down the nearest centre and the two least distances (OUT)."""
    every = np.arange(distances.shape[1])
    found.label[:] = distances.argmin(axis=0)
    found.best[:] = distances[found.label, every]
    others = distances.copy()
    others[found.label, every] = np.inf
    found.second[:] = others.min(axis=0)


def _nearest_plain(columns: Floats, centers: Floats, found: Found) -> None:
    _keep(_distances(columns, centers), found)


def _ranked_plain(
    columns: Floats, centers: Floats, spreads: Floats, distances: Floats, found: Found
) -> None:
    distances[:] = _distances(columns, centers)
    _keep(distances, found)
    blurred = distances + spreads[:, None]
    blurred[found.label, np.arange(distances.shape[1])] = np.inf
    found.outside[:] = blurred.min(axis=0)


def _products_plain(
    columns: AnyArray, factors: AnyArray, norms: AnyArray, found: Found
) -> None:
    points = factors.transpose(0, 2, 1).reshape(-1, factors.shape[1])
    _keep(points @ columns + norms[:, None], found)


# ------------------------------------------------------------------ in LLVM's words


class _Places:
    """What stays in registers while centres go by: one value for each of two."""

    def __init__(self, writer: Writer, kind: Any, begin: float) -> None:
        self._writer = writer
        self._begin = writer.everywhere(kind, begin)
        self._slots = [
            cgutils.alloca_once(writer.builder, kind) for _ in range(REGISTERS)
        ]

    def reset(self) -> None:
        """Begin with another tile's rows."""
        for slot in self._slots:
            self._writer.builder.store(self._begin, slot)

    def get(self, register: int) -> Any:
        return self._writer.builder.load(self._slots[register])

    def set(self, register: int, value: Any) -> None:
        self._writer.builder.store(value, self._slots[register])


class _Least:
    """Writes how the least of some numbers, and the second least, are kept.

    Parameters
    ----------
    writer
        What writes.
    seconds
        Whether the second least is asked for.
    """

    def __init__(self, writer: Writer, seconds: bool) -> None:
        self._writer = writer
        self.label = _Places(writer, writer.labels, 0)
        self.best = _Places(writer, writer.numbers, np.inf)
        self.second = _Places(writer, writer.numbers, np.inf) if seconds else None

    def reset(self) -> None:
        """Begin: nothing is near yet."""
        for each in (self.label, self.best, self.second):
            if each is not None:
                each.reset()

    def see(self, register: int, value: Any, label: Any) -> None:
        """Look at one more centre's numbers."""
        select, best = self._writer.builder.select, self.best.get(register)
        nearer = self._writer.less(value, best)
        if self.second is not None:
            loser = select(nearer, best, value)
            lesser = self._writer.least(loser, self.second.get(register))
            self.second.set(register, lesser)
        self.best.set(register, select(nearer, value, best))
        kept = select(nearer, label, self.label.get(register))
        self.label.set(register, kept)


def _write_pass(
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
    """Write the loops over a tile's rows and all groups of centres.

    With `norms` distances are products in one rounding, without them sums of squares;
    with `spreads` they are written to `distances`, and compared with these added.
    """
    writer = Writer(context, builder, columns.data.type.pointee)
    d, rows = cgutils.unpack_tuple(builder, columns.shape)
    groups = cgutils.unpack_tuple(builder, centers.shape)[0]
    nearest = _Least(writer, seconds)
    blurred = None if spreads is None else _Least(writer, seconds=True)
    kept = [nearest] if blurred is None else [nearest, blurred]
    sums = [_Places(writer, writer.numbers, 0.0) for _ in range(TOGETHER)]
    step = writer.at(REGISTERS * writer.lanes)
    shifts = [writer.at(register * writer.lanes) for register in range(REGISTERS)]
    add = builder.add
    with cgutils.for_range(builder, builder.udiv(rows, step)) as outer:
        row = builder.mul(outer.index, step)
        for each in kept:
            each.reset()
        with cgutils.for_range(builder, groups) as middle:
            first = builder.mul(middle.index, writer.at(TOGETHER))
            for place, total in enumerate(sums):
                total.reset()
                for register in range(REGISTERS if norms is not None else 0):
                    norm = writer.single(norms, add(first, writer.at(place)))
                    total.set(register, norm)
            before = builder.mul(first, d)
            with cgutils.for_range(builder, d) as inner:
                line = add(builder.mul(inner.index, rows), row)
                values = [writer.load(columns, add(line, shift)) for shift in shifts]
                factor = add(before, builder.mul(inner.index, writer.at(TOGETHER)))
                for place, total in enumerate(sums):
                    other = writer.single(centers, add(factor, writer.at(place)))
                    for register, value in enumerate(values):
                        so_far = total.get(register)
                        further = (
                            writer.squared(value, other, so_far)
                            if norms is None
                            else writer.product(value, other, so_far)
                        )
                        total.set(register, further)
            for place, total in enumerate(sums):
                center = add(first, writer.at(place))
                number = center
                if writer.labels.element.width < writer.index.width:
                    number = builder.trunc(center, writer.labels.element)
                label = writer.spread(number)
                for register, shift in enumerate(shifts):
                    value = total.get(register)
                    nearest.see(register, value, label)
                    if blurred is not None:
                        line = add(builder.mul(center, rows), add(row, shift))
                        writer.store(value, distances, line)
                        spread = writer.single(spreads, center)
                        blurred.see(register, builder.fadd(value, spread), label)
        label, best, second, outside = found
        for register, shift in enumerate(shifts):
            line, own = add(row, shift), nearest.label.get(register)
            writer.store(own, label, line)
            writer.store(nearest.best.get(register), best, line)
            if nearest.second is not None:
                writer.store(nearest.second.get(register), second, line)
            if blurred is not None and blurred.second is not None:
                # The least of the others: of all, if that is another's.
                is_own = builder.icmp_signed("==", blurred.label.get(register), own)
                others = (blurred.second.get(register), blurred.best.get(register))
                writer.store(builder.select(is_own, *others), outside, line)


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
    return written(_write_pass, kinds | {"distances": distances, "found": found}, seconds=True)


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
if config.DISABLE_JIT:
    nearest = two_nearest = _nearest_plain
    ranked, two_by_products = _ranked_plain, _products_plain
