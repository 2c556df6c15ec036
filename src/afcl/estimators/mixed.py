# SPDX-License-Identifier: Apache-2.0
"""What estimators are given, as tables of numbers: frames with categories as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.date_parts import Dates
from afcl.data.features import Embedding
from afcl.data.frames import check_labels
from afcl.data.mixed import embedding_of, has_texts, is_frame
from afcl.data.spelling import name_key
from afcl.estimators.user_warnings import warn_user
from afcl.exceptions import ColumnWarning, InputError, OwnersWarning


def as_tables(clients: Any) -> tuple[list[Any], list[str]]:
    """Return one table per client, and what the clients are called."""
    if isinstance(clients, Mapping):
        return list(clients.values()), [str(name) for name in clients]
    return list(clients), [str(number) for number in range(len(clients))]


def without_owners(X: Any, clients: Any) -> tuple[Any, Any]:
    """Take owners from a frame's column, if they are named by it."""
    check_labels(X)
    if not isinstance(clients, str):
        return X, clients
    if not hasattr(X, "columns") or clients not in X.columns:
        raise InputError(
            f"clients={clients!r} is no column of X: name one, or pass the owner of "
            "every row"
        )
    rest = [column for column in X.columns if column != clients]
    return X[rest], np.asarray(X[clients].to_numpy())


def warn_of_owners(y: Any, clients: Any) -> None:
    """Say so if what is ignored looks like owners."""
    if y is None or clients is not None:
        return
    cells = np.asarray(y)
    if cells.ndim == 1 and cells.dtype.kind in "OUS" and cells.size > 1:
        warn_user(
            OwnersWarning(
                "y is ignored; if it names the owner of each row, pass clients="
            )
        )


def embed(
    tables: Sequence[Any],
    least: int,
    owners: Ints | None = None,
    ordinal: Mapping[str, Sequence[Any]] | None = None,
    dates: Dates | None = None,
) -> tuple[Embedding | None, list[str]]:
    """Return how frames become tables and what is left out; None: numbers as they are.

    What is left out is warned of, too.
    """
    for number, table in enumerate(tables, 1):
        check_labels(table, number)
    declared = ordinal or dates
    if not declared and not any(has_texts(table) for table in tables):
        return None, []
    if not all(map(is_frame, tables)):
        why = "some tables have texts and some are bare arrays"
        option = "ordinal=" if ordinal else "dates="
        why = f"{option} names columns of data frames" if declared else why
        raise InputError(f"{why}: pass frames only")
    if not all(isinstance(name, str) for table in tables for name in table.columns):
        raise InputError(
            "columns of texts or dates go by names, and these are numbers: rename "
            "them, frame.columns = frame.columns.astype(str)"
        )
    first = set(tables[0].columns)
    for number, table in enumerate(tables, 1):
        other = sorted(map(str, first ^ set(table.columns)))
        if other:
            raise InputError(
                f"table {number} and table 1 differ in the column {other[0]!r}: give "
                "every table the same columns, or the estimator missing='impute'"
            )
    embedding, notes = embedding_of(tables, least, owners, ordinal, dates)
    for note in notes:
        warn_user(ColumnWarning(note))
    return embedding, notes


def public_bounds(scale: Any, embedding: Embedding | None) -> tuple[Any, Any]:
    """Return scale and bounds of a run whose categories have bounds of their own.

    Given bounds are those of the numbers, in their order.
    """
    if embedding is None:
        return scale, None
    own: tuple[Floats, Floats] = embedding.bounds
    if scale is None or isinstance(scale, str):
        return scale, own
    numbers = np.isnan(own[0])
    filled = []
    for given, fixed in zip(scale, own, strict=True):
        bounds = np.asarray(given, dtype=np.float64)
        if bounds.shape not in ((int(numbers.sum()),), fixed.shape):
            raise InputError(
                f"scale=(low, high) has bounds for {bounds.size} columns, "
                f"{int(numbers.sum())} are numbers"
            )
        whole = np.array(fixed)
        whole[numbers] = bounds if bounds.size < whole.size else bounds[numbers]
        filled.append(whole)
    return tuple(filled), None


def found_in_rows(
    embedding: Embedding | None, ordinal: Mapping[str, Sequence[Any]] | None
) -> list[str]:
    """Return the categories whose levels nobody declared."""
    declared = {name_key(name) for name in ordinal or ()}
    features = () if embedding is None else embedding.features
    return [
        each.name
        for each in features
        if not each.parts and name_key(each.name) not in declared
    ]
