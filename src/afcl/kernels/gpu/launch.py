# SPDX-License-Identifier: Apache-2.0
"""One launch of the fused kernel: what it is given, how it is cut, what comes back.

What a launch reads goes to the device in one copy and what it adds up comes back in
one, and nothing waits in between: while the card reads rows, the next launch is
prepared.
"""
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.arrays import Nest
from afcl.kernels.gpu.fused import pass_kernel
from afcl.scale import NARROW

#: Tiles that one program takes in a launch, at most: silhouettes are added up in 31
#: bits, multiples of 2^-20.
MOST_TILES = 2000
#: And if it counts slabs: ten bits for each.
MOST_TILES_OF_SLABS = 1000
#: Numbers of float32 that sums may be spread over.
SPREAD = 1 << 21
#: Copies of the sums, at most.
MOST_COPIES = 4096
#: Farther than any row; padding.
FAR = 1e30
#: Bytes of centres that stay beside a processor during a launch (two programs share
#: one), and blocks that they are in (each is code of its own), at most.
RESIDENT, RESIDENT_BLOCKS = 112_000, 8
#: What lengths of centres are sums of in float16: multiples of these, and of the last
#: for padding, which is farther than any row.
WEIGHTS = (2.0**11, 1.0, 2.0**-11, 2.0**15)


