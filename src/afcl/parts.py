# SPDX-License-Identifier: Apache-2.0
"""How rows are cut, wherever they are kept, so that sums over them have the same bits.

The kernels add up blocks in order; what reads rows reads whole blocks at a time.
"""

from __future__ import annotations

#: Rows whose sums the kernels form together, before blocks are added in order.
BLOCK = 4096
#: Numbers in a part that is read from somewhere else: 16 MB of them.
PART = 1 << 21
#: Numbers in a part of a table in memory, for every core: 1 MB stays in its cache.
CACHED = 1 << 17


def rows_in_a_part(n_features: int) -> int:
    """Return how many rows a part holds that is read from somewhere: whole blocks."""
    return _whole_blocks(PART, n_features)


def rows_in_the_cache(n_features: int, cores: int) -> int:
    """Return how many rows of a table so many cores work on together: whole blocks.

    There is one for every core, unless rows are so wide that parts would be large.
    """
    for_all = min(PART, cores * BLOCK * n_features)
    return _whole_blocks(max(CACHED * cores, for_all), n_features)


def _whole_blocks(numbers: int, n_features: int) -> int:
    return max(1, numbers // (BLOCK * max(1, n_features))) * BLOCK
