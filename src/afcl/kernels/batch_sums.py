# SPDX-License-Identifier: Apache-2.0
"""Groups of rows, for many clients in one call, compiled.

Rows lie one after the other as in :mod:`.batches`. The oracle is
:mod:`privacy.grouping`, in a loop.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels import native
from afcl.kernels.compiling import compiled

_compiled = compiled(error_model="numpy")
#: Spans that are not larger than this cannot be divided by.
_TINY = float(np.finfo(np.float64).tiny)


@_compiled
def group(
    rows: Floats, offsets: Ints, clients: Ints, smallest: int
) -> tuple[Ints, Ints]:
    """Group every client's rows by MDAV on standardised columns.

    Returned are labels for the rows of `clients`, one client after the other; groups
    are numbered on from client to client; and the number of each client's first group.
    """
    total = 0
    for client in clients:
        total += offsets[client + 1] - offsets[client]
    labels = np.empty(total, dtype=np.int64)
    firsts = np.empty(clients.shape[0], dtype=np.int64)
    at = 0
    groups = 0
    for index in range(clients.shape[0]):
        client = clients[index]
        firsts[index] = groups
        standard = _standardised(rows[offsets[client] : offsets[client + 1]])
        mine = native.microaggregate(standard, smallest)
        most = 0
        for row in range(mine.shape[0]):
            labels[at] = groups + mine[row]
            most = max(most, mine[row])
            at += 1
        groups += most + 1
    return labels, firsts


@_compiled
def _standardised(X: Floats) -> Floats:
    """Columns with deviation 1; a constant one is 0. Halves cannot overflow."""
    n, d = X.shape
    unit = np.zeros((n, d))
    for feature in range(d):
        low = np.inf
        for row in range(n):
            low = min(low, X[row, feature])
        span = -np.inf
        for row in range(n):
            span = max(span, X[row, feature] / 2 - low / 2)
        if not span > max(abs(low) * 1e-15, _TINY):
            continue
        mean = 0.0
        for row in range(n):
            unit[row, feature] = (X[row, feature] / 2 - low / 2) / span
            mean += unit[row, feature]
        mean /= n
        squares = 0.0
        for row in range(n):
            gap = unit[row, feature] - mean
            squares += gap * gap
        deviation = np.sqrt(squares / n)
        for row in range(n):
            unit[row, feature] /= deviation
    return unit
