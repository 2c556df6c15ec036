# SPDX-License-Identifier: Apache-2.0
"""What a clusterer is given, as rows of numbers that it can work on, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from afcl._typing import AnyArray, Floats, Ints
from afcl.data.errors import listed
from afcl.data.features import Embedding
from afcl.data.frames import widened
from afcl.data.mixed import rows_of
from afcl.estimators import suspects
from afcl.estimators.user_warnings import warn_user
from afcl.exceptions import ColumnWarning, InputError, SuspicionWarning
from afcl.gaps import AVAILABLE, IMPUTE, KEEPING, has_gaps
from afcl.runtime.gap_files import describe_gaps, gaps_in
from afcl.runtime.splitting import splitting_columns

MISSING = ("error", "drop", IMPUTE, AVAILABLE)


class Reading:
    """The part of a clusterer that looks at what it is given."""

    missing: Any
    scale: Any
    privacy_: str | None
    _result: dict[str, Any] | None
    _roster: list[str]
    n_features_in_: int
    feature_names_in_: AnyArray
    _embedding: Embedding | None = None
    #: Cells that were filled in every client's rows, by column.
    _filled: Sequence[Ints | None] = ()
    #: The column that named the owners of the rows, which new ones may have too.
    _owners: str | None = None

    def _least(self) -> int:
        """Return how many rows of a level a client needs to name it."""
        return int(getattr(self, "min_cell", 1))

    def _checked(self, X: Any, reset: bool) -> Floats:
        """Return rows as numbers, or refuse them; remember what they are, if asked."""
        if not reset and self._owners in getattr(X, "columns", ()):
            X = X[[column for column in X.columns if column != self._owners]]
        if not reset:
            X = self._with_known_columns(X)
        if self._embedding is None:
            rows: Floats = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite=False
            )
            return self._without_nan(rows, "X")
        if reset:
            self.feature_names_in_ = np.asarray(list(map(str, X.columns)), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        numbers = rows_of(X, self._embedding) if hasattr(X, "columns") else X
        checked = self._numbers(numbers, "X")
        width = len(self._embedding.names)
        if checked.shape[1] != width:
            raise InputError(
                f"X has {checked.shape[1]} columns, categories and numbers make "
                f"{width}: pass a frame"
            )
        return checked

    def _with_known_columns(self, X: Any) -> Any:
        """Return new rows with every column of the fit, empty where they lack one.

        That is refused where nothing is to be done about gaps, and if all lack.
        """
        known = getattr(self, "feature_names_in_", ())
        if self._embedding is not None:
            known = self._embedding.columns
        lacking = [str(c) for c in known if c not in getattr(X, "columns", known)]
        if not lacking:
            return X
        which = "column" if len(lacking) == 1 else "columns"
        names = listed([repr(name) for name in lacking])
        if len(lacking) == len(known):
            raise InputError(
                f"X has none of the columns of the fit ({names}): pass some of them"
            )
        if self.missing in KEEPING:
            warn_user(
                ColumnWarning(f"X has no {which} {names}: labelled by the others")
            )
            return widened(X, list(known))
        if self._embedding is None:  # scikit-learn has words of its own for this
            return X
        raise InputError(
            f"X has no {which} {names}, which the fit had: add it, or fit with "
            "missing='impute', which labels rows by what they have"
        )

    def _numbers(self, table: Any, name: str, full: bool = True) -> Floats:
        """Return a table as numbers, or refuse it: also without rows, if so asked."""
        rows: Floats = check_array(
            table,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=int(full),
            input_name=name,
        )
        return self._without_nan(rows, name)

    def _without_nan(self, rows: Floats, name: str) -> Floats:
        """Refuse infinity, and gaps where nothing is said to be done about them."""
        if self.missing not in MISSING:
            raise InputError(
                f"missing={self.missing!r} is unknown: give 'error', 'drop', 'impute' "
                "or 'available'"
            )
        # A sum is a number unless something in it is none, or the sum is too large.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(rows.sum()):
                return rows
        if np.isinf(rows).any():
            row, column = np.argwhere(np.isinf(rows))[0].tolist()
            raise InputError(
                f"{name} contains infinity (row {row + 1}, column {column + 1}): "
                "correct it, or write NaN there and say what to do about gaps, missing="
            )
        if self.missing == "error" and has_gaps(rows):
            raise InputError(
                f"{name} contains NaN: say what to do about rows with gaps, "
                "missing='drop', 'impute' or 'available'"
            )
        return rows

    @property
    def center_columns_(self) -> AnyArray:
        """What the columns of `cluster_centers_` are called, also those of levels."""
        check_is_fitted(self, "n_clusters_")
        if self._embedding is not None:
            return np.asarray(self._embedding.names, dtype=object)
        numbered = [f"x{i}" for i in range(self.n_features_in_)]
        return np.asarray(getattr(self, "feature_names_in_", numbered), dtype=object)

    def _count_gaps(self, tables: Sequence[Floats]) -> None:
        """Keep how many cells of every client have no value, and were filled."""
        if self._result is None or suspects.is_private(self.privacy_):
            return
        columns = [str(name) for name in self.center_columns_]
        features = self._embedding.features if self._embedding else ()
        filled = self._filled or [None] * len(tables)
        sites = self._result["sites"]
        for site, rows, own in zip(sites, tables, filled, strict=True):
            gaps = gaps_in(rows, columns, features) if has_gaps(rows) else {}
            site |= describe_gaps(gaps, own, columns, features)

    def _suspect(
        self,
        tables: Sequence[Floats],
        names: Sequence[str],
        notes: Sequence[str],
    ) -> None:
        """Warn of what looks odd about the rows of an answer, and keep it for its page.

        So are `notes` on what was left out. Where rows must not tell anything, only who
        has them is told. A client that alone stretches columns, and has no say there,
        is warned of where no finding says more of its rows.
        """
        columns = [str(name) for name in self.center_columns_]
        known = self._embedding or Embedding((), ())
        arguments = (tables, names, columns, known.features, known.dates, self.scale)
        found = suspects.suspicions_in(*arguments)
        if self._result is not None:
            kept = [asdict(each) for each in found]
            splits = splitting_columns({**self._result, "suspicions": kept})
            splits = suspects.for_python(splits)
            found += splits
            self._result["suspicions"] = [asdict(each) for each in splits]
            if not suspects.is_private(self.privacy_):
                self._result["suspicions"] = [asdict(each) for each in found]
                self._result["data_notes"] = list(notes)
        lines = suspects.lines_for_user(found)
        if self._result is not None and not lines:
            told = self._result["notes"]
            lines = suspects.stretches_for_python(told, self._roster)
        for line in lines:
            warn_user(SuspicionWarning(line))
