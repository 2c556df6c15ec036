# SPDX-License-Identifier: Apache-2.0
"""The fused kernel behind the passes of rows that are CUDA tensors of float32."""
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from afcl._typing import Floats, Ints
from afcl.kernels.arrays import ArrayPasses, Nest, slab_axes
from afcl.kernels.gpu.extremes import extremes_kernel
from afcl.kernels.gpu.fused import pass_kernel
from afcl.kernels.gpu.plus_plus import plus_plus_kernel
from afcl.scale import NARROW, Box

#: Widest tables, and most centres of one set, that the fused kernel takes.
WIDEST, MOST = 128, 1024
#: Most seeds inside the groups of others.
MOST_INSIDE = 1 << 15
#: Most centres of a set that is scored with slabs.
MOST_SCORED = 128
#: Rows in agreed units reach no further: their parts are float16.
REACH = 1000.0
#: Least squared distance of centres that slabs are counted between, likewise.
LEAST_APART = 1e-7
#: Tiles that one program takes in a launch, at most: silhouettes are added up in 31
#: bits, multiples of 2^-20.
MOST_TILES = 2000
#: And if it counts slabs: ten bits for each.
MOST_TILES_OF_SLABS = 1000
#: Numbers of a chunk of the sample of k-means++, and how many programs share chunks:
#: fewer than any such card has processors, because they wait for each other.
PICKED, PICKERS = 1 << 12, 32
#: Columns that lanes share; a row's pieces of so many are in the same lanes.
PIECE = 16
#: Numbers of float32 that sums may be spread over.
SPREAD = 1 << 21
#: Copies of the sums, at most.
MOST_COPIES = 512
#: Farther than any row; padding.
FAR = 1e30


class Shape(NamedTuple):
    """How a launch is cut: rows of a tile; strips of a block, centres of a strip."""

    block: int
    strip: int
    strips: int
    warps: int
    per_sm: int
    stages: int = 1
    registers: int | None = None


