# SPDX-License-Identifier: Apache-2.0
"""Rows as differences of sums: two cells that hold almost the same rows.

If one cell holds the rows of another and one more, the difference of their sums *is*
that row. A server cannot see which cells hold which rows, but it can check: the
difference of the sums of squares must be the square of the difference of the sums, and
the row must lie where the cells say. Compared are cells of different messages, of
different levels within one message, and unions of neighbouring cells; per client and
per cohort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.kernels import assign
from afcl.privacy.attacks import FEW, HIGH, LOW, Candidates, Released, columns_of, named

#: What rounding may do to the check, relative to the numbers at hand.
SLACK = 1e-11
#: The same, of large squares that nearly cancel.
ROUGH = 1e-13
#: How coarse scatters are taken to be, one after the other.
COARSER = (0.0, 1e-6, 3e-5, 1e-3)
#: Squares of a difference may be off by so many steps of a grid.
STEPS = 64


@dataclass(frozen=True, slots=True)
class Pile:
    """All different cells of one source as sums, and which bags they come from.

    `bags` is (cells, bags): cells of one bag hold no row together.
    """

    counts: Ints
    sums: Floats
    squares: Floats
    bags: Bools
    releases: tuple[Released, ...]
    first: Ints
    place: Ints


def difference(releases: Sequence[Released]) -> Candidates:
    """Name the rows that tell two cells of one source apart."""
    found = []
    for pile in _piles(releases):
        for more, less in _pairs(pile):
            few = pile.counts[more] - pile.counts[less]
            point = (pile.sums[more] - pile.sums[less]) / few[:, None]
            apart = ~_together(pile, more, less)
            fits = apart & _where(pile, more, point, True)
            fits &= _where(pile, less, point, False)
            found.append((point[fits], few[fits]))
    return named("differences", columns_of(releases), found)


def difference_unions(releases: Sequence[Released]) -> Candidates:
    """Name the rows that tell a cell from the union of other cells within it."""
    found = []
    for pile in _piles(releases):
        found += [_against_unions(pile, bag) for bag in range(pile.bags.shape[1])]
    return named("unions", columns_of(releases), found)


def difference_coarse(releases: Sequence[Released]) -> list[Candidates]:
    """Do both, taking scatters for exact first, then for ever more coarsely rounded.

    Who allows for rounding checks less and guesses more; one list a guess.
    """
    found = []
    for step in COARSER:
        as_if = [replace(each, step=max(each.step, step)) for each in releases]
        found += [difference(as_if), difference_unions(as_if)]
    return found


def subtract_hellos(releases: Sequence[Released]) -> Candidates:
    """Subtract from a cohort's cells what its members said in their first messages.

    First messages lie on a grid there, so nothing can be checked but the counts.
    """
    found = []
    own = [each for each in releases if len(each.clients) == 1]
    for cohort in (each for each in releases if len(each.clients) > 1):
        first = [each for each in own if each.clients[0] in cohort.clients]
        if not first:
            continue
        counts = np.concatenate([each.cells.counts for each in first])
        means = np.concatenate([each.cells.means for each in first])
        labels, _ = assign(means, cohort.cells.means)
        k = len(cohort.cells)
        held = np.bincount(labels, weights=counts, minlength=k)
        total = cohort.cells.counts[:, None] * cohort.cells.means
        np.subtract.at(total, labels, counts[:, None] * means)
        few = cohort.cells.counts - held
        some = (np.abs(few) >= 1) & (np.abs(few) < FEW)
        found.append((total[some] / few[some, None], np.abs(few[some])))
    return named("cohort less first messages", columns_of(releases), found)


def _piles(releases: Sequence[Released]) -> Iterator[Pile]:
    """Sort what was released by its source; what lies on a coarse grid is left out."""
    sources: dict[tuple[int, ...], list[Released]] = {}
    for each in releases:
        if each.step <= 1e-3:
            sources.setdefault(each.clients, []).append(each)
    for bags in sources.values():
        if len(bags) > 1:
            yield _pile(bags)


def _pile(every: list[Released]) -> Pile:
    counts = np.concatenate([each.cells.counts for each in every])
    means = np.concatenate([each.cells.means for each in every])
    scatters = np.concatenate([each.cells.scatters for each in every])
    sizes = [len(each.cells) for each in every]
    bag = np.repeat(np.arange(len(every)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    keys = np.column_stack([counts, np.rint(np.column_stack([means, scatters]) * 1e10)])
    _, first, same = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    same = same.reshape(-1)
    # Bags that are equal to an earlier one say nothing new.
    seen: dict[bytes, int] = {}
    for number in range(len(every)):
        seen.setdefault(np.sort(same[bag == number]).tobytes(), number)
    kept = sorted(seen.values())
    bags = np.zeros((first.shape[0], len(kept)), dtype=np.bool_)
    for column, number in enumerate(kept):
        bags[same[bag == number], column] = True
    sums = counts[first, None] * means[first]
    squares = scatters[first] + (sums * sums).sum(axis=1) / counts[first]
    return Pile(
        counts[first],
        sums,
        squares,
        bags,
        tuple(every),
        bag[first],
        place[first],
    )


def _slack(pile: Pile, squares: Floats) -> Floats:
    step = max(each.step for each in pile.releases)
    slack: Floats = SLACK * (1 + squares) + STEPS * step
    return slack


def _pairs(pile: Pile) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of cells whose difference may be a few equal rows."""
    order = np.argsort(pile.counts, kind="stable")
    sizes, starts = np.unique(pile.counts[order], return_index=True)
    groups = dict(zip(sizes.tolist(), np.split(order, starts[1:]), strict=True))
    for size, less in groups.items():
        for few in range(1, FEW):
            more = groups.get(size + few)
            if more is None:
                continue
            rows, columns = np.nonzero(_roughly(pile, more, less, few))
            more_, less_ = more[rows], less[columns]
            fits = _few_equal(pile, more_, less_)
            yield more_[fits], less_[fits]


