# SPDX-License-Identifier: Apache-2.0
"""Tables that are arrays on a device (PyTorch, CuPy, JAX): clients work on them there.

See docs/how-to/gpu.md, and decision 0044 for why it is cut like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Ints
from afcl.core.array_rows import ArrayRows
from afcl.exceptions import InputError
from afcl.kernels.arrays import PRECISIONS, ArrayPasses, in_one_line
from afcl.runtime.simulate import LABEL, LabelParts, Outcome
from afcl.scale import Box, Ranges

#: What DLPack calls main memory.
MAIN_MEMORY = 1
#: Where rows stay by default: where they are.
AUTO = "auto"


class ArrayTable:
    """A client's table on a device, which is neither copied nor changed.

    Parameters
    ----------
    values : array of shape (n, d)
        float32 or float64, of a library that follows the array API standard.
    name : str
        What it is called in a message.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and of columns.
    columns : tuple of str
        Empty: they are numbered.

    Raises
    ------
    InputError
        If it is no table, of another type, or holds values that are not finite.

    Examples
    --------
    >>> table = ArrayTable(np.arange(6.0).reshape(3, 2))
    >>> table.shape, table.ranges().high.tolist()
    ((3, 2), [4.0, 5.0])
    """

    #: The rows are never gathered in main memory, nor are labels.
    streamed = True
    #: Rows have no names beside their place.
    ids = None
    columns: tuple[str, ...] = ()

    def __init__(self, values: Any, name: str = "the table") -> None:
        if hasattr(values, "detach"):
            values = values.detach()
        self.values = values
        if len(values.shape) != 2:
            raise InputError(
                f"{name} has {len(values.shape)} dimensions: a table has two, rows "
                "and columns"
            )
        kind = str(values.dtype).rpartition(".")[2]
        if kind not in PRECISIONS:
            raise InputError(
                f"{name} holds {kind}: rows on a device must be float32 or float64"
            )
        self.shape = (int(values.shape[0]), int(values.shape[1]))
        with in_one_line():
            self.low, self.high = self._passes().extremes()
        if not np.isfinite([self.low, self.high]).all():
            raise InputError(
                f"{name} holds values that are missing or infinite: leave such rows "
                "out before they are moved to the device"
            )

    def _passes(self, box: Box | None = None, places: Ints | None = None) -> Any:
        if type(self.values).__module__.partition(".")[0] != "torch":
            return ArrayPasses(self.values, box, places)
        from afcl.kernels.gpu import passes_for

        known = (self.low, self.high) if hasattr(self, "low") else None
        return passes_for(self.values, box, places, known)

    @property
    def rows(self) -> ArrayTable:
        """What a client works on."""
        return self

    def ranges(self, extremes: bool = True) -> Ranges:
        """Return what the client says of its rows for the agreement."""
        ranges = Ranges(*self.shape, self.low, self.high)
        return ranges if extremes else ranges.without_extremes()

    def within(self, box: Box, places: Ints | None = None) -> ArrayRows:
        """Return the rows in agreed columns (None: all) and units."""
        return ArrayRows(self._passes(box, places))


def is_elsewhere(table: Any) -> bool:
    """Whether a table is an array that is not in main memory."""
    if isinstance(table, np.ndarray) or not hasattr(table, "__dlpack_device__"):
        return False
    return int(table.__dlpack_device__()[0]) != MAIN_MEMORY


def in_place(tables: Sequence[Any]) -> list[Any]:
    """Return tables, those on a device as what clients work on there.

    Refused are tables of which some are on another device than the others.
    """
    if not any(is_elsewhere(table) for table in tables):
        return list(tables)
    devices = {_device(table) for table in tables}
    if len(devices) > 1:
        raise InputError(
            f"the tables are on {' and '.join(sorted(devices))}: move them to one "
            "device"
        )
    return [ArrayTable(table, f"table {i}") for i, table in enumerate(tables, 1)]


def _device(table: Any) -> str:
    return str(table.device) if is_elsewhere(table) else "the CPU"


def moved(tables: Sequence[Any], device: str) -> list[Any]:
    """Return tables in main memory on a device, moved once; by default as they are."""
    if device == AUTO:
        return list(tables)
    from afcl.kernels.gpu import moved as move

    found: list[Any] = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, np.ndarray) and table.shape[0]:
            with in_one_line():
                table = move(np.ascontiguousarray(table), device)
            found.append(ArrayTable(table, f"table {number}"))
        elif isinstance(table, np.ndarray | ArrayTable):
            found.append(table)
        else:
            raise InputError(
                f"table {number} is read part by part and cannot be moved to "
                f"{device}: read it into memory (--no-stream), or leave out the device"
            )
    return found


def check_device(tables: Sequence[Any], device: str) -> None:
    """Refuse a device that is not there, or tables that cannot be moved to one."""
    if device == AUTO:
        return
    for table in tables:
        if getattr(table, "streamed", False):
            moved([table], device)
    moved([np.zeros((1, 1))], device)


def brought_back(outcome: Outcome) -> Outcome:
    """Return the outcome with all labels in main memory, as of tables that are."""
    labels = tuple(_as_array(each) for each in outcome.labels)
    joined = np.concatenate([np.empty(0, dtype=LABEL), *labels])
    return replace(outcome, labels=labels, joined_labels=joined)


def _as_array(labels: Any) -> Ints:
    if not isinstance(labels, LabelParts):
        own: Ints = labels
        return own
    values: Ints = np.concatenate(list(labels)).astype(LABEL, copy=False)
    return values