def shape_for(k: int, d: int, slabs: bool) -> Shape:
    """Return how the kernel is cut, as measured (docs/results/gpu.md)."""
    if slabs:
        strip = max(16, triton.next_power_of_2(-(-k // 2)))
        if strip > 16:
            return Shape(64, strip, 2, 4, 8)
    if slabs or k <= 32:
        return Shape(32, 16, 2, 1, 32)
    return Shape(64, 8, 4, 2, 32) if d <= 32 else Shape(64, 16, 2, 2, 32, 3)


def suits(values: Any, box: Box | None, places: Ints | None) -> bool:
    """Whether the fused kernel can read these rows as they are."""
    return (
        isinstance(values, torch.Tensor)
        and values.is_cuda
        and values.dtype == torch.float32
        and values.shape[1] <= WIDEST
        and values.stride(1) == 1
        and places is None
        and not (box is not None and box.walls)
    )


class FusedPasses(ArrayPasses):
    """The passes of :class:`ArrayPasses`, each in one reading of the rows."""

    def __init__(
        self,
        values: Any,
        box: Box | None = None,
        places: Ints | None = None,
        known: tuple[Floats, Floats] | None = None,
    ) -> None:
        super().__init__(values, box, places)
        d = values.shape[1]
        low = np.zeros(d) if box is None else box.low
        span = np.ones(d) if box is None else box.span
        self._low, self._span = low, span
        self._near = self._is_near(*(self.extremes() if known is None else known))

    def _is_near(self, low: Floats, high: Floats) -> bool:
        """Whether all rows fit into float16 in agreed units."""
        reach = np.maximum(np.abs(low - self._low), np.abs(high - self._low))
        return bool((reach / self._span <= REACH).all())

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the least and the largest value of every column; NaN if one is."""
        n, d = self.shape
        wide = max(1, triton.next_power_of_2(d))
        programs = _processors(self.values) * 8
        found = torch.empty(
            (2, programs, wide), dtype=torch.float32, device=self.values.device
        )
        block = max(16, 4096 // wide)
        with torch.cuda.device(self.values.device):
            extremes_kernel[(programs,)](
                self.values, n, self.values.stride(0), found, d, wide, block
            )
        low, high = found[0, :, :d].amin(0), found[1, :, :d].amax(0)
        low, high = low.cpu().numpy(), high.cpu().numpy()
        return low.astype(np.float64), high.astype(np.float64)

    def picked(self, rows: Any, draws: Floats) -> Ints:
        """Pick rows by k-means++, in one launch."""
        (n, d), k = rows.shape, draws.shape[0]
        there: Any = {"device": rows.device, "dtype": torch.float64}
        wide = triton.next_power_of_2(d)
        chunk = max(32, PICKED // wide)
        chunks = triton.cdiv(n, chunk)
        most = triton.next_power_of_2(chunks)
        picks = torch.empty(k, dtype=torch.int32, device=rows.device)
        totals = torch.empty(k, **there)
        with torch.cuda.device(rows.device):
            plus_plus_kernel[(min(chunks, PICKERS),)](
                rows.double().contiguous(), n, torch.from_numpy(draws).to(**there),
                torch.empty((2, n), **there), torch.empty((2, most), **there),
                torch.zeros(1, dtype=torch.int32, device=rows.device), picks, totals,
                k, D=d, DP=wide, CHUNK=chunk, CHUNKS=most, num_warps=8,
            )  # fmt: skip
        found = picks.cpu().numpy().astype(np.int64)
        spent = np.flatnonzero(~(totals.cpu().numpy() > 0))
        return found[: spent[0]] if spent.size else found

    def tally_set(
        self, centers: Floats, spreads: Floats, sizes: Floats, score: int
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds, slabs and totals of one set of centres."""
        k = centers.shape[0]
        slabs = score > 1
        axes = slab_axes(centers) if slabs else None
        if not self._near or k > (MOST_SCORED if slabs else MOST) or _close(axes):
            return super().tally_set(centers, spreads, sizes, score)
        ask = self.asked(centers, spreads, sizes, slabs)
        if axes is not None:
            ask.along(axes)
        ask.run(SCORE=score, SLABS=slabs)
        counts, firsts, seconds, _ = ask.sums()
        found = ask.slabs.cpu().numpy().reshape(-1, 3)[:k].astype(np.float64)
        return counts, firsts, seconds, found, ask.totals.cpu().numpy()

    def asked(
        self, centers: Floats, spreads: Floats, sizes: Floats, slabs: bool
    ) -> _Asked:
        """Return a launch that can score these centres."""
        k, d = centers.shape
        ask = _Asked(self, centers, shape_for(k, d, slabs))
        ask.about[0, :k] = ask.sent(spreads)
        others = np.where(sizes > 1, sizes - 1.0, 1.0)
        ask.about[1, :k] = ask.sent(np.where(sizes > 1, sizes / others, 0.0))
        return ask

    def nested(self, nests: Sequence[Nest]) -> tuple[Floats, Floats, Floats]:
        """Return counts, sums of x - s and of its squares by seed of the last nest."""
        first, last = nests[0], nests[-1]
        k, d = first.seeds.shape
        many = k > MOST or len(last.seeds) > MOST_INSIDE
        if not self._near or len(nests) > 2 or many:
            return super().nested(nests)
        ask = _Asked(self, first.seeds, shape_for(k, d, False))
        if len(nests) == 2:
            ask.inside(first.groups, last)
        ask.run(SQUARES=True, NESTED=len(nests) == 2)
        counts, firsts, _, squares = ask.sums()
        return counts, firsts, squares

    def labels(self, centers: Floats) -> tuple[Any, Ints]:
        """Return the nearest centre of every row, beside the rows, and their counts."""
        (k, d), n = centers.shape, self.shape[0]
        if not self._near or k > MOST:
            return super().labels(centers)
        ask = _Asked(self, centers, shape_for(k, d, False))
        ask.labels = torch.empty(n, dtype=torch.int32, device=self.values.device)
        ask.run(LABELS=True)
        return ask.labels, np.rint(ask.sums()[0]).astype(np.int64)

    def renamed(self, labels: Any, names: Ints) -> Any:
        """Return labels by other names, in place."""
        new = torch.from_numpy(names.astype(np.int32)).to(labels.device)
        for start in range(0, labels.shape[0], 1 << 24):
            part = labels[start : start + (1 << 24)]
            part.copy_(new[part])
        return labels


class _Asked:
    """One launch of the fused kernel: what it reads, and where it adds up."""

    def __init__(self, passes: FusedPasses, centers: Floats, cut: Shape) -> None:
        self._passes, self._cut = passes, cut
        self._device = passes.values.device
        k, d = centers.shape
        self.k, self.d = k, d
        self.wide = max(16, triton.next_power_of_2(d))
        at_once = cut.strips * cut.strip
        self.padded = -(-k // at_once) * at_once
        # What is seen from the middle is small; the middle is a float32 in the rows'
        # own units, so that one difference and one product take a row there.
        low, span = passes._low, passes._span
        origin = (low + span * centers.mean(axis=0)).astype(np.float32)
        self.middle = (origin.astype(np.float64) - low) / span
        seen = np.zeros((self.padded, self.wide))
        seen[:k, :d] = centers - self.middle
        box = np.zeros((2, self.wide))
        box[:, :d] = origin, 1.0 / span
        self.box = self.sent(box)
        norms = np.full(self.padded, FAR)
        norms[:k] = (
            0.0
            if d <= NARROW
            else (seen[:k].astype(np.float32).astype(np.float64) ** 2).sum(axis=1)
        )
        self.norms = self.sent(norms)
        self.turned = self._halves(-2.0 * seen.T)
        seen[k:] = FAR**0.5 / 10
        self.centers = self.sent(seen)
        self.across = self.sent(np.ascontiguousarray(seen.T))
        self.about = torch.zeros((4, self.padded), device=self._device)
        self.axes = self.seeds = self.box
        self.nest = torch.zeros(1, dtype=torch.int32, device=self._device)
        self.labels = self.nest
        self.most_inside = 0
        self.cells = k
        self.totals = torch.zeros(2, dtype=torch.float64, device=self._device)
        self.slabs = torch.zeros(
            3 * self.padded, dtype=torch.int32, device=self._device
        )
        self._summed: list[Any] = []

    def sent(self, values: Floats) -> Any:
        """Return numbers as float32 beside the rows."""
        return torch.from_numpy(values.astype(np.float32)).to(self._device)

    def _halves(self, values: Floats) -> Any:
        whole = self.sent(np.ascontiguousarray(values))
        upper = whole.half()
        return torch.stack([upper, (whole - upper.float()).half()]).contiguous()

    def along(self, axes: Any) -> None:
        """Count slabs along these axes; the kernel has them twice as long, from -1."""
        along = np.zeros((self.wide, self.padded))
        along[: self.d, : self.k] = 2.0 * axes.along.T
        self.axes = self._halves(along)
        starts = np.full(self.padded, 1e6)
        starts[: self.k] = 2.0 * (axes.starts + axes.along @ self.middle) - 1.0
        partners = np.full(self.padded, -1.0)
        partners[: self.k] = axes.partners
        self.about[2], self.about[3] = self.sent(starts), self.sent(partners)

    def inside(self, groups: Ints, finer: Nest) -> None:
        """Have rows go to the nearest of the finer seeds of their group."""
        parents = np.arange(int(groups.max()) + 1)
        starts = np.searchsorted(finer.parents, parents)
        ends = np.searchsorted(finer.parents, parents, side="right")
        nest = np.zeros((3, self.padded), dtype=np.int32)
        nest[0, : self.k] = groups
        nest[1, : parents.size], nest[2, : parents.size] = starts, ends
        self.nest = torch.from_numpy(nest).to(self._device)
        self.most_inside = int((ends - starts).max())
        self.cells = len(finer.seeds)
        seen = np.zeros((self.cells, self.wide))
        seen[:, : self.d] = finer.seeds - self.middle
        self.seeds = self.sent(seen)

    def run(self, **asked: Any) -> None:
        """Go through all rows, as many at a time as one launch may count."""
        flags: dict[str, Any] = {
            "SCORE": 0, "SLABS": False, "NESTED": False, "SQUARES": False,
            "LABELS": False, "SUMS": True, **asked,
        }  # fmt: skip
        n_cells = max(self.cells, self.padded)
        width = self.d * (2 if flags["SQUARES"] else 1) + 2
        copies = max(1, min(MOST_COPIES, SPREAD // (n_cells * width)))
        tiles = MOST_TILES_OF_SLABS if flags["SLABS"] else MOST_TILES
        for rows, start in self._launches(copies, tiles):
            sums = torch.zeros(copies * n_cells * width, device=self._device)
            ends = np.cumsum([1, 1, self.d, width - 2 - self.d]) * copies * n_cells
            counts, seconds, firsts, squares = (
                sums[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)
            )
            squares = squares if flags["SQUARES"] else firsts
            self._launch(rows, start, counts, firsts, seconds, squares, copies, flags)
            each = (counts, firsts, seconds, squares)
            whole = [part.view(copies, n_cells, -1).double().sum(0) for part in each]
            table = torch.cat(whole, dim=1).cpu().numpy()
            widths = np.cumsum([part.shape[1] for part in whole])[:-1]
            self._summed.append(np.split(table, widths, axis=1))

    def _launches(self, copies: int, tiles: int) -> Iterator[tuple[Any, int]]:
        rows = self._passes.values
        # A copy counts in float32, too.
        step = min(self._cut.block * self._programs() * tiles, copies << 22)
        for start in range(0, rows.shape[0], step):
            yield rows[start : start + step], start

    def _programs(self) -> int:
        return _processors(self._passes.values) * self._cut.per_sm

    def _launch(
        self, rows: Any, start: int, counts: Any, firsts: Any, seconds: Any,
        squares: Any, copies: int, flags: dict[str, Any],
    ) -> None:  # fmt: skip
        cut, n = self._cut, rows.shape[0]
        n_blocks = self.padded // (cut.strips * cut.strip)
        grid = (min(self._programs(), triton.cdiv(n, cut.block)),)
        labels = self.labels[start:] if flags["LABELS"] else self.labels
        with torch.cuda.device(self._device):
            pass_kernel[grid](
                rows, n, rows.stride(0), self.box, self.centers, self.across,
                self.turned, self.norms, self.about, self.axes, self.nest, self.seeds,
                counts, firsts, seconds, squares, self.totals, self.slabs, labels,
                n_blocks, self.most_inside, copies,
                D=self.d, DP=self.wide, KP=self.padded, BLOCK=cut.block,
                STRIP=cut.strip, STRIPS=cut.strips, PIECE=PIECE,
                MASK=triton.next_power_of_2(n_blocks) - 1,
                N_CELLS=max(self.cells, self.padded),
                STAGES=cut.stages, num_warps=cut.warps, num_stages=1,
                maxnreg=cut.registers, **flags,
            )  # fmt: skip

    def sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds and squares of all launches, in float64."""
        if not self._summed:
            nothing = np.zeros((self.cells, self.d))
            return nothing[:, 0], nothing, nothing[:, 0], nothing
        counts, firsts, seconds, squares = (
            sum(each)[: self.cells] for each in zip(*self._summed, strict=True)
        )
        return counts[:, 0], firsts, seconds[:, 0], squares


def _close(axes: Any) -> bool:
    """Whether two centres are too near to each other for float16 axes."""
    if axes is None:
        return False
    used = axes.starts < 1e6
    lengths = (axes.along[used] ** 2).sum(axis=1)
    return bool((lengths > 1.0 / LEAST_APART).any())


def _processors(values: Any) -> int:
    return torch.cuda.get_device_properties(values.device).multi_processor_count