class Shape(NamedTuple):
    """How a launch is cut.

    Attributes
    ----------
    block
        Rows of a tile, 16 or more a warp.
    strip, strips
        Centres of a strip, and strips of a block.
    warps, per_sm
        Of a program; programs of a processor.
    stages
        Blocks of centres that are on their way while one is compared.
    registers
        Of a lane, at most.
    resident
        Whether all centres stay beside the processor.
    """

    block: int
    strip: int
    strips: int
    warps: int
    per_sm: int
    stages: int = 1
    registers: int | None = None
    resident: bool = False

    def blocks(self, k: int) -> int:
        """Return how many blocks so many centres are."""
        return -(-k // (self.strips * self.strip))

    def fits(self, k: int, d: int) -> bool:
        """Whether so many centres can stay beside a processor."""
        n_blocks = self.blocks(k)
        size = (4 * padded_width(d) + 32) * n_blocks * self.strips * self.strip
        return size <= RESIDENT and n_blocks <= RESIDENT_BLOCKS


def shape_for(k: int, d: int, slabs: bool) -> Shape:
    """Return how the kernel is cut, as measured (docs/results/gpu.md).

    Programs of one warp never wait for another warp, and as many are launched as run at
    once. Many centres need four: only these have the wide products of newer cards.
    """
    if slabs and k > 32:
        return Shape(64, triton.next_power_of_2(-(-k // 2)), 2, 4, 8)
    if k <= 32:
        strip = 8 if k <= 16 else 16
        return Shape(32, strip, 2, 1, 16, 1, 128) if d <= 32 else Shape(16, 16, 2, 1, 8)
    if d <= NARROW:
        return Shape(64, 8, 4, 2, 32)
    if d <= 32:
        cut = Shape(64, 8, 8, 4, 4, 1, 128, resident=True)
        return cut if cut.fits(k, d) else Shape(64, 8, 4, 2, 32)
    cut = Shape(64, 16, 4, 4, 2, resident=True)
    return cut if cut.fits(k, d) else Shape(64, 16, 4, 4, 8, 3, 168)


def fetch(asks: Sequence[Launch]) -> None:
    """Bring what launches added up to main memory, all at once."""
    if asks:
        sizes = [ask.found.shape[0] for ask in asks]
        table = torch.cat([ask.found for ask in asks]).cpu().numpy()
        parts = np.split(table, np.cumsum(sizes)[:-1])
        for ask, part in zip(asks, parts, strict=True):
            ask.fetched = part


class Launch:
    """One set of centres that a pass over all rows is made for.

    Parameters
    ----------
    values
        The rows, on the device.
    low, span
        Their agreed map.
    centers
        In agreed units.
    cut
        How the launch is cut.
    """

    def __init__(
        self, values: Any, low: Floats, span: Floats, centers: Floats, cut: Shape
    ) -> None:
        self._values, self._cut = values, cut
        k, d = centers.shape
        self.k, self.d = k, d
        self.wide = padded_width(d)
        self.padded = cut.blocks(k) * cut.strips * cut.strip
        # What is seen from the middle is small; the middle is a float32 in the rows'
        # own units, so that one difference and one product take a row there.
        origin = (low + span * centers.mean(axis=0)).astype(np.float32)
        self.middle = (origin.astype(np.float64) - low) / span
        seen = np.zeros((self.padded, self.wide))
        seen[:k, :d] = centers - self.middle
        box = np.zeros((2, self.wide), dtype=np.float32)
        box[:, :d] = origin, 1.0 / span
        norms = np.full(self.padded, FAR, dtype=np.float32)
        rounded = seen[:k].astype(np.float32).astype(np.float64)
        norms[:k] = 0.0 if d <= NARROW else (rounded**2).sum(axis=1)
        turned = halves(-2.0 * seen.T)
        seen[k:] = FAR**0.5 / 10
        self.cells, self.most_inside = k, 0
        nothing = np.zeros(4, dtype=np.float32)
        self._sent: dict[str, AnyArray] = {
            "box": box,
            "centers": (-seen).astype(np.float32),  # the kernel adds them
            "across": seen.T.astype(np.float32) if d <= NARROW else nothing,
            "turned": turned,
            "norms": norms,
            "about": np.zeros((4, self.padded), dtype=np.float32),
            "axes": nothing,
            "nest": nothing,
            "seeds": nothing,
            "extra": as_products(norms) if cut.resident else turned[:0],
        }
        self._there: Any = None
        self.found: Any = None
        self.fetched: Any = None

    def score(self, spreads: Floats, shares: Floats) -> None:
        """Have rows scored: scatter of clusters, and n / (n - 1) of their rows."""
        self._sent["about"][:2, : self.k] = spreads, shares

    def along(self, axes: Any) -> None:
        """Count slabs along these axes; the kernel has them twice as long, from -1."""
        along = np.zeros((self.wide, self.padded))
        along[: self.d, : self.k] = 2.0 * axes.along.T
        self._sent["axes"] = halves(along)
        about = self._sent["about"]
        about[2], about[3] = 1e6, -1.0
        about[2, : self.k] = 2.0 * (axes.starts + axes.along @ self.middle) - 1.0
        about[3, : self.k] = axes.partners

    def inside(self, groups: Ints, finer: Nest) -> None:
        """Have rows go to the nearest of the finer seeds of their group."""
        parents = np.arange(int(groups.max()) + 1)
        starts = np.searchsorted(finer.parents, parents)
        ends = np.searchsorted(finer.parents, parents, side="right")
        nest = np.zeros((3, self.padded), dtype=np.int32)
        nest[0, : self.k] = groups
        nest[1, : parents.size], nest[2, : parents.size] = starts, ends
        self.most_inside = int((ends - starts).max())
        self.cells = len(finer.seeds)
        seeds = np.zeros((self.cells, self.wide), dtype=np.float32)
        seeds[:, : self.d] = self.middle - finer.seeds
        self._sent["nest"], self._sent["seeds"] = nest, seeds

    def run(self, labels: Any = None, **asked: Any) -> None:
        """Launch a pass over all rows, as many at a time as one launch may count."""
        flags: dict[str, Any] = {
            "SCORE": 0, "SLABS": False, "NESTED": False, "SQUARES": False,
            "LABELS": False, "SUMS": 2, **asked,
        }  # fmt: skip
        if self._there is None:
            self._there = sent(self._sent, self._values.device)
        n_cells = self._n_cells()
        width = self.d * (2 if flags["SQUARES"] else 1) + 2
        copies = max(1, min(MOST_COPIES, SPREAD // (n_cells * width)))
        most = MOST_TILES_OF_SLABS if flags["SLABS"] else MOST_TILES
        self.found = self.fetched = None
        for rows, start in self._launches(copies, most):
            # Sums, two totals of float64, slabs; in one piece, which is emptied once.
            ends = np.cumsum([copies * n_cells * width, 4, 3 * self.padded])
            room = torch.zeros(int(ends[-1]), device=self._values.device)
            sums, totals, slabs = room.tensor_split(ends[:-1].tolist())
            totals, slabs = totals.view(torch.float64), slabs.view(torch.int32)
            part = labels[start:] if flags["LABELS"] else slabs
            self._launch(rows, (sums, totals, slabs, part), copies, width, flags)
            summed = sums.view(copies, -1).sum(0, dtype=torch.float64)
            found = torch.cat([summed, totals, slabs.double()])
            self.found = found if self.found is None else self.found + found

    def _n_cells(self) -> int:
        """Return the cells that are added up in, in fours: sums are written so."""
        return -(-max(self.cells, self.padded) // 4) * 4

    def _launches(self, copies: int, tiles: int) -> Iterator[tuple[Any, int]]:
        rows = self._values
        # A copy counts in float32, too.
        step = min(self._cut.block * self._programs() * tiles, copies << 22)
        for start in range(0, max(rows.shape[0], 1), step):
            yield rows[start : start + step], start

    def _programs(self) -> int:
        return processors(self._values) * self._cut.per_sm

    def _launch(
        self, rows: Any, filled: tuple[Any, ...], copies: int, width: int,
        flags: dict[str, Any],
    ) -> None:  # fmt: skip
        cut, n, there = self._cut, rows.shape[0], self._there
        n_blocks = cut.blocks(self.k)
        grid = (max(1, min(self._programs(), triton.cdiv(n, cut.block))),)
        with torch.cuda.device(self._values.device):
            pass_kernel[grid](
                rows, n, rows.stride(0), *there.values(), *filled,
                n_blocks, self.most_inside, copies, 1,
                D=self.d, DP=self.wide, KP=self.padded, BLOCK=cut.block,
                STRIP=cut.strip, STRIPS=cut.strips, WIDTH=width,
                RESIDENT=n_blocks if cut.resident else 0,
                MASK=triton.next_power_of_2(n_blocks) - 1,
                N_CELLS=self._n_cells(), WARPS=cut.warps,
                STAGES=cut.stages, num_warps=cut.warps, num_stages=1,
                maxnreg=cut.registers, **flags,
            )  # fmt: skip

    def sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds and squares of all launches, in float64."""
        if self.fetched is None:
            fetch([self])
        n_cells, d = self._n_cells(), self.d
        summed = self.fetched[: -2 - 3 * self.padded]
        counts, seconds = summed[: 2 * n_cells].reshape(2, n_cells)[:, : self.cells]
        tables = summed[2 * n_cells :].reshape(-1, n_cells, d)[:, : self.cells]
        return counts, tables[0], seconds, tables[-1]

    def totals(self) -> Floats:
        """Return both silhouettes, added up over rows."""
        if self.fetched is None:
            fetch([self])
        return self.fetched[-2 - 3 * self.padded :][:2]

    def tally(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return counts, firsts, seconds, slabs and totals."""
        counts, firsts, seconds, _ = self.sums()
        slabs = self.fetched[-3 * self.padded :].reshape(-1, 3)[: self.k]
        return counts, firsts, seconds, slabs, self.totals()


def halves(values: Floats) -> AnyArray:
    """Return columns by centres as two float16 parts, columns as a product has them."""
    order = np.arange(values.shape[0]).reshape(-1, 4, 2, 2).transpose(0, 2, 1, 3)
    whole = values[order.ravel()].astype(np.float32)
    upper = whole.astype(np.float16)
    return np.stack([upper, (whole - upper).astype(np.float16)])


def as_products(lengths: AnyArray) -> AnyArray:
    """Return numbers as 16 float16 parts that WEIGHTS make whole, and the weights."""
    parts = np.zeros((16, lengths.shape[0]), dtype=np.float16)
    padding = lengths >= FAR
    rest = np.where(padding, 0.0, lengths.astype(np.float64))
    for part, weight in zip(parts, WEIGHTS[:3], strict=False):
        part[:] = rest / weight
        rest = rest - part.astype(np.float64) * weight
    parts[3] = np.where(padding, np.finfo(np.float16).max, 0.0)
    weights = np.zeros(16, dtype=np.float16)
    weights[: len(WEIGHTS)] = WEIGHTS
    return np.concatenate([parts.ravel(), weights])


def sent(arrays: dict[str, AnyArray], device: Any) -> dict[str, Any]:
    """Return arrays on a device, by one copy that nothing waits for."""
    places, at = {}, 0
    for name, values in arrays.items():
        places[name] = at
        at += -(-values.nbytes // 16) * 16
    bytes_here = np.zeros(at, dtype=np.uint8)
    for name, values in arrays.items():
        start = places[name]
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        bytes_here[start : start + values.nbytes] = flat
    there = torch.from_numpy(bytes_here).to(device, non_blocking=True)
    return {
        name: there[places[name] : places[name] + values.nbytes].view(
            getattr(torch, values.dtype.name)
        )
        for name, values in arrays.items()
    }


def padded_width(d: int) -> int:
    """Return how many columns the kernel has of a row: a power of two."""
    return max(16, triton.next_power_of_2(d))


def processors(values: Any) -> int:
    """Return how many processors the device of an array has."""
    return torch.cuda.get_device_properties(values.device).multi_processor_count