def _roughly(pile: Pile, more: Ints, less: Ints, few: int) -> Bools:
    """Whether a difference has about no scatter, for all pairs at once."""
    sums, other = pile.sums[more], pile.sums[less]
    norms, other_norms = (sums**2).sum(axis=1), (other**2).sum(axis=1)
    gap = pile.squares[more][:, None] - pile.squares[less][None, :]
    apart = norms[:, None] + other_norms[None, :] - 2 * sums @ other.T
    slack = _slack(pile, pile.squares[more]) + ROUGH * norms
    close: Bools = np.abs(gap - apart / few) <= slack[:, None]
    return close


def _few_equal(pile: Pile, more: Ints, less: Ints) -> Bools:
    """Whether a difference is a few equal rows in the box, as exactly as can be."""
    few = pile.counts[more] - pile.counts[less]
    point = (pile.sums[more] - pile.sums[less]) / few[:, None]
    left = pile.squares[more] - pile.squares[less] - few * (point**2).sum(axis=1)
    inside = np.all((point >= LOW) & (point <= HIGH), axis=1)
    fits: Bools = inside & (np.abs(left) <= _slack(pile, pile.squares[more]))
    return fits


def _together(pile: Pile, one: Ints, other: Ints) -> Bools:
    """Whether two cells were said in one bag, and so hold no row together."""
    return np.asarray(np.any(pile.bags[one] & pile.bags[other], axis=1))


def _where(pile: Pile, cells: Ints, points: Floats, inside: bool) -> Bools:
    """Whether points lie in their cells (or outside), where that can be told."""
    fits = np.ones(cells.shape[0], dtype=np.bool_)
    for number in np.unique(pile.first[cells]):
        release = pile.releases[number]
        if release.centers is None or release.owners is None:
            continue
        here = np.flatnonzero(pile.first[cells] == number)
        owner = release.owners[pile.place[cells[here]]]
        nearest, _ = assign(points[here], release.centers)
        fits[here] = (owner < 0) | ((nearest == owner) == inside)
    return fits


def _against_unions(pile: Pile, bag: int) -> tuple[Floats, Ints]:
    """Compare a bag's cells with the unions of every other bag's cells in them."""
    inside = np.flatnonzero(pile.bags[:, bag])
    width = pile.sums.shape[1]
    means = pile.sums / pile.counts[:, None]
    labels, _ = assign(means, means[inside])
    cells, others = np.nonzero(np.delete(pile.bags, bag, axis=1))
    n_bags = pile.bags.shape[1] - 1
    slots = others * inside.shape[0] + labels[cells]
    size = n_bags * inside.shape[0]
    columns = [pile.counts, pile.squares, *pile.sums.T]
    pooled = np.stack(
        [np.bincount(slots, weights=each[cells], minlength=size) for each in columns]
    )
    own = np.tile(np.stack([each[inside] for each in columns]), n_bags)
    gap = own - pooled
    few = np.abs(gap[0])
    some = (few >= 1) & (few < FEW) & (pooled[0] > 0)
    gap, few = gap[:, some] * np.sign(gap[0, some]), few[some]
    point = (gap[2:] / few).T.reshape(-1, width)
    left = gap[1] - few * (point * point).sum(axis=1)
    close = np.abs(left) <= _slack(pile, own[1, some])
    return point[close], few[close].astype(np.int64)
