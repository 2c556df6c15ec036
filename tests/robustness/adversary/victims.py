# SPDX-License-Identifier: Apache-2.0
"""Three small tables to be attacked, and what attacks on them are worth.

They have the digits of Iris (one decimal), Seeds (two to four decimals, seven columns)
and Transfusion (whole numbers, one column a multiple of another).
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Bools, Floats
from afcl.audit.victims import bounds_of

#: Rows of a site.
ROWS = 40


def iris_like(seed: int, n: int = ROWS) -> Floats:
    """Return measurements in tenths, four columns, three kinds of flowers."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    drawn = rng.normal(kinds[rng.integers(0, 3, n)], (0.5, 0.35, 0.4, 0.2))
    rounded: Floats = np.round(np.maximum(drawn, 0.1), decimals=1).astype(np.float64)
    return rounded


def seeds_like(seed: int, n: int = ROWS) -> Floats:
    """Return seven measurements of two to four decimals, three kinds of kernels."""
    rng = np.random.default_rng(seed)
    kinds = np.array([11.9, 14.4, 18.3])[rng.integers(0, 3, n)]
    areas = rng.normal(kinds, 1.0)
    columns = [
        areas,
        4.0 + 0.68 * areas + rng.normal(0, 0.2, n),
        rng.normal(0.87, 0.02, n),
        2.9 + 0.18 * areas + rng.normal(0, 0.1, n),
        1.4 + 0.12 * areas + rng.normal(0, 0.1, n),
        np.abs(rng.normal(3.5, 1.4, n)),
        2.5 + 0.2 * areas + rng.normal(0, 0.2, n),
    ]
    digits = (2, 2, 4, 3, 3, 3, 3)
    return np.stack(
        [np.round(c, k) for c, k in zip(columns, digits, strict=True)], axis=1
    )


def transfusion_like(seed: int, n: int = ROWS) -> Floats:
    """Return whole numbers: months, donations, their volume, months since the first."""
    rng = np.random.default_rng(seed)
    recency = rng.choice([2, 4, 11, 14, 16, 21, 23], n) + rng.integers(0, 2, n)
    times = 1 + rng.geometric(0.18, n)
    first = recency + np.where(times > 1, rng.integers(2, 75, n), 0)
    return np.stack([recency, times, 250 * times, first], axis=1).astype(np.float64)


#: A site of each kind, by name.
TABLES = {"iris": iris_like, "seeds": seeds_like, "transfusion": transfusion_like}


def share_recovered(points: Floats, rows: Floats, digits: int = 6) -> float:
    """Return the share of rows that some point names, to decimals of their box."""
    return float(_meet(points, rows, digits).any(axis=0).mean())


def share_right(points: Floats, rows: Floats, digits: int = 6) -> float:
    """Return the share of points that are rows."""
    return float(_meet(points, rows, digits).any(axis=1).mean())


def _meet(points: Floats, rows: Floats, digits: int) -> Bools:
    """Return which points name which rows."""
    box = bounds_of(rows)
    named = box.scale(np.reshape(points, (-1, rows.shape[1])))
    gaps = np.abs(named[:, None, :] - box.scale(rows)[None, :, :])
    near: Bools = gaps.max(axis=2) <= 10.0**-digits
    return near
