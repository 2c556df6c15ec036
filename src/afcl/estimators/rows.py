# SPDX-License-Identifier: Apache-2.0
"""Whose rows are whose, which count, and how gaps in new ones are bridged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from afcl._typing import Bools, Floats, Ints
from afcl.exceptions import InputError
from afcl.gaps import KEEPING, completed, has_gaps


def owners_of(clients: ArrayLike | None, n: int) -> tuple[Ints, list[str]]:
    """Return every row's owner as a number, and the owners' sorted names."""
    if clients is None:
        return np.zeros(n, dtype=np.int64), ["0"]
    owners = np.asarray(clients)
    if owners.shape != (n,):
        raise InputError(
            f"clients must name the owner of each of the {n} rows, "
            f"it has shape {owners.shape}"
        )
    lacking = np.array([cell is None or cell != cell for cell in owners.tolist()])
    if owners.dtype.kind in "Of" and lacking.any():
        raise InputError(
            f"clients names no owner of row {int(lacking.argmax()) + 1}: fill it in, "
            "or leave such rows out"
        )
    try:
        names, owner = np.unique(owners, return_inverse=True)
    except TypeError:
        raise InputError(
            "clients has owners of different types, such as numbers and texts: use one"
        ) from None
    return owner.astype(np.int64), [str(name) for name in names]


def by_owner(owner: Ints, owners: int) -> tuple[Ints, Ints]:
    """Return all rows' numbers, owner by owner, and where all but the last end."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=owners))[:-1]
    return order, ends


def rows_at(rows: Floats, index: Ints) -> Floats:
    """Return these rows, without a copy if they lie one after the other."""
    first, last = (index[0], index[-1]) if index.size else (0, -1)
    if last - first + 1 == index.size:
        return rows[first : last + 1]
    return rows[index]


def kept_rows(rows: Floats, missing: str) -> Bools:
    """Return which rows count, by what is done about missing values."""
    if missing == "drop":
        return np.asarray(~np.isnan(rows).any(axis=1), dtype=np.bool_)
    if missing in KEEPING:
        return np.asarray(~np.isnan(rows).all(axis=1), dtype=np.bool_)
    return np.ones(rows.shape[0], dtype=np.bool_)


def without_gaps(scaled: Floats, centers: Floats | None) -> Floats:
    """Return rows without gaps, by the centre nearest in what each has."""
    if not has_gaps(scaled):
        return scaled
    if centers is None:
        raise InputError("rows with gaps cannot be labelled: there are no centres")
    return completed(scaled, centers)


def seed_of(random_state: Any) -> int:
    """Use an integer as it is; draw one from anything else."""
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError("random_state must not be negative")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
