# SPDX-License-Identifier: Apache-2.0
"""A better level one further up than the path's best: that one, with a cluster split.

Ward's path goes from many seeds down, and the level above its best may lie in another
valley: of two levels that are about as good the path then has now one, now both, by
chance. A split of the best one, polished as levels are, tells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from afcl.core.indices import INDICES, worth
from afcl.core.messages import Cells
from afcl.core.path import level_around
from afcl.core.protocol import PathLevel
from afcl.core.search import halves_of
from afcl.registry import AUTO

#: Levels that are climbed, at most.
STEPS = 3


def climbed(
    bag: Cells,
    levels: Sequence[PathLevel],
    most: int,
    names: Collection[str] = INDICES,
) -> tuple[PathLevel, ...]:
    """Return the path, with splits of its best level where these are better still.

    Better by the silhouette less its price (:func:`~afcl.core.indices.worth`).

    Parameters
    ----------
    bag
        The cells that the path was made of.
    levels
        The path.
    most
        The largest k.
    names
        The indices that its levels have.
    """
    path = {level.k: level for level in levels}
    if not path:
        return ()
    best = levels[int(np.argmax(worth(levels, AUTO)))]
    for _ in range(STEPS):
        halved = halves_of(bag, best.centers) if best.k < most else ()
        tried = [level_around(bag, centers, names) for centers in halved]
        # Polishing may have emptied a half.
        finer = [level for level in tried if level is not None and level.k > best.k]
        first = int(worth([best, *finer], AUTO).argmax())
        if first == 0:
            break
        best = replace(finer[first - 1], split=True)
        path[best.k] = best
    return tuple(path[k] for k in sorted(path))
