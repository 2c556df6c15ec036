# SPDX-License-Identifier: Apache-2.0
"""How often an answer comes out again: what the server heard, resampled.

A resample is what other rows of the same sites might have told: every cell with
another count and another mean, drawn as they would vary. Each gets seeds and a path of
its own; the rule chooses anew. What only rows can tell (valleys, and how far figures
from rows lie from those from cells) is taken over from the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.indices import choose, goodness
from afcl.core.messages import Cells
from afcl.core.path import level_around
from afcl.core.protocol import PathLevel, Scores
from afcl.core.search import likelier
from afcl.registry import INDICES


def resampled(bag: Cells, rng: np.random.Generator) -> Cells:
    """Return the cells with counts and means as other rows would give them.

    A count of o varies by about the root of o, a mean by its cell's spread over that
    root, and what a mean has moved is missing from the scatter around it.
    """
    counts = bag.counts.astype(np.float64)
    # Gamma and not Poisson weights of cells: a cell is many rows, not one (0026).
    drawn = np.rint(rng.gamma(counts)).astype(np.int64)
    drawn[np.argmax(drawn)] = max(1, drawn.max())  # some row there is
    widths = np.sqrt(bag.scatters / bag.means.shape[1]) / counts
    means = bag.means + rng.normal(size=bag.means.shape) * widths[:, None]
    kept = drawn > 0
    # Per row as before, less what the mean has taken along.
    scatters = bag.scatters * (drawn / counts) * (1.0 - 1.0 / counts)
    return Cells(drawn[kept], means[kept], scatters[kept])


@dataclass(frozen=True, slots=True)
class FromRows:
    """What the sites' rows have told of candidates, by k.

    Attributes
    ----------
    shifts
        By how much the scores from rows lie above those from cells.
    usual
        The same for levels that nobody was asked about: the candidates' mean.
    valleys
        As in :class:`PathLevel`.
    """

    shifts: Mapping[int, Scores]
    usual: Scores
    valleys: Mapping[int, Floats]

    @classmethod
    def of(
        cls, levels: Iterable[PathLevel], candidates: Sequence[PathLevel]
    ) -> FromRows:
        """Compare candidates with the levels of the path they began as."""
        by_rows = {level.k: level.scores for level in levels}
        shifts = {
            level.k: _differences(level.scores, by_rows[level.k])
            for level in candidates
            if level.k in by_rows
        }
        usual: Scores = {
            name: float(
                np.mean([shift[name] or 0.0 for shift in shifts.values()] or [0])
            )
            for name in INDICES
        }
        return cls(shifts, usual, {c.k: c.valleys for c in candidates})

    def applied(self, level: PathLevel) -> PathLevel:
        """Return a level of a resample as its rows would have been scored."""
        # Where nobody was asked, as much as for the others: else candidates would win
        # by it.
        shift = self.shifts.get(level.k, self.usual)
        scores: Scores = {
            name: None if value is None else value + (shift[name] or 0.0)
            for name, value in level.scores.items()
        }
        valleys = self.valleys.get(level.k, level.valleys)
        return replace(level, scores=scores, valleys=valleys)


def _differences(rows: Scores, cells: Scores) -> Scores:
    return {name: (rows[name] or 0.0) - (cells[name] or 0.0) for name in INDICES}


def chosen_again(
    path: Sequence[PathLevel], known: FromRows, criterion: str, band: float, most: int
) -> PathLevel:
    """Return the level of a resample that the rule chooses."""
    levels = [known.applied(level) for level in path]
    return levels[choose(levels, criterion, band, most)]


def searched_again(
    path: Sequence[PathLevel], bag: Cells, k: int, most: int
) -> tuple[PathLevel, ...]:
    """Return the path with what a search from its likeliest level finds, if that has k.

    No path of Ward's has what was searched for: without this, such an answer would
    seem never to come back.
    """
    likely = goodness(path, "free_bic")
    begun = path[int(np.argmax(likely))]
    centers = likelier(bag, [begun.centers], most)
    found = None if centers is None else level_around(bag, centers)
    return path_with(path, found) if found is not None and found.k == k else tuple(path)


def path_with(path: Sequence[PathLevel], level: PathLevel) -> tuple[PathLevel, ...]:
    """Return the path with a level in place of its own of the same k."""
    levels = {**{each.k: each for each in path}, level.k: level}
    return tuple(levels[k] for k in sorted(levels))


def recovered(weights: Ints, labels: Ints, others: Ints, k: int) -> Floats:
    """Return how much of every cluster comes back in another clustering into k.

    That is the largest of its Jaccard indices, clusters being sets of weighted things.
    """
    pairs = np.bincount(labels * k + others, weights, minlength=k * k)
    shared = pairs.reshape(k, k)
    united = shared.sum(axis=1)[:, None] + shared.sum(axis=0) - shared
    # The best partner: which number a cluster has in the other answer means nothing.
    found: Floats = (shared / np.maximum(united, 1.0)).max(axis=1)
    return found
