# SPDX-License-Identifier: Apache-2.0
"""How rows are cut: whole blocks, small enough for the cache, one for every core."""

from __future__ import annotations

import pytest

from afcl.parts import BLOCK, PART, rows_in_a_part, rows_in_the_cache


@pytest.mark.parametrize(
    ("features", "cores", "blocks"),
    # 131,072 numbers a core are 32 blocks of one feature and two of sixteen. Of 64
    # there would be half a block for each: one, and with 16 cores no more than the
    # eight that a part has that is read. Of 784 a block is more than such a part.
    [(1, 1, 32), (16, 1, 2), (16, 4, 8), (64, 2, 2), (64, 16, 8), (784, 8, 1)],
)
def test_rows_in_the_cache(features, cores, blocks):
    assert rows_in_the_cache(features, cores) == blocks * BLOCK


def test_rows_in_a_part():
    assert rows_in_a_part(1) == PART
    assert rows_in_a_part(64) == 8 * BLOCK
    assert rows_in_a_part(10_000) == BLOCK
    assert rows_in_a_part(0) == PART
