# SPDX-License-Identifier: Apache-2.0
"""One site's rows in memory, and what tells the same rows from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from afcl._typing import Bools, Floats, Ints
from afcl.data.features import Embedding
from afcl.data.ids import Ids, held_ids
from afcl.data.sources import SiteFiles, SiteReader

#: Whole numbers modulo 2^64.
Words: TypeAlias = npt.NDArray[np.uint64]

#: Rows whose bytes are hashed together.
HASHED = 65_536
#: Multipliers of a row's hash, one for each of its four words.
_LANES = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
)


@dataclass(frozen=True, slots=True)
class Table:
    """One site's rows.

    Attributes
    ----------
    name : str
        The site; safe as a file name.
    values : ndarray of shape (n_samples, n_features)
    columns : tuple of str
    path : Path or None
        Where the rows came from.
    kept : ndarray of shape (n_rows_of_the_file,) or None
        Which rows of the file are in the table; None: all.
    notes : tuple of str
        What was left out and why.
    ids : Ids or None
        What the owner calls every row of the file; never sent.
    gaps : mapping from str to int
        Cells of the file's columns that have no value, of all its rows.
    """

    name: str
    values: Floats
    columns: tuple[str, ...]
    path: Path | None
    kept: Bools | None = None
    notes: tuple[str, ...] = ()
    ids: Ids | None = None
    gaps: Mapping[str, int] = field(default_factory=dict)
    streamed: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        n, d = self.values.shape
        return n, d

    @property
    def rows(self) -> Floats:
        """What a client works on: the table."""
        return self.values

    def fingerprint(self) -> str:
        """Return a hash of the rows and the columns' names."""
        return fingerprint(self.values, self.columns)

    def unordered(self) -> str:
        """Return a hash of the rows and columns in whatever order they come."""
        return unordered([self.values], self.columns)

    def in_input_order(self, labels: Ints) -> Ints:
        """Spread the labels over all rows of the file; -1 for those left out."""
        return labels if self.kept is None else in_input_order(labels, self.kept)


def read_table(
    name: str,
    site: SiteFiles,
    columns: Embedding,
    missing: str,
    min_rows: int,
    id_column: str | None = None,
) -> Table:
    """Read one site into memory."""
    reader = SiteReader(site, columns, missing)
    parts, masks = [], []
    for values, kept in reader.parts(streamed=False):
        parts.append(values if kept.all() else values[kept])
        masks.append(kept)
    reader.check(min_rows)
    if not parts:
        parts, masks = [np.empty((0, len(columns.names)))], [np.ones(0, np.bool_)]
    values = parts[0] if len(parts) == 1 else np.concatenate(parts)
    kept, left_out = np.concatenate(masks), tuple(reader.notes())
    ids = None if id_column is None else held_ids(site.files, id_column)
    known = (columns.names, site.path, kept, left_out, ids)
    return Table(name, values, *known, reader.gaps())


def in_input_order(labels: Ints, kept: Bools) -> Ints:
    """Spread the labels of the kept rows over all rows of the file; -1 elsewhere.

    Examples
    --------
    >>> in_input_order(np.array([4, 7]), np.array([True, False, True])).tolist()
    [4, -1, 7]
    """
    spread = np.full(kept.shape[0], -1, dtype=np.int64)
    spread[kept] = labels
    return spread


def fingerprint(values: Floats, columns: Sequence[str] | None) -> str:
    """Return a SHA-256 of the content: equal for equal numbers under equal names.

    Examples
    --------
    >>> fingerprint(np.eye(2), ["a", "b"]) == fingerprint(np.eye(2), ["b", "a"])
    False
    """
    digest = begin_digest(values.shape, columns)
    for start in range(0, values.shape[0], HASHED):
        add_to_digest(digest, values[start : start + HASHED])
    return str(digest.hexdigest())


def unordered(parts: Iterable[Floats], columns: Sequence[str]) -> str:
    """Return a hash that is the same for the same rows and columns in any order.

    It tells the owner of a table whether it is one that was there before, and nobody
    else anything: it stays with the rows. It is not made to withstand its owner.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> unordered([X], ["a", "b"]) == unordered([X[::-1, ::-1]], ["b", "a"])
    True
    >>> unordered([X], ["a", "b"]) == unordered([X[1:]], ["a", "b"])
    False
    """
    total, n = np.zeros(len(_LANES), dtype=np.uint64), 0
    for values in parts:
        for start in range(0, values.shape[0], HASHED):
            total += row_words(values[start : start + HASHED], columns)
        n += values.shape[0]
    return unordered_digest(total, n, columns)


def row_words(values: Floats, columns: Sequence[str]) -> Words:
    """Return the sum of the hashes of rows: four words, which add up over parts."""
    rows = np.asarray(values, dtype=np.float64)[:, _by_name(columns)]
    words = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    each = [_mixed(words, lane).sum(dtype=np.uint64) for lane in _LANES]
    total: Words = np.stack(each)
    return total


def row_hashes(values: Floats) -> Words:
    """Return a word for each row: equal rows have equal words, others hardly ever.

    Examples
    --------
    >>> a, b, c = row_hashes(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    rows = np.asarray(values, dtype=np.float64) + 0.0
    return _mixed(np.ascontiguousarray(rows).view(np.uint64), _LANES[0])


def unordered_digest(total: Words, n: int, columns: Sequence[str]) -> str:
    """Return the hash of so many rows whose words sum up to `total`."""
    names = [columns[i] for i in _by_name(columns)]
    content = json.dumps([n, names, [int(word) for word in total]])
    return hashlib.sha256(content.encode()).hexdigest()


def _by_name(columns: Sequence[str]) -> list[int]:
    return sorted(range(len(columns)), key=lambda i: columns[i])


def _mixed(words: Words, lane: int) -> Words:
    """Return a hash of each row (splitmix64, word by word)."""
    state = np.full(words.shape[0], lane, dtype=np.uint64)
    for column in words.T:
        state = (state ^ column) * np.uint64(_LANES[0])
        for shift, factor in ((30, _LANES[1]), (27, _LANES[2])):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state


def begin_digest(shape: tuple[int, ...], columns: Sequence[str] | None) -> Any:
    """Return a hash that knows the shape and the names; rows are added to it."""
    names = None if columns is None else list(columns)
    return hashlib.sha256(json.dumps([list(shape), names]).encode())


def add_to_digest(digest: Any, values: Floats) -> None:
    """Add rows to a hash."""
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    digest.update(np.ascontiguousarray(np.asarray(values, dtype="<f8") + 0.0))
