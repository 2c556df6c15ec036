# SPDX-License-Identifier: Apache-2.0
"""What DK++ says (see :mod:`.dkpp`), and what an honest client can have said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Positions, payload
from afcl.methods.rival import expect, is_table

# The questions.
COVER = "cover"
SAMPLE = "sample"
LLOYD = "lloyd"


@payload
@dataclass(frozen=True, slots=True)
class DkppQuestion:
    """What a client is asked, numbered by `stage`.

    Reveals to every client the candidates, **which are rows of the clients**, and
    what they cost all clients together (`potential`); later the centres.
    """

    phase: str
    stage: int
    points: Floats
    potential: float
    counting: bool


@payload
@dataclass(frozen=True, slots=True)
class DkppCover:
    """Sum of squared distances to the candidates; on request, rows nearest to each.

    Reveals how well the candidates fit a client, and a histogram of its rows.
    """

    stage: int
    cost: float
    counts: Ints


@payload
@dataclass(frozen=True, slots=True)
class DkppSample:
    """Rows that were drawn, in the client's order: **reveals these rows**."""

    stage: int
    points: Floats


@payload
@dataclass(frozen=True, slots=True)
class DkppSums:
    """Count and coordinate sum of a client's rows around every centre.

    Reveals the local means; that of a single row is the row.
    """

    stage: int
    counts: Ints
    sums: Floats


ANSWERS = {COVER: DkppCover, SAMPLE: DkppSample, LLOYD: DkppSums}


def expect_row(reply: Any) -> int:
    """Refuse a hello that is not one row; return its width."""
    expect(
        isinstance(reply, Positions)
        and is_table(reply.points)
        and reply.points.shape[0] == 1,
        "one row",
    )
    return int(reply.points.shape[1])


def check_answer(
    reply: Any, n_features: int, n_rows: int, counted: int | None, k: int | None
) -> None:
    """Refuse what does not fit `counted` counts, k centres (None: any number)."""
    if isinstance(reply, DkppCover):
        _check_cover(reply, n_rows, counted)
    elif isinstance(reply, DkppSample):
        expect(_is_sample(reply.points, n_features, n_rows), "sampled rows")
    else:
        _check_sums(reply, n_features, n_rows, k)


def _are_counts(counts: Any) -> bool:
    return (
        isinstance(counts, np.ndarray)
        and counts.ndim == 1
        and counts.dtype == np.int64
        and bool(np.all(counts >= 0))
    )


def _check_cover(reply: DkppCover, n_rows: int, length: int | None) -> None:
    """Expect a cost and `length` counts (None: any number) of all rows."""
    expect(
        isinstance(reply.cost, float) and np.isfinite(reply.cost) and reply.cost >= 0,
        "a cost that is finite and not negative",
    )
    expect(
        _are_counts(reply.counts)
        and length in (None, reply.counts.shape[0])
        and sum(reply.counts.tolist()) == (n_rows if reply.counts.size else 0),
        f"counts of {n_rows} rows around the candidates",
    )


def _is_sample(points: Any, n_features: int, n_rows: int) -> bool:
    return (
        isinstance(points, np.ndarray)
        and points.ndim == 2
        and points.dtype == np.float64
        and points.shape[1] == n_features
        and points.shape[0] <= n_rows
    )


def _check_sums(reply: DkppSums, n_features: int, n_rows: int, k: int | None) -> None:
    """Expect counts and sums of all rows around k centres (None: any number)."""
    expect(
        is_table(reply.sums, n_features)
        and k in (None, reply.sums.shape[0])
        and _are_counts(reply.counts)
        and reply.counts.shape[0] == reply.sums.shape[0]
        and sum(reply.counts.tolist()) == n_rows
        and not reply.sums[reply.counts == 0].any(),
        f"counts and sums of {n_rows} rows around the centres",
    )
