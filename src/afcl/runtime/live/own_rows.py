# SPDX-License-Identifier: Apache-2.0
"""A site's own rows: what it tells of their columns, and the rows as they were agreed.

Before anything is agreed a category is one column, of the places of the site's levels.
Under the terms of a run it is a column of 0 and 1 for each of the agreed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from afcl._typing import Floats
from afcl.core.terms import DECLARED, HASHED, MOST_LEVELS, Category, Terms
from afcl.data.encoding import places_of, spread_out
from afcl.data.features import (
    Embedding,
    Feature,
    Texts,
    level_key,
)
from afcl.data.sites import SiteTable
from afcl.data.tables import Table
from afcl.exceptions import RejectedMessage
from afcl.gaps import has_gaps
from afcl.runtime.agreement import quoted
from afcl.runtime.live.announcement import LONGEST
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.level_names import wire_name
from afcl.runtime.live.spelling import called
from afcl.runtime.site import shown_rows

#: Of what only tables in memory can give.
IN_MEMORY = "categories, and columns that are not there, need all rows in memory"


class InTerms(NamedTuple):
    """Rows as the terms want them, their columns, and which of these are not there."""

    rows: Any
    columns: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class SiteRows:
    """A site's rows as it reads them.

    Attributes
    ----------
    source
        The rows; categories are places of levels.
    features
        The categories, with all levels that the site has, or has declared.
    declared
        Those of them whose levels the site has declared.
    """

    source: SiteTable
    features: tuple[Feature, ...] = ()
    declared: frozenset[str] = frozenset()

    @property
    def held(self) -> tuple[str, ...]:
        """The columns that have a value."""
        if not isinstance(self.source, Table):
            return self.source.columns
        if not has_gaps(self.source.values):
            return self.source.columns
        empty = np.isnan(self.source.values).all(axis=0)
        there = np.flatnonzero(~empty).tolist()
        return tuple(self.source.columns[place] for place in there)

    def kinds(self) -> tuple[Category, ...]:
        """Return its categories, of whose levels nothing is told."""
        held = set(self.held)
        return tuple(Category(each.name) for each in self.features if each.name in held)

    def shown(self, group: int) -> tuple[Floats, Floats]:
        """Return rows, and what stands for them where extremes and medians are told.

        Of categories neither tells anything.
        """
        if not isinstance(self.source, Table):
            # Only the number of rows is asked of these, and extremes and medians of
            # what is shown: three rows say them.
            ranges = self.source.ranges()
            rows = np.broadcast_to(ranges.low, self.source.shape)
            return rows, np.stack([ranges.low, self.source.medians(), ranges.high])
        held, kinds = self.held, {each.name for each in self.features}
        rows = self._columns(held)
        number = np.array([column not in kinds for column in held])
        if number.all():
            return rows, shown_rows(rows, group)
        rows = np.where(number, rows, np.nan)
        if not number.any():
            return rows, rows
        some = shown_rows(rows[:, number], group)
        shown = np.full((some.shape[0], len(held)), np.nan)
        shown[:, number] = some
        return rows, shown

    def _columns(self, names: Sequence[str]) -> Floats:
        assert isinstance(self.source, Table)
        if tuple(names) == self.source.columns:
            return self.source.values
        places = [self.source.columns.index(name) for name in names]
        return self.source.values[:, places]

    # -------------------------------------------------------------- what is told

    def categories(
        self, asked: Sequence[Category], least: int, names: str, key: bytes
    ) -> tuple[Category, ...]:
        """Return what the site tells of its categories.

        Parameters
        ----------
        asked : sequence of Category
            Columns that are categories for everybody. Of levels that were declared
            there the site says nothing.
        least : int
            Rows that a level needs to be named.
        names, key
            How names travel, and what they are hashed with.
        """
        public = called([each.name for each in asked], self.held)
        settled = {public[each.name] for each in asked if each.levels}
        wanted = set(public.values()) | {each.name for each in self.features}
        found = []
        for column in self.held:
            if column not in wanted:
                continue
            levels = () if column in settled else self._named(column, least, names, key)
            if levels is not None:
                hashed = names == HASHED and column not in settled
                found.append(Category(column, levels, hashed))
        return tuple(found)

    def _named(
        self, column: str, least: int, names: str, key: bytes
    ) -> tuple[str, ...] | None:
        """Return the levels that are told; None: the column is no category here."""
        feature, places = self._levels(column)
        if column in self.declared:
            levels = list(feature.levels)
        elif names == DECLARED:
            return ()  # whatever the rows are: none of them may decide it
        else:
            counts = np.bincount(places[places >= 0].astype(np.int64))
            pairs = zip(feature.levels, counts.tolist(), strict=False)
            texts = Texts(dict(pairs))
            if texts.all_differ:
                return None
            levels = [level for level, n in texts.levels.items() if n >= least]
        fit = [" ".join(level.split()) for level in levels]
        fit = [level for level in fit if level.isprintable() and len(level) <= LONGEST]
        return tuple(
            wire_name(level, column, names, key) for level in fit[:MOST_LEVELS]
        )

    def _levels(self, column: str) -> tuple[Feature, Floats]:
        """Return a column's levels and their places, also of one of numbers."""
        values = self._columns([column])[:, 0]
        for feature in self.features:
            if feature.name == column:
                return feature, values
        numbers = np.unique(values[~np.isnan(values)])
        levels = {level_key(number): None for number in numbers.tolist()}
        feature = Feature(column, tuple(levels))
        cells = [None if np.isnan(v) else v for v in values.tolist()]
        return feature, places_of(cells, feature)

    # -------------------------------------------------------------- under terms

    def in_terms(self, terms: Terms, key: bytes) -> InTerms:
        """Return the rows in the agreed columns, or refuse terms that do not fit."""
        agreed = terms.categories or ()
        embedding = Embedding.of_names(terms.columns, features_of(agreed))
        there = all(each.name in embedding.columns for each in agreed)
        nothing = bool(self.features) and not terms.columns
        if embedding.names != terms.columns or not there or nothing:
            raise RejectedMessage("the agreed columns are not those of the categories")
        new = called(self.source.columns, embedding.columns)
        own = {name: column for column, name in new.items()}
        kinds = {each.name for each in self.features}
        texts = [
            name
            for name in embedding.columns
            if own.get(name) in kinds and name not in {each.name for each in agreed}
        ]
        if texts:
            raise RejectedMessage(f"categories here, and no numbers: {quoted(texts)}")
        held = set(self.held)
        lacking = tuple(c for c in embedding.columns if own.get(c) not in held)
        if not agreed and all(column in own for column in embedding.columns):
            return InTerms(self.source.rows, tuple(new.values()), lacking)
        if not isinstance(self.source, Table):
            raise RejectedMessage(IN_MEMORY)
        parts = {each.name: self._indicators(each, own, key) for each in agreed}
        columns = [
            parts[name] if name in parts else self._number(own.get(name))
            for name in embedding.columns
        ]
        rows = np.concatenate(columns, axis=1) if columns else self.source.values
        return InTerms(rows, terms.columns, lacking)

    def _number(self, column: str | None) -> Floats:
        if column is None:
            return np.full((self.source.shape[0], 1), np.nan)
        return self._columns([column])

    def _indicators(
        self, category: Category, own: dict[str, str], key: bytes
    ) -> Floats:
        """Return a column of 0 and 1 for each level; NaN: there is no value."""
        width, column = len(category.levels), own.get(category.name)
        if column is None:
            return np.full((self.source.shape[0], width), np.nan)
        feature, places = self._levels(column)
        agreed = {level_key(level): i for i, level in enumerate(category.levels)}
        names = HASHED if category.hashed else ""
        at = [
            agreed.get(level_key(wire_name(level, column, names, key)), -1)
            for level in feature.levels
        ]
        # A place of -1 is that of no level, here and there.
        moved = np.array([*at, -1], dtype=np.float64)
        known = np.where(np.isnan(places), -1, places).astype(np.int64)
        return spread_out(np.where(np.isnan(places), np.nan, moved[known]), width)

    def names_of(self, category: Category, key: bytes) -> tuple[str, ...]:
        """Return the agreed levels by the names that the site knows."""
        column = called(self.source.columns, [category.name])
        own = [name for name, agreed in column.items() if agreed == category.name]
        if not own or not category.hashed:
            return category.levels
        feature, _ = self._levels(own[0])
        known = {
            wire_name(level, own[0], HASHED, key): level for level in feature.levels
        }
        return tuple(known.get(level, level) for level in category.levels)
