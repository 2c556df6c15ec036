# SPDX-License-Identifier: Apache-2.0
"""How rows are cut, wherever they are kept, so that sums over them have the same bits.

The kernels add up blocks in order; what reads rows reads whole blocks at a time.
"""

from __future__ import annotations

#: Rows whose sums the kernels form together, before blocks are added in order.
BLOCK = 4096
#: Numbers in a part of a table: 16 MB of them.
PART = 1 << 21


def rows_in_a_part(n_features: int) -> int:
    """Return how many rows a part holds: a multiple of the kernels' block."""
    return max(1, PART // (BLOCK * max(1, n_features))) * BLOCK
