# SPDX-License-Identifier: Apache-2.0
"""What is done where the rows of a cluster are: one partition, numbers out.

Nothing here knows the engine, only what its partitions are: arrays or pandas frames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.core.rows import TableRows
from afcl.data.tables import Words, row_words
from afcl.exceptions import InputError
from afcl.parts import rows_in_a_part
from afcl.scale import Box, Ranges

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DaskPartition:
    """Which partition it is, what its columns are called, how many rows it has."""

    number: int
    names: tuple[Any, ...]
    n_rows: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What is known of a partition once it has been read."""

    ranges: Ranges
    digest: str
    words: Words


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a partition cannot be used: told, since an error would fill workers' logs."""

    words: str


#: What is done where the rows are.
Work: TypeAlias = Callable[[Floats, DaskPartition], T]


def tried(partition: DaskPartition, work: Work[T], held: Any) -> T | Fault:
    """Do the work, or return what is wrong with the partition."""
    try:
        return worked(partition, work, held)
    except InputError as error:
        return Fault(str(error))


def worked(partition: DaskPartition, work: Work[T], held: Any) -> T:
    """Do the work on a partition as the engine holds it."""
    values = _values(held, partition)
    if partition.n_rows not in (None, values.shape[0]):
        raise InputError(
            f"partition {partition.number} had {partition.n_rows} rows and now has "
            f"{values.shape[0]}: persist the collection, so that it stays the same"
        )
    return work(values, partition)


def summary(values: Floats, partition: DaskPartition) -> PartitionSummary:
    """Count and check the rows of a partition."""
    n, d = values.shape
    bad = ~np.isfinite(values).all(axis=0)
    if bad.any():
        name = partition.names[int(bad.argmax())]
        raise InputError(
            f"column {name!r} has missing or infinite values in partition "
            f"{partition.number}: drop or fill them first, e.g. with dropna()"
        )
    low = values.min(axis=0) if n else np.full(d, np.inf)
    high = values.max(axis=0) if n else np.full(d, -np.inf)
    digest = hashlib.sha256(values.data).hexdigest()
    words = row_words(values, [str(name) for name in partition.names])
    return PartitionSummary(Ranges(n, d, low, high), digest, words)


def mapped(
    work: Callable[[Floats], T],
    box: Box,
    places: Ints | None,
    values: Floats,
    partition: DaskPartition,
) -> list[T]:
    """Work on a partition in parts as large as those of a table that is read."""
    if not values.shape[0]:
        return []
    rows = TableRows(values, box, places)
    return list(map(work, rows.parts(rows_in_a_part(rows.shape[1]))))


def taken(
    wanted: Mapping[int, Ints], values: Floats, partition: DaskPartition
) -> Floats:
    """Return the rows that are wanted of this partition, by their places in it."""
    return values[wanted[partition.number]]


def labelled(
    function: Callable[[Floats], Ints],
    box: Box,
    places: Ints | None,
    values: Floats,
    partition: DaskPartition,
) -> Ints:
    """Label the rows of a partition."""
    parts = mapped(function, box, places, values, partition)
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _values(held: Any, partition: DaskPartition) -> Floats:
    """Return a partition as numbers, whatever its columns are stored as."""
    if isinstance(held, np.ndarray) and held.dtype.kind in "biuf":
        return np.ascontiguousarray(held, dtype=np.float64)
    is_array = isinstance(held, np.ndarray)
    values = np.empty((len(held), len(partition.names)))
    for place, name in enumerate(partition.names):
        column = held[:, place] if is_array else held[name]
        try:
            values[:, place] = _numbers(column)
        except (TypeError, ValueError):
            raise InputError(
                f"column {name!r} is not all numbers in partition {partition.number}: "
                "correct it or leave the column out"
            ) from None
    return values


def _numbers(column: Any) -> AnyArray:
    """Return a column as numbers; raises TypeError or ValueError if it is none."""
    if getattr(column.dtype, "kind", "O") in "cmM":
        raise TypeError
    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
