# SPDX-License-Identifier: Apache-2.0
"""What the owner calls each row: text as it is in the files, for the owner alone.

It is read apart from the rows, and only to be written beside their labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from afcl.data.files import DataFile, read_frames

if TYPE_CHECKING:
    import polars as pl


class Ids(Protocol):
    """What names the rows of a site.

    Attributes
    ----------
    name : str
        The column.
    """

    @property
    def name(self) -> str:
        """The column."""
        ...

    def parts(self) -> Iterator[list[str]]:
        """Yield one text for every row of the files, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class HeldIds:
    """Ids in memory."""

    name: str
    texts: pl.Series

    def parts(self) -> Iterator[list[str]]:
        """Yield them all."""
        yield self.texts.to_list()


@dataclass(frozen=True, slots=True)
class StreamedIds:
    """Ids that stay in their files."""

    name: str
    files: Sequence[DataFile]

    def parts(self) -> Iterator[list[str]]:
        """Yield them as they are read."""
        for series in read_ids(self.files, self.name, streamed=True):
            yield series.to_list()


def held_ids(files: Sequence[DataFile], name: str) -> HeldIds:
    """Read the ids of a site into memory."""
    import polars as pl

    parts = list(read_ids(files, name, streamed=False))
    return HeldIds(name, pl.concat(parts or [pl.Series(name, [], dtype=pl.String)]))


def read_ids(
    files: Sequence[DataFile], name: str, streamed: bool
) -> Iterator[pl.Series]:
    """Yield a column as text, part by part; nothing is an empty text."""
    import polars as pl

    for file in files:
        for frame in read_frames(file, [name], streamed, as_numbers=False):
            yield frame[name].cast(pl.String).fill_null("")
