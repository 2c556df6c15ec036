# SPDX-License-Identifier: Apache-2.0
"""Which levels the clients are asked about."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.rebuild import _next_peak


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (set(), [1]),  # .9 is the highest
        ({1}, [4]),  # then .8, above .2 and .7; not .7 itself
        ({1, 4}, [6]),  # the last has one neighbour only
        ({1, 4, 6}, []),
    ],
)
def test_the_next_peak_by_hand(kept, found):
    good = np.array([0.1, 0.9, 0.3, 0.2, 0.8, 0.5, 0.6])
    assert _next_peak(good, kept) == found


def test_no_level_of_a_plateau_is_a_peak():
    assert _next_peak(np.array([0.5, 0.5, 0.1]), set()) == []
