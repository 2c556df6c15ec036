# SPDX-License-Identifier: Apache-2.0
"""A hello is held to what its client announced before: its rows and its extremes."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.core.checks import check_outsider
from afcl.core.messages import Hello, refuse_unless
from afcl.core.terms import Terms
from afcl.scale import MIDDLE, Box, Ranges


def check_announced_rows(hello: Hello, known: Ranges) -> None:
    """Refuse a hello of more rows than were announced."""
    refuse_unless(
        hello.n_rows <= known.n_rows,
        f"a hello of {hello.n_rows} rows, {known.n_rows} were announced",
    )


def agreed_extremes(known: Ranges, box: Box) -> tuple[Floats, Floats] | None:
    """Return a client's extremes in agreed units, None if it told none.

    Where it has no value, they are those of what stands for it.
    """
    if not known.low.size:
        return None
    typical = box.typical
    if typical is None:
        typical = box.unscale(np.full(box.low.shape, MIDDLE))
    low, high = (
        np.where(np.isnan(each), typical, each) for each in (known.low, known.high)
    )
    return box.reach(low, high)


def check_outside(hello: Hello, known: Ranges | None, terms: Terms) -> None:
    """Refuse who is outside with most of its rows, and some beyond all measure.

    Who holds more than half of all rows is not: the others are outside, rather.
    """
    if not terms.box.walls or known is None or 2 * known.n_rows > terms.n_rows:
        return
    far = terms.box.far_out(known.low, known.high)
    if far.any():
        check_outsider(hello, far)
