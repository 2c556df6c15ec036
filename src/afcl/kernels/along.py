# SPDX-License-Identifier: Apache-2.0
"""Rows and centres of their own, in vector instructions.

Every row has a centre, or a few centres, of its own, so that rows cannot be worked on
side by side: features are, or those few centres. Beside each stands its twin in Python,
which runs where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from afcl._typing import Floats, Ints
from afcl.kernels.vectors import IS_COMPILED, Least, Writer, written


def _add_around_plain(
    rows: Floats,
    centers: Floats,
    label: Ints,
    best: Floats,
    counts: Floats,
    firsts: Floats,
    seconds: Floats,
) -> None:
    for row in range(rows.shape[0]):
        own = label[row]
        counts[own] += 1.0
        seconds[own] += best[row]
        firsts[own] += rows[row] - centers[own]


def _apart_plain(rows: Floats, centers: Floats, label: Ints, best: Floats) -> None:
    for row in range(rows.shape[0]):
        best[row] = ((rows[row] - centers[label[row]]) ** 2).sum()


def _nearest_of_own_plain(
    rows: Floats, parents: Ints, groups: Floats, starts: Ints, label: Ints
) -> None:
    for row in range(rows.shape[0]):
        own = groups[starts[parents[row]] : starts[parents[row] + 1]]
        total = np.zeros(own.shape[::2])
        for feature in range(rows.shape[1]):
            away = rows[row, feature] - own[:, feature]
            total += away * away
        label[row] = total.argmin()


def _turn_plain(rows: Floats, columns: Floats) -> None:
    columns[:, : rows.shape[0]] = rows.T


class _Line:
    """Writes a loop over the features of one row, a register or one at a time."""

    def __init__(self, writer: Writer, d: Any) -> None:
        self._writer = writer
        lanes = writer.at(writer.lanes)
        self._whole = writer.builder.udiv(d, lanes)
        self._behind = writer.builder.mul(self._whole, lanes)
        self._left = writer.builder.sub(d, self._behind)

    def each(self, do: Callable[[Any, bool], None]) -> None:
        """Write what is done at every place, with a whole register or with one."""
        writer = self._writer
        with writer.loop(self._whole) as loop:
            do(writer.builder.mul(loop.index, writer.at(writer.lanes)), True)
        with writer.loop(self._left) as loop:
            do(writer.builder.add(self._behind, loop.index), False)


def _write_added(
    context: Any,
    builder: Any,
    rows: Any,
    centers: Any,
    label: Any,
    best: Any,
    counts: Any,
    firsts: Any,
    seconds: Any,
) -> None:
    """Write the loops of :data:`add_around`."""
    writer = Writer(context, builder, rows.data.type.pointee)
    held, d = writer.sizes(rows)
    line = _Line(writer, d)

    def more(array: Any, place: Any, value: Any) -> None:
        pointer = builder.gep(array.data, [place])
        builder.store(builder.fadd(builder.load(pointer), value), pointer)

    with writer.loop(held) as loop:
        row = builder.mul(loop.index, d)
        own = builder.load(builder.gep(label.data, [loop.index]))
        center = builder.mul(own, d)
        more(counts, own, ir.Constant(rows.data.type.pointee, 1.0))
        more(seconds, own, builder.load(builder.gep(best.data, [loop.index])))

        def add(place: Any, whole: bool) -> None:
            here, there = builder.add(row, place), builder.add(center, place)
            values = writer.values(rows, here, whole)
            away = builder.fsub(values, writer.values(centers, there, whole))
            total = builder.fadd(writer.values(firsts, there, whole), away)
            writer.store(total, firsts, there)

        line.each(add)


def _write_apart(
    context: Any, builder: Any, rows: Any, centers: Any, label: Any, best: Any
) -> None:
    """Write the loops of :data:`apart_from_own`."""
    number = rows.data.type.pointee
    writer = Writer(context, builder, number)
    held, d = writer.sizes(rows)
    line = _Line(writer, d)
    sums = writer.room(writer.numbers)
    rest = writer.room(number)
    with writer.loop(held) as loop:
        row = builder.mul(loop.index, d)
        center = builder.mul(builder.load(builder.gep(label.data, [loop.index])), d)
        builder.store(writer.everywhere(writer.numbers, 0.0), sums)
        builder.store(ir.Constant(number, 0.0), rest)

        def add(place: Any, whole: bool) -> None:
            values = writer.values(rows, builder.add(row, place), whole)
            others = writer.values(centers, builder.add(center, place), whole)
            away = builder.fsub(values, others)
            total = sums if whole else rest
            square = builder.fmul(away, away)
            builder.store(builder.fadd(builder.load(total), square), total)

        line.each(add)
        total = writer.added(builder.load(sums), builder.load(rest))
        builder.store(total, builder.gep(best.data, [loop.index]))


def _write_turned(context: Any, builder: Any, rows: Any, columns: Any) -> None:
    """Write the loops of :data:`turn`: squares of as many rows as there are lanes."""
    writer = Writer(context, builder, rows.data.type.pointee)
    lanes = writer.at(writer.lanes)
    held, d = writer.sizes(rows)
    across = writer.sizes(columns)[1]
    whole = [builder.udiv(number, lanes) for number in (held, d)]
    behind = [writer.times(number, lanes) for number in whole]
    with writer.loop(whole[0]) as outer:
        row = writer.times(outer.index, lanes)
        with writer.loop(whole[1]) as inner:
            feature = writer.times(inner.index, lanes)
            square = []
            for lane in range(writer.lanes):
                line = writer.times(builder.add(row, writer.at(lane)), d)
                square.append(writer.load(rows, builder.add(line, feature)))
            for lane, values in enumerate(writer.turned(square)):
                line = writer.times(builder.add(feature, writer.at(lane)), across)
                writer.store(values, columns, builder.add(line, row))

    def copy(row: Any, feature: Any) -> None:
        here = builder.add(writer.times(row, d), feature)
        there = builder.add(writer.times(feature, across), row)
        value = builder.load(builder.gep(rows.data, [here]))
        builder.store(value, builder.gep(columns.data, [there]))

    # What is left: the last features of all rows, the other features of the last rows.
    with writer.loop(builder.sub(d, behind[1])) as outer:
        with writer.loop(held) as inner:
            copy(inner.index, builder.add(behind[1], outer.index))
    with writer.loop(builder.sub(held, behind[0])) as outer:
        with writer.loop(behind[1]) as inner:
            copy(builder.add(behind[0], outer.index), inner.index)


def _write_nearest(
    context: Any,
    builder: Any,
    rows: Any,
    parents: Any,
    groups: Any,
    starts: Any,
    label: Any,
) -> None:
    """Write the loops of :data:`nearest_of_own`."""
    writer = Writer(context, builder, rows.data.type.pointee)
    held, d = writer.sizes(rows)
    nearest, total = Least(writer, 1), writer.room(writer.numbers)
    lanes = writer.at(writer.lanes)
    with writer.loop(held) as loop:
        nearest.reset()
        parent = builder.load(builder.gep(parents.data, [loop.index]))
        pointer = builder.gep(starts.data, [parent])
        begin = builder.load(pointer)
        end = builder.load(builder.gep(pointer, [writer.at(1)]))
        row = writer.times(loop.index, d)
        with writer.loop(builder.sub(end, begin)) as middle:
            builder.store(writer.everywhere(writer.numbers, 0.0), total)
            before = writer.times(builder.add(begin, middle.index), d)
            with writer.loop(d) as inner:
                value = writer.single(rows, builder.add(row, inner.index))
                place = writer.times(builder.add(before, inner.index), lanes)
                other = writer.load(groups, place)
                builder.store(writer.squared(value, other, builder.load(total)), total)
            number = writer.numbered(writer.times(middle.index, lanes))
            nearest.see(0, builder.load(total), builder.add(number, writer.counting()))
        own = writer.first_of_least(nearest.best.get(0), nearest.label.get(0))
        builder.store(own, builder.gep(label.data, [loop.index]))


@intrinsic
def _add_around_written(
    _: Any,
    rows: Any,
    centers: Any,
    label: Any,
    best: Any,
    counts: Any,
    firsts: Any,
    seconds: Any,
) -> Any:
    kinds = {"rows": rows, "centers": centers, "label": label, "best": best}
    kinds |= {"counts": counts, "firsts": firsts, "seconds": seconds}
    return written(_write_added, kinds)


@intrinsic
def _apart_written(_: Any, rows: Any, centers: Any, label: Any, best: Any) -> Any:
    kinds = {"rows": rows, "centers": centers, "label": label, "best": best}
    return written(_write_apart, kinds)


@intrinsic
def _turned_written(_: Any, rows: Any, columns: Any) -> Any:
    return written(_write_turned, {"rows": rows, "columns": columns})


@intrinsic
def _nearest_of_own_written(
    _: Any, rows: Any, parents: Any, groups: Any, starts: Any, label: Any
) -> Any:
    kinds = {"rows": rows, "parents": parents, "groups": groups}
    return written(_write_nearest, kinds | {"starts": starts, "label": label})


#: ``add_around(rows, centers, label, best, counts, firsts, seconds)``: add the rows, as
#: seen from their own centres, to the sums of these (INOUT).
add_around: Callable[..., None] = _add_around_written
#: ``apart_from_own(rows, centers, label, best)``: the squared distance (OUT) of every
#: row to its own centre, features in any order.
apart_from_own: Callable[..., None] = _apart_written
#: ``nearest_of_own(rows, parents, groups, starts, label)``: the nearest (OUT) of the
#: centres that have the row's parent, as counted from the first of these. They are
#: those of the groups (of as many as there are lanes, features first) from
#: ``starts[parent]`` up to the next one's; places that are left are infinitely far.
nearest_of_own: Callable[..., None] = _nearest_of_own_written
#: ``turn(rows, columns)``: write rows (OUT) feature by feature.
turn: Callable[..., None] = _turned_written
if not IS_COMPILED:
    add_around, apart_from_own = _add_around_plain, _apart_plain
    nearest_of_own, turn = _nearest_of_own_plain, _turn_plain
