# SPDX-License-Identifier: Apache-2.0
"""Rows that are gone through once, part by part, and not kept: those to be labelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from afcl._typing import Floats, Ints
from afcl.data.columns import ColumnRequest
from afcl.data.dialect import UNKNOWN, Dialect
from afcl.data.errors import PARQUET, ending
from afcl.data.features import Embedding
from afcl.data.ids import Ids, StreamedIds
from afcl.data.names import AnyPath
from afcl.data.parquet import can_stream_parquet
from afcl.data.places import site_places
from afcl.data.sites import check_missing, look_at
from afcl.data.sources import SiteFiles, SiteReader
from afcl.data.tables import in_input_order
from afcl.gaps import KEEPING


class PassingRows:
    """One site's rows, a part of them in memory at a time.

    Attributes
    ----------
    ids : Ids or None
        What the owner calls every row.
    notes : list of str
        What was left out and why; on the rows once all were gone through.
    n_rows : int
        Rows that were gone through so far.
    """

    def __init__(
        self,
        site: SiteFiles,
        embedding: Embedding,
        missing: str,
        id_column: str | None,
        notes: list[str],
    ) -> None:
        self.ids: Ids | None = None
        if id_column is not None:
            self.ids = StreamedIds(id_column, site.files)
        self.notes = notes
        self._site = site
        self._reader = SiteReader(site, embedding, missing)

    @property
    def n_rows(self) -> int:
        """Rows that were gone through so far."""
        return self._reader.n_rows

    def labels(self, label: Callable[[Floats], Ints]) -> Iterator[Ints]:
        """Yield a label for every row of the files, -1 for those left out; once.

        Parameters
        ----------
        label : callable
            Returns the labels of rows, in the units of the data.
        """
        files = [file.path for file in self._site.files]
        is_parquet = any(ending(file) == PARQUET for file in files)
        for values, kept in self._reader.parts(can_stream_parquet() or not is_parquet):
            rows = values if kept.all() else values[kept]
            yield in_input_order(label(rows), kept)
        self._reader.check(1)
        self.notes = [*self.notes, *self._reader.notes()]


def open_rows(
    path: AnyPath,
    embedding: Embedding,
    missing: str = "error",
    *,
    dialect: Dialect = UNKNOWN,
    id_column: str | None = None,
) -> PassingRows:
    """Make a file or a folder of files ready to be gone through.

    Parameters
    ----------
    path : path
        A file, or a folder of files that follow one another by name.
    embedding : Embedding
        Columns and levels as they were settled before.
    missing, dialect, id_column
        As in :func:`~afcl.data.read_sites`.
    """
    check_missing(missing)
    places, notes = site_places((), [path])
    keep = missing in KEEPING
    asked = ColumnRequest(embedding.columns, (), id_column, not keep)
    paths = [Path(place) for place in places]
    sites, _, asked, said = look_at(paths, asked, dialect, settled=True)
    known = replace(embedding, flags=True)
    return PassingRows(sites[0], known, missing, asked.id_column, [*notes, *said])
