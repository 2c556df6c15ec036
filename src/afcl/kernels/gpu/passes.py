# SPDX-License-Identifier: Apache-2.0
"""The fused kernel behind the passes of rows that are CUDA tensors of float32."""
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton

from afcl._typing import Floats, Ints
from afcl.kernels.arrays import ArrayPasses, Nest, slab_axes
from afcl.kernels.gpu.extremes import extremes_kernel
from afcl.kernels.gpu.launch import Launch, Shape, fetch, processors, shape_for
from afcl.kernels.gpu.plus_plus import plus_plus_kernel
from afcl.kernels.reference import Tally
from afcl.scale import Box

#: Widest tables that the fused kernel takes.
WIDEST = 128
#: Most centres of one set that it takes.
MOST = 1024
#: Most seeds inside the groups of others.
MOST_INSIDE = 1 << 15
#: Most centres of a set that is scored with slabs.
MOST_SCORED = 128
#: Rows in agreed units reach no further: their parts are float16.
REACH = 1000.0
#: Least squared distance of centres that slabs are counted between, likewise.
LEAST_APART = 1e-7
#: Numbers of a chunk of the sample of k-means++.
PICKED = 1 << 12
#: Programs that share the chunks: fewer than any such card has processors, because they
#: wait for each other.
PICKERS = 32


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
        self._known = known
        self._near = self._is_near(*self.extremes())

    def _is_near(self, low: Floats, high: Floats) -> bool:
        """Whether all rows fit into float16 in agreed units."""
        reach = np.maximum(np.abs(low - self._low), np.abs(high - self._low))
        return bool((reach / self._span <= REACH).all())

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the least and the largest value of every column; NaN if one is."""
        if self._known is None:
            self._known = self._read_extremes()
        return self._known

    def _read_extremes(self) -> tuple[Floats, Floats]:
        n, d = self.shape
        wide = max(1, triton.next_power_of_2(d))
        programs = processors(self.values) * 8
        found = torch.empty(
            (2, programs, wide), dtype=torch.float32, device=self.values.device
        )
        block = max(16, 4096 // wide)
        with torch.cuda.device(self.values.device):
            extremes_kernel[(programs,)](
                self.values, n, self.values.stride(0), found, d, wide, block
            )
        low, high = found[0, :, :d].amin(0), found[1, :, :d].amax(0)
        low, high = torch.stack([low, high]).cpu().numpy()
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

    def tally(
        self,
        centers: Floats,
        bounds: Ints,
        scores: Ints,
        spreads: Floats,
        sizes: Floats,
    ) -> Tally:
        """Return what :func:`reference.tally` does; all sets are under way at once."""
        ends = zip(bounds[:-1], bounds[1:], strict=True)
        sets = [(centers[a:b], spreads[a:b], sizes[a:b]) for a, b in ends]
        levels = scores.tolist()
        begun = [self._begun(*one, at) for one, at in zip(sets, levels, strict=True)]
        fetch([ask for ask in begun if ask is not None])
        found = [
            super(FusedPasses, self).tally_set(*one, at) if ask is None else ask.tally()
            for ask, one, at in zip(begun, sets, levels, strict=True)
        ]
        counts, firsts, seconds, slabs, totals = zip(*found, strict=True)
        summed = (np.concatenate(each) for each in (counts, firsts, seconds))
        return *summed, np.array(totals), np.concatenate(slabs)

    def tally_set(
        self, centers: Floats, spreads: Floats, sizes: Floats, score: int
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds, slabs and totals of one set of centres."""
        ask = self._begun(centers, spreads, sizes, score)
        if ask is None:
            return super().tally_set(centers, spreads, sizes, score)
        return ask.tally()

    def _begun(
        self, centers: Floats, spreads: Floats, sizes: Floats, score: int
    ) -> Launch | None:
        """Launch a pass for one set of centres; None where the kernel cannot."""
        slabs = score > 1
        axes = slab_axes(centers) if slabs else None
        most = MOST_SCORED if slabs else MOST
        if not self._near or centers.shape[0] > most or _close(axes):
            return None
        ask = self.asked(centers, spreads, sizes, axes)
        ask.run(SCORE=score, SLABS=slabs)
        return ask

    def asked(
        self, centers: Floats, spreads: Floats, sizes: Floats, axes: Any = None
    ) -> Launch:
        """Return a launch that can score these centres, with slabs along axes."""
        k, d = centers.shape
        ask = self._ask(centers, shape_for(k, d, axes is not None))
        others = np.where(sizes > 1, sizes - 1.0, 1.0)
        ask.score(spreads, np.where(sizes > 1, sizes / others, 0.0))
        if axes is not None:
            ask.along(axes)
        return ask

    def _ask(self, centers: Floats, cut: Shape) -> Launch:
        return Launch(self.values, self._low, self._span, centers, cut)

    def nested(self, nests: Sequence[Nest]) -> tuple[Floats, Floats, Floats]:
        """Return counts, sums of x - s and of its squares by seed of the last nest."""
        first, last = nests[0], nests[-1]
        k, d = first.seeds.shape
        many = k > MOST or len(last.seeds) > MOST_INSIDE
        if not self._near or len(nests) > 2 or many:
            return super().nested(nests)
        ask = self._ask(first.seeds, shape_for(k, d, False))
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
        ask = self._ask(centers, shape_for(k, d, False))
        labels = torch.empty(n, dtype=torch.int32, device=self.values.device)
        ask.run(labels, LABELS=True, SUMS=1)
        return labels, np.rint(ask.sums()[0]).astype(np.int64)

    def renamed(self, labels: Any, names: Ints) -> Any:
        """Return labels by other names, in place."""
        new = torch.from_numpy(names.astype(np.int32)).to(labels.device)
        for start in range(0, labels.shape[0], 1 << 24):
            part = labels[start : start + (1 << 24)]
            part.copy_(new[part])
        return labels


def _close(axes: Any) -> bool:
    """Whether two centres are too near to each other for float16 axes."""
    if axes is None:
        return False
    used = axes.starts < 1e6
    lengths = (axes.along[used] ** 2).sum(axis=1)
    return bool((lengths > 1.0 / LEAST_APART).any())
