# SPDX-License-Identifier: Apache-2.0
"""What the any-k wrapper's clients and server say to each other.

All tuples have one entry per k, in increasing k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload, refuse_unless
from afcl.core.protocol import Clustering
from afcl.kernels import assign, sums
from afcl.metrics import client_davies_bouldin, client_simplified_silhouette

#: Sums beyond this do not travel: they could not be added up.
BOUND = 1e100


@payload
@dataclass(frozen=True, slots=True)
class SweepHello:
    """The inner hellos of every k; reveals what these do."""

    n_features: int
    parts: tuple[Any, ...]


@payload
@dataclass(frozen=True, slots=True)
class SweepView:
    """An inner answer without centres, as far as labelling rows needs it.

    Reveals to every client what the inner method keeps for that, such as all clients'
    samples or codes.
    """

    sizes: Floats
    names: tuple[str, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, clustering: Clustering) -> SweepView:
        """Take what travels."""
        names = tuple(sorted(clustering.extra))
        values = tuple(clustering.extra[name] for name in names)
        return cls(clustering.sizes, names, values)

    def clustering(self) -> Clustering:
        """Return the answer again."""
        extra = dict(zip(self.names, self.values, strict=True))
        return Clustering(None, self.sizes, {}, extra=extra)


@payload
@dataclass(frozen=True, slots=True)
class SweepCensus:
    """Asks for counts and sums of the rows in these clusters.

    An entry is None where the answer has centres.
    """

    number: int
    views: tuple[Any, ...]


@payload
@dataclass(frozen=True, slots=True)
class SweepTrial:
    """Asks how well these centres fit the rows.

    `clusters` names the clusters whose means the centres are, None where rows belong
    to the nearest centre.
    """

    number: int
    centers: tuple[Floats, ...]
    clusters: tuple[Any, ...]


@payload
@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The inner broadcasts (None, and version -1, for every k that is done).

    Reveals what the inner broadcasts do, and in `question` the global answers so far.
    """

    versions: Ints
    parts: tuple[Any, ...]
    question: Any


@payload
@dataclass(frozen=True, slots=True)
class SweepTally:
    """Counts and sums of a client's rows in every cluster of one answer.

    Reveals the mean of the client's rows in every cluster; one row alone is revealed.
    """

    counts: Ints
    sums: Floats


@payload
@dataclass(frozen=True, slots=True)
class SweepScore:
    """A client's part of the indices of one answer.

    Reveals, per cluster, how many of the client's rows it holds and how far they lie
    from the centre in sum, and the sum of all rows' silhouettes.
    """

    counts: Ints
    distances: Floats
    silhouette: float


@payload
@dataclass(frozen=True, slots=True)
class SweepReply:
    """The inner answers to a plan, and the answer to its question.

    Reveals what the inner answers do, and tallies or scores.
    """

    parts: tuple[Any, ...]
    number: int
    answer: tuple[Any, ...]


@payload
@dataclass(frozen=True, slots=True)
class SweepMemory:
    """A client's own: the inner memories, and its labels in the last census."""

    parts: tuple[Any, ...]
    number: int
    labels: tuple[Any, ...]


# ------------------------------------------------ at a client


def tally(X: Floats, labels: Ints, k: int) -> SweepTally:
    """Count and sum the rows of every cluster."""
    mass, total = sums(X, np.ones(X.shape[0]), labels, k)
    return SweepTally(mass.astype(np.int64), total)


def score(
    X: Floats, centers: Floats, clusters: Ints | None, labels: Ints | None
) -> SweepScore:
    """Score rows around centres: by their labels where known, else the nearest."""
    own, _ = assign(X, centers)
    if clusters is not None and labels is not None:
        at = np.minimum(np.searchsorted(clusters, labels), clusters.shape[0] - 1)
        own = np.where(clusters[at] == labels, at, own).astype(np.int64)
    near = client_davies_bouldin(X, own, centers)
    fit = client_simplified_silhouette(X, own, centers)
    return SweepScore(near.counts, near.sums, fit.total)


def answer_question(
    question: SweepCensus | SweepTrial | None,
    X: Floats,
    memory: SweepMemory,
    label: Callable[..., Ints],
) -> tuple[int, tuple[Any, ...], SweepMemory]:
    """Tally the rows of answers without centres, or score all answers.

    Parameters
    ----------
    question
        What the server asks, if anything.
    X : ndarray of shape (n_samples, n_features)
        The client's rows.
    memory
        What the client remembers.
    label
        Of the inner method; it is not told who the client is, which only the server
        knows.

    Returns
    -------
    number, answer, memory
        Of the evaluation (-1: none), for every k, and with the labels of a census.
    """
    if question is None:
        return -1, (), memory
    number = question.number
    if isinstance(question, SweepTrial):
        known = (
            memory.labels
            if memory.number == number
            else (None,) * len(question.centers)
        )
        asked = zip(question.centers, question.clusters, known, strict=True)
        return number, tuple(score(X, *each) for each in asked), memory
    labels = tuple(
        None if view is None else label(view.clustering(), X, own, None)
        for view, own in zip(question.views, memory.parts, strict=True)
    )
    tallies = tuple(
        None if own is None else tally(X, own, view.sizes.shape[0])
        for own, view in zip(labels, question.views, strict=True)
    )
    return number, tallies, SweepMemory(memory.parts, number, labels)


# ------------------------------------------------ at the server


def check_hello(hello: Any, n: int, n_features: int) -> None:
    """Refuse anything but n hellos of so many features (-1: not known yet)."""
    refuse_unless(
        isinstance(hello, SweepHello)
        and isinstance(hello.parts, tuple)
        and len(hello.parts) == n
        and type(hello.n_features) is int
        and hello.n_features >= 1,
        f"expected {n} hellos, one for every k",
    )
    refuse_unless(
        n_features in (-1, hello.n_features),
        f"expected {n_features} features, got {hello.n_features}",
    )


def check_tally(reply: Any, k: int, n_features: int, n_rows: int) -> None:
    """Refuse a tally that so many rows cannot give."""
    refuse_unless(
        isinstance(reply, SweepTally)
        and _is_array(reply.counts, np.int64, (k,))
        and _is_array(reply.sums, np.float64, (k, n_features)),
        f"expected counts and sums of {k} clusters in {n_features} features",
    )
    _check_counts(reply.counts, n_rows)


def check_score(reply: Any, k: int, n_rows: int) -> None:
    """Refuse a score that so many rows cannot have."""
    refuse_unless(
        isinstance(reply, SweepScore)
        and _is_array(reply.counts, np.int64, (k,))
        and _is_array(reply.distances, np.float64, (k,))
        and type(reply.silhouette) in (int, float),
        f"expected counts, distances and silhouettes of {k} clusters",
    )
    _check_counts(reply.counts, n_rows)
    refuse_unless(bool(np.all(reply.distances >= 0)), "a sum of distances is negative")
    refuse_unless(
        abs(reply.silhouette) <= n_rows * (1.0 + 1e-9),
        "a sum of silhouettes is larger than the number of rows",
    )


def _is_array(array: Any, dtype: type[Any], shape: tuple[int, ...]) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype == dtype
        and array.shape == shape
        and bool(np.all(np.abs(array) <= BOUND))
    )


def _check_counts(counts: Ints, n_rows: int) -> None:
    held = sum(counts.tolist())
    refuse_unless(
        bool(np.all(counts >= 0)) and held == n_rows,
        f"clusters hold {held} rows, the client registered {n_rows}",
    )
