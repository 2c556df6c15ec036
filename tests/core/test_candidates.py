# SPDX-License-Identifier: Apache-2.0
"""Which levels the clients are asked about."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.rebuild import _next_peaks


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (set(), [1, 4, 6]),  # .9, .8, and the last, which has one neighbour only
        ({1, 2}, [4, 6]),
        ({1, 4, 6}, []),
    ],
)
def test_the_next_peaks_by_hand(kept, found):
    good = np.array([0.1, 0.9, 0.3, 0.2, 0.8, 0.5, 0.6])
    assert _next_peaks(good, kept) == found


def test_no_level_of_a_plateau_is_a_peak():
    assert _next_peaks(np.array([0.5, 0.5, 0.1]), set()) == []
