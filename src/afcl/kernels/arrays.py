# SPDX-License-Identifier: Apache-2.0
"""Passes over rows that stay where they are, written once on the array API standard.

PyTorch, CuPy, JAX and NumPy arrays understand it. Rows are taken a chunk at a time, so
that no matrix of rows times centres exists as a whole; what a chunk adds up to comes to
main memory and is added there, in float64. Where a faster way exists for a kind of
array (:mod:`.gpu`), it replaces these passes one by one. The oracle is
:mod:`.reference`: results agree to rounding in the rows' own precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.exceptions import InputError
from afcl.kernels.reference import PLACES, SLAB, Tally
from afcl.scale import FAR_OUT, MIDDLE, NARROW, RADIUS, Box

#: An array of any library that follows the standard.
Array: TypeAlias = Any

#: Numbers in the largest matrix of a chunk's rows and centres.
AT_ONCE = 1 << 24
#: Types that rows may have.
PRECISIONS = ("float32", "float64")


class Nest(NamedTuple):
    """Seeds that tell rows apart inside the groups of a coarser partition.

    Attributes
    ----------
    seeds : (m, d)
    parents : (m,)
        Group of the coarser partition; 0 where there is none.
    groups : (m,)
        What seeds are joined to.
    """

    seeds: Floats
    parents: Ints
    groups: Ints


def standard(values: Array) -> ModuleType:
    """Return the functions that work on such an array."""
    try:
        from array_api_compat import array_namespace
    except ImportError:
        raise InputError(
            "rows that stay where they are need array-api-compat: "
            "pip install 'afcl[gpu]'"
        ) from None
    namespace: ModuleType = array_namespace(values)
    return namespace


def to_numpy(values: Array) -> AnyArray:
    """Return the same numbers in main memory."""
    from array_api_compat import is_torch_array, to_device

    if is_torch_array(values):
        values = to_device(values, "cpu")
    if hasattr(values, "get"):  # CuPy's own way
        values = values.get()
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(np.from_dlpack(values))


@contextmanager
def in_one_line() -> Iterator[None]:
    """Say in one line that the device has no memory left, whoever says so."""
    try:
        yield
    except Exception as error:
        words = f"{type(error).__name__} {error}"
        if not any(known in words for known in ("OutOfMemory", "RESOURCE_EXHAUSTED")):
            raise
        raise InputError(
            "the device has too little free memory for these rows: free some, give "
            "float32 rows, or leave the rows in main memory"
        ) from error


class ArrayPasses:
    """Everything that is asked of rows on a device, in agreed columns and units.

    Parameters
    ----------
    values
        (n, d), float32 or float64, neither copied nor changed.
    box
        The agreed map; None: the rows are in agreed units already.
    places
        Where the agreed columns are; None: they are the table's.
    """

    def __init__(
        self, values: Array, box: Box | None = None, places: Ints | None = None
    ) -> None:
        self.values = values
        self.box = box
        self.places = places
        self.xp = standard(values)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        n, d = self.values.shape
        return int(n), int(d) if self.places is None else self.places.shape[0]

    # ------------------------------------------------------------- rows in parts

    def sent(self, values: AnyArray, dtype: Any = None) -> Array:
        """Return numbers as an array beside the rows, of the rows' precision."""
        from array_api_compat import device

        if values.dtype.kind == "f":
            dtype = self.values.dtype if dtype is None else dtype
        return self.xp.asarray(values, dtype=dtype, device=device(self.values))

    def chunks(self, width: int) -> Iterator[Array]:
        """Yield the rows in agreed units, so many that `width` columns fit beside."""
        n, d = self.shape
        step = max(1, AT_ONCE // max(width, d))
        for start in range(0, max(n, 1), step):
            yield self.agreed(self.values[_from(start, step, n), :])

    def agreed(self, rows: Array) -> Array:
        """Return rows in the agreed columns and units."""
        xp = self.xp
        if self.places is not None:
            rows = xp.take(rows, self.sent(self.places), axis=1)
        if self.box is None:
            return rows
        low = self.sent(self.box.low, rows.dtype)
        scaled = (rows - low[None, :]) / self.sent(self.box.span, rows.dtype)[None, :]
        return self._within_walls(scaled) if self.box.walls else scaled

    def _within_walls(self, scaled: Array) -> Array:
        """Do what :meth:`afcl.scale.Box.scale` does behind walls."""
        xp = self.xp
        away = xp.abs(scaled - MIDDLE)
        nothing = away - MIDDLE >= FAR_OUT
        behind = (away > RADIUS) & ~nothing
        many = xp.sum(xp.astype(behind, scaled.dtype), axis=1, keepdims=True)
        share = RADIUS / xp.sqrt(xp.where(many > 1, many, xp.ones_like(many)))
        wall = MIDDLE + xp.sign(scaled - MIDDLE) * share
        inner = xp.where(behind, wall, scaled)
        return xp.where(nothing, xp.full_like(scaled, MIDDLE), inner)

    def take(self, index: Ints) -> Floats:
        """Return the rows at these positions, in main memory."""
        rows = to_numpy(self.xp.take(self.values, self.sent(index), axis=0))
        rows = rows.astype(np.float64)
        if self.places is not None:
            rows = rows[:, self.places]
        return rows if self.box is None else self.box.scale(rows)

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the least and the largest value of every column; NaN if one is."""
        parts = [
            (self.xp.min(rows, axis=0), self.xp.max(rows, axis=0))
            for rows in self.chunks(1)
        ]
        low = np.min([to_numpy(part[0]) for part in parts], axis=0)
        high = np.max([to_numpy(part[1]) for part in parts], axis=0)
        return low.astype(np.float64), high.astype(np.float64)

    # ------------------------------------------------------------------ passes

    def placed(self, index: Ints, draws: Floats, iterations: int) -> Floats:
        """Return centres of the rows at these positions: k-means++, then Lloyd."""
        xp = self.xp
        rows = xp.take(self.values, self.sent(index), axis=0)
        rows = self.agreed(xp.astype(rows, self._finest()))
        picks = self.picked(rows, draws)
        centers = xp.take(rows, self.sent(picks), axis=0)
        k = picks.shape[0]
        for _ in range(iterations):
            hot = self._hot(self._nearest(rows, centers), k, rows.dtype)
            mass = xp.sum(hot, axis=0)[:, None]
            means = xp.matmul(hot.T, rows) / xp.where(mass > 0, mass, 1 + 0 * mass)
            centers = xp.where(mass > 0, means, centers)
        return to_numpy(centers).astype(np.float64)

    def picked(self, rows: Array, draws: Floats) -> Ints:
        """Pick as many rows as there are draws; see :mod:`.reference_picks`.

        Nothing is waited for until all are picked.
        """
        xp, n = self.xp, int(rows.shape[0])
        nearest = None
        potential = xp.ones_like(rows[:, 0])
        picks, totals = [], []
        for draw in draws.tolist():
            cumulated = xp.cumulative_sum(potential)
            totals.append(cumulated[-1:])
            place = xp.searchsorted(cumulated, draw * cumulated[-1:], side="right")
            pick = xp.clip(place, None, n - 1)
            picks.append(pick)
            apart = rows - xp.take(rows, pick, axis=0)
            squares = xp.sum(apart * apart, axis=1)
            nearest = squares if nearest is None else xp.minimum(nearest, squares)
            potential = nearest
        found = to_numpy(xp.concat(picks)).astype(np.int64)
        spent = np.flatnonzero(~(to_numpy(xp.concat(totals)) > 0))
        return found[: spent[0]] if spent.size else found

    def tally(
        self,
        centers: Floats,
        bounds: Ints,
        scores: Ints,
        spreads: Floats,
        sizes: Floats,
    ) -> Tally:
        """Return what :func:`reference.tally` does."""
        each, totals = [], []
        for score, a, b in zip(scores.tolist(), bounds[:-1], bounds[1:], strict=True):
            about = (centers[a:b], spreads[a:b], sizes[a:b])
            *sums, total = self.tally_set(*about, score)
            each.append(sums)
            totals.append(total)
        counts, firsts, seconds, slabs = (
            np.concatenate(part) for part in zip(*each, strict=True)
        )
        return counts, firsts, seconds, np.array(totals), slabs

    def tally_set(
        self, centers: Floats, spreads: Floats, sizes: Floats, score: int
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds, slabs and totals of one set of centres."""
        k, d = centers.shape
        summed = np.zeros((k, 1 + d + 1 + len(PLACES)))
        totals = np.zeros(2)
        about = _About(self, centers, spreads, sizes)
        for rows in self.chunks(k):
            part, total = about.of_rows(rows, score)
            summed += part
            totals += total
        return summed[:, 0], summed[:, 1:-4], summed[:, -4], summed[:, -3:], totals

    def nested(self, nests: Sequence[Nest]) -> tuple[Floats, Floats, Floats]:
        """Return counts, sums of x - s and of its squares by seed of the last nest.

        A row goes to the nearest of the seeds whose parent is its group so far.
        """
        last = nests[-1]
        m, d = last.seeds.shape
        summed = np.zeros((m, 1 + 2 * d))
        seeds = self.sent(last.seeds)
        for rows in self.chunks(max(nest.seeds.shape[0] for nest in nests)):
            xp, groups = self.xp, None
            for nest in nests:
                own = self._inside(rows, nest, groups)
                groups = xp.take(self.sent(nest.groups), own, axis=0)
            gaps = rows - xp.take(seeds, own, axis=0)
            columns = xp.concat([xp.ones_like(gaps[:, :1]), gaps, gaps * gaps], axis=1)
            hot = self._hot(own, m, rows.dtype)
            summed += to_numpy(xp.matmul(hot.T, columns))
        return summed[:, 0], summed[:, 1 : 1 + d], summed[:, 1 + d :]

    def _inside(self, rows: Array, nest: Nest, groups: Array | None) -> Array:
        far = self.far(rows, self.sent(nest.seeds))
        if groups is not None:
            same = self.sent(nest.parents)[None, :] == groups[:, None]
            far = self.xp.where(same, far, self.xp.full_like(far, np.inf))
        return self.xp.argmin(far, axis=1)

    def labels(self, centers: Floats) -> tuple[Array, Ints]:
        """Return the nearest centre of every row, beside the rows, and their counts."""
        k, xp, spots = centers.shape[0], self.xp, self.sent(centers)
        found = [
            xp.astype(self._nearest(rows, spots), xp.int32) for rows in self.chunks(k)
        ]
        labels = found[0] if len(found) == 1 else xp.concat(found)
        counts = np.zeros(k, dtype=np.int64)
        for part in self.host_labels(labels):
            counts += np.bincount(part, minlength=k)
        return labels, counts

    def renamed(self, labels: Array, names: Ints) -> Array:
        """Return labels by other names."""
        new = self.xp.astype(self.sent(names), self.xp.int32)
        return self.xp.take(new, labels, axis=0)

    def host_labels(self, labels: Array) -> Iterator[Ints]:
        """Yield labels part by part, in main memory."""
        n = int(labels.shape[0])
        for start in range(0, max(n, 1), AT_ONCE):
            yield to_numpy(labels[_from(start, AT_ONCE, n)]).astype(np.int64)

    # ------------------------------------------------------------- of a chunk

    def far(self, rows: Array, centers: Array) -> Array:
        """Return squared distances, of wide rows less the row's own length."""
        xp = self.xp
        if rows.shape[1] <= NARROW:
            gaps = [
                rows[:, place][:, None] - centers[:, place][None, :]
                for place in range(int(rows.shape[1]))
            ]
            return sum((gap * gap for gap in gaps[1:]), gaps[0] * gaps[0])
        middle = xp.mean(centers, axis=0, keepdims=True)
        seen = centers - middle
        products = xp.matmul(rows - middle, seen.T)
        return xp.sum(seen * seen, axis=1)[None, :] - 2 * products

    def _nearest(self, rows: Array, centers: Array) -> Array:
        return self.xp.argmin(self.far(rows, centers), axis=1)

    def _hot(self, labels: Array, k: int, dtype: Any) -> Array:
        """Return 1 where a row has a label, else 0."""
        every = self.sent(np.arange(k))
        same = self.xp.astype(labels, every.dtype)[:, None] == every[None, :]
        return self.xp.astype(same, dtype)

    def _finest(self) -> Any:
        """Return float64 where the device has it."""
        from array_api_compat import device

        known = self.xp.__array_namespace_info__().dtypes(
            device=device(self.values), kind="real floating"
        )
        return known.get("float64", self.values.dtype)


def _from(start: int, step: int, n: int) -> slice:
    """Return a slice that ends where the array does."""
    return slice(start, start + step if start + step < n else None)


class _About:
    """What a set of centres makes of a chunk of rows."""

    def __init__(
        self, passes: ArrayPasses, centers: Floats, spreads: Floats, sizes: Floats
    ) -> None:
        self._passes, self._xp = passes, passes.xp
        self._k = centers.shape[0]
        self._centers = passes.sent(centers)
        self._spreads, self._sizes = passes.sent(spreads), passes.sent(sizes)
        # As lengths of centres from the middle, which `far` is relative to as well.
        axes = slab_axes(centers)
        self._partner = passes.sent(axes.partners)
        self._axes, self._starts = passes.sent(axes.along.T), passes.sent(axes.starts)

    def of_rows(self, rows: Array, score: int) -> tuple[Floats, Floats]:
        """Return what is added up by centre (k, 1 + d + 1 + 3), and over all."""
        xp, passes = self._xp, self._passes
        far = passes.far(rows, self._centers)
        own = xp.argmin(far, axis=1)
        gaps = rows - xp.take(self._centers, own, axis=0)
        near = xp.sum(gaps * gaps, axis=1)
        hot = passes._hot(own, self._k, rows.dtype)
        columns = [xp.ones_like(gaps[:, :1]), gaps, near[:, None]]
        summed = to_numpy(xp.matmul(hot.T, xp.concat(columns, axis=1)))
        slabs, totals = np.zeros((self._k, len(PLACES))), np.zeros(2)
        if score > 0:
            best = xp.min(far, axis=1)
            others = xp.where(hot > 0, xp.full_like(far, np.inf), far)
            second = near + (xp.min(others, axis=1) - best)
            totals[0] = self._simplified(near, second)
        if score > 1:
            outside = near + (xp.min(others + self._spreads[None, :], axis=1) - best)
            totals[1] = self._moment(near, outside, own)
            slabs = self._slabs(rows, own, hot)
        return np.concatenate([summed, slabs], axis=1), totals

    def _total(self, values: Array) -> float:
        """Add up in main memory, where there is float64."""
        return float(to_numpy(values).astype(np.float64).sum())

    def _simplified(self, near: Array, second: Array) -> float:
        xp = self._xp
        apart = xp.where(second > 0, second, xp.ones_like(second))
        ratio = xp.where(second > 0, near / apart, xp.ones_like(near))
        return self._total(1.0 - xp.sqrt(ratio))

    def _moment(self, near: Array, outside: Array, own: Array) -> float:
        xp = self._xp
        size = xp.take(self._sizes, own, axis=0)
        others = xp.where(size > 1, size - 1.0, xp.ones_like(size))
        inside = (near + xp.take(self._spreads, own, axis=0)) * (size / others)
        larger = xp.maximum(inside, outside)
        usable = (larger > 0) & (size > 1)
        share = xp.minimum(inside, outside) / xp.where(
            usable, larger, xp.ones_like(larger)
        )
        root = xp.sqrt(xp.where(share > 0, share, xp.zeros_like(share)))
        contrast = xp.where(outside >= inside, 1.0 - root, root - 1.0)
        return self._total(xp.where(usable, contrast, xp.zeros_like(contrast)))

    def _slabs(self, rows: Array, own: Array, hot: Array) -> Floats:
        """Return the rows in slabs between centres; see :func:`reference.valleys`."""
        xp = self._xp
        along = xp.matmul(rows, self._axes) + self._starts[None, :]
        theirs = self._partner[None, :] == xp.astype(own, self._partner.dtype)[:, None]
        counted = theirs | (hot > 0)
        slabs = []
        for place in PLACES:
            inside = counted & (xp.abs(along - place) <= SLAB)
            slabs.append(to_numpy(xp.sum(xp.astype(inside, xp.int32), axis=0)))
        return np.stack(slabs, axis=1).astype(np.float64)


class SlabAxes(NamedTuple):
    """Where on the way from each centre to its nearest a row lies: x along + start.

    Attributes
    ----------
    partners : (k,)
        The nearest centre of each.
    along : (k, d)
    starts : (k,)
        Beyond all slabs where there is no way: one centre, or two that coincide.
    """

    partners: Ints
    along: Floats
    starts: Floats


def slab_axes(centers: Floats) -> SlabAxes:
    """Return the axes that :func:`reference.valleys` counts slabs along."""
    k = centers.shape[0]
    gaps = centers[:, None, :] - centers[None, :, :]
    apart = (gaps * gaps).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    partners = apart.argmin(axis=1)
    lengths = apart[np.arange(k), partners]
    usable = (lengths > 0) & np.isfinite(lengths)
    ways = np.where(usable[:, None], centers[partners] - centers, 0.0)
    along = ways / np.where(usable, lengths, 1.0)[:, None]
    starts = np.where(usable, -(centers * along).sum(axis=1), 1e6)
    return SlabAxes(partners.astype(np.int64), along, starts)
