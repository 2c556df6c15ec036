# SPDX-License-Identifier: Apache-2.0
"""What all clusterers share: tables in, a simulated federation, labels out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin

from afcl._typing import Floats, Ints
from afcl.core.lineage import Answered
from afcl.core.protocol import AnyMethod, Clustering
from afcl.data.date_parts import Dates
from afcl.data.frames import with_lacking
from afcl.data.mixed import has_texts, rows_of
from afcl.estimators import shape, storage, trust
from afcl.estimators.answers import NumberedAnswers
from afcl.estimators.clients import (
    Table,
    aligned,
    in_warnings,
    is_source,
    titles,
)
from afcl.estimators.keeping import Keeping
from afcl.estimators.kpath import KPath
from afcl.estimators.mixed import (
    as_tables,
    embed,
    found_in_rows,
    public_bounds,
    warn_of_owners,
    without_owners,
)
from afcl.estimators.new_rows import OnNewRows
from afcl.estimators.reading import Reading
from afcl.estimators.rows import by_owner, kept_rows, owners_of, rows_at
from afcl.estimators.user_warnings import warn_user
from afcl.estimators.weights import weights_of, with_copies
from afcl.exceptions import ColumnWarning, InputError, SmallClientsWarning
from afcl.gaps import KEEPING
from afcl.methods.presets import at_default_level
from afcl.runtime.arrays import AUTO, brought_back, in_place, moved
from afcl.runtime.coordinator import Spec
from afcl.runtime.progress import progress
from afcl.runtime.results import describe_simulated
from afcl.runtime.schedule import as_schedule
from afcl.runtime.simulate import (
    LABEL,
    Outcome,
    simulate,
)
from afcl.runtime.who_speaks import rows_that_speak, too_small
from afcl.scale import Box
from afcl.trace import Trace


class FederatedClusterer(
    Reading,
    OnNewRows,
    Keeping,
    NumberedAnswers,
    ClusterMixin,
    BaseEstimator,
):
    """The part of a clusterer that does not depend on its method.

    What a fitted one has is said where users look: see :class:`afcl.AFCL`.
    """

    participation: Any
    scale: Any
    #: Columns whose levels have an order, and these; None: none is declared.
    ordinal: Mapping[str, Sequence[Any]] | None = None
    #: Columns of dates, and parts of these that count; None: by the frames' types.
    dates: Dates | None = None
    #: Where rows are worked on; `auto`: where they are.
    device: str = AUTO
    max_rounds: int
    random_state: Any
    verbose: bool
    cluster_centers_: Any
    cluster_spreads_: Any
    labels_: Any
    client_labels_: list[Any]
    privacy_: str | None
    structure_: dict[str, Any] | None
    k_confidence_: float | None
    k_confidences_: dict[int, float]
    cluster_stability_: Floats
    levels_: Ints
    shape_: dict[str, Any] | None
    cells_: dict[str, Any] | None
    cell_labels_: Ints | None
    cell_sparse_: Any
    _fit_rows: list[Floats] | None
    #: The most copies of a row that a fit works on: its largest weight.
    _heaviest: int = 1

    def _method(self) -> tuple[AnyMethod, dict[str, Any]]:
        """Return the method and its options; every subclass says which."""
        raise NotImplementedError

    def _before_run(self, sizes: list[int], options: dict[str, Any]) -> None:
        """Warn of what the user should know before anything is sent."""

    def _noise_is_seeded(self) -> bool:
        """Whether noise follows from `random_state`, as everything else does."""
        return True

    def _shape(self) -> str | None:
        """Return the shape of clusters that was asked for, None: there is one only."""
        asked = self.get_params(deep=False)
        return (
            asked.get("shape") if asked.get("preset", "default") == "default" else None
        )

    def _doubts(self, sizes: list[int], clustering: Clustering) -> list[Warning]:
        """Say what the user should know of the answer; clients have these `sizes`."""
        return trust.doubts(clustering)

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        clients: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Cluster pooled rows as if each stayed with its owner.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows of all clients. Columns of texts in a frame are categories.
        y : None
            Ignored.
        clients : array-like of shape (n_samples,) or str, default=None
            Who owns each row (any labels), or the column of X that says so; None: one
            client owns them all.
        sample_weight : array-like of shape (n_samples,), default=None
            How many rows each row stands for, whole numbers; a row of weight 0 has no
            say and is labelled. Weights do not count towards `min_cell`: the largest
            one makes the smallest group so many times larger. Not at `secure` (the
            default from three clients on) and `dp`.

        Returns
        -------
        self
            The fitted estimator.
        """
        warn_of_owners(y, clients)
        self._owners = clients if isinstance(clients, str) else None
        X, clients = without_owners(X, clients)
        self._embedding = None
        notes: list[str] = []
        if self.ordinal or self.dates or has_texts(X):
            owner, names = owners_of(clients, len(X))
            arguments = [X], self._least(), owner, self.ordinal, self.dates
            self._embedding, notes = embed(*arguments)
        rows: Floats = self._checked(X, reset=True)
        owner, names = owners_of(clients, rows.shape[0])
        self._begin(names)
        kept = kept_rows(rows, self.missing)
        order, ends = by_owner(owner, len(names))
        groups = [own[kept[own]] for own in np.split(order, ends)]
        weights = weights_of(sample_weight, rows.shape[0])
        if weights is not None:
            self._heaviest = int(weights.max())
            groups = [np.repeat(own, weights[own]) for own in groups]
        outcome = self._run([rows_at(rows, index) for index in groups], names)
        self._fit_rows = [rows]
        self.labels_ = np.full(rows.shape[0], -1, dtype=LABEL)
        for index, labels in zip(groups, outcome.labels, strict=True):
            self.labels_[index] = labels
        if weights is not None and (silent := kept & (weights == 0)).any():
            self.labels_[silent] = self.predict(X if self._embedding else rows)[silent]
        self.client_labels_ = [self.labels_[own] for own in np.split(order, ends)]
        held = [rows_at(rows, own[kept[own]]) for own in np.split(order, ends)]
        called = ["X"] if clients is None else in_warnings(names, owned=True)
        self._count_gaps([rows_at(rows, own) for own in np.split(order, ends)])
        self._suspect(held, called, notes)
        return self

    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        clients: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Ints:
        """Cluster pooled rows and return their labels: :meth:`fit`, then `labels_`.

        Parameters
        ----------
        X, y, clients, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of every row, in the order of the input.
        """
        fitted = self.fit(X, y, clients=clients, sample_weight=sample_weight)
        labels: Ints = fitted.labels_
        return labels

    def fit_clients(self, tables: Sequence[Any] | Mapping[str, Any]) -> Self:
        """Cluster one table per client.

        Parameters
        ----------
        tables : sequence or mapping of array-like of shape (n_rows, n_features)
            Arrays, pandas or Polars frames, by the clients' names if these matter;
            frames are matched by column name, and their columns of texts are
            categories. Also tables that are kept elsewhere, such as
            :class:`~afcl.runtime.cluster.ClusterTable`, and arrays on a GPU (PyTorch,
            CuPy, JAX), which are worked on there.

        Returns
        -------
        self
            The fitted estimator; `labels_` runs through the tables one after the
            other, `client_labels_` has one array per table. Rows that are kept
            elsewhere keep their labels there: `client_labels_` has a collection that
            computes them, and `labels_` is None.
        """
        if len(tables) == 0:
            raise InputError("fit_clients needs at least one table")
        held, names = as_tables(tables)
        self._begin(names)
        return self._fit_tables(dict(zip(names, held, strict=True)))

    def _fit_tables(self, tables: Mapping[str, Any]) -> Self:
        """Cluster named tables; the roster also numbers who has none any more."""
        names = [name for name in self._roster if name in tables]
        held: list[Any] = in_place([tables[name] for name in names])
        self._tables = dict(tables)
        lacking: list[str] = []
        if self.missing in KEEPING:
            held, lacking = with_lacking(held)
            for note in lacking:
                warn_user(ColumnWarning(note))
        declared = (self.ordinal, self.dates)
        self._embedding, notes = embed(held, self._least(), None, *declared)
        if self._embedding is not None:
            columns: tuple[str, ...] | None = tuple(map(str, held[0].columns))
            held = [rows_of(t, self._embedding, i) for i, t in enumerate(held, 1)]
        else:
            held, columns = aligned(held)
        called = titles(names, self._roster)
        some = any(table.shape[0] for table in held)
        tables_in: list[Any] = [
            table if is_source(table) else self._numbers(table, title, not some)
            for title, table in zip(called, held, strict=True)
        ]
        self.n_features_in_ = tables_in[0].shape[1] if columns is None else len(columns)
        if columns is not None:
            self.feature_names_in_ = np.asarray(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if any(is_source(table) for table in tables_in):
            return self._fit_sources(tables_in, names)
        masks = [kept_rows(a, self.missing) for a in tables_in]
        kept = [a if m.all() else a[m] for a, m in zip(tables_in, masks, strict=True)]
        outcome = self._run(kept, names)
        self._fit_rows = tables_in
        ends = np.cumsum([mask.shape[0] for mask in masks])
        self.labels_ = outcome.joined_labels
        if self.labels_.shape[0] < ends[-1]:  # rows were dropped
            self.labels_ = np.full(ends[-1], -1, dtype=LABEL)
            self.labels_[np.concatenate(masks)] = outcome.joined_labels
        self.client_labels_ = np.split(self.labels_, ends[:-1])
        self._count_gaps(tables_in)
        self._suspect(kept, called, [*lacking, *notes])
        return self

    def _fit_sources(self, tables: list[Any], names: list[str]) -> Self:
        """Cluster tables of which some are kept elsewhere, as are their labels."""
        if self.missing != "error":
            raise InputError(
                f"missing={self.missing!r} needs tables in memory: leave rows with "
                "gaps out before"
            )
        outcome = self._run(tables, names)
        self._fit_rows = None
        self.labels_ = None
        self.client_labels_ = [
            labels if isinstance(labels, np.ndarray) else labels.collection()
            for labels in outcome.labels
        ]
        return self

    def _run(self, tables: Sequence[Table], names: list[str]) -> Outcome:
        """Run the federation of these clients; who is gone keeps its number."""
        method, options = self._method()
        scale, bounds = public_bounds(self.scale, self._embedding)
        speak = [rows_that_speak(table, self.missing, bounds) for table in tables]
        enough = sum(n >= self._least() for n in speak)
        options, _ = at_default_level(method, options, max(1, enough), scale)
        options = with_copies(options, self._heaviest)
        sizes = [table.shape[0] for table in tables]
        self._before_run(sizes, options)
        began = time.time()
        spec = Spec(
            method,
            options,
            self._seed,
            scale,
            self.max_rounds,
            names=tuple(self._roster),
            missing=self.missing if self.missing in KEEPING else "",
            bounds=bounds,
        )
        if spec.noisy and found_in_rows(self._embedding, self.ordinal):
            raise InputError(
                "at dp the levels of a category must not come from the rows: pass "
                "columns of 0 and 1 instead of texts, or name levels that have an "
                "order in ordinal="
            )
        if spec.noisy and not self._noise_is_seeded():
            spec = replace(spec, secret=secrets.token_bytes(32))
        schedule = as_schedule(self.participation)
        numbered, gone = self._numbered(tables, names)
        called = in_warnings(self._roster, owned=not self._tables)
        for note in too_small(spec, numbered, gone, called).values():
            warn_user(SmallClientsWarning(note))
        placed = moved(numbered, self.device)
        with progress(self.max_rounds, self.verbose) as show:
            trace = Trace(show)
            outcome = simulate(spec, placed, schedule, trace=trace, gone=gone)
        self._times = [began, time.time()]
        if self.device != AUTO and all(isinstance(t, np.ndarray) for t in tables):
            outcome = brought_back(outcome)
        if gone:
            here = [c for c in range(len(numbered)) if c not in gone]
            outcome = _of_these(outcome, here)
        self.privacy_ = getattr(spec.parameters, "privacy", None)
        self._keep(outcome, names)
        for doubt in self._doubts(sizes, outcome.clustering):
            warn_user(doubt)
        return outcome

    def _keep(self, outcome: Outcome, names: list[str]) -> None:
        finished = outcome.finished
        self.n_rounds_ = finished.rounds
        self.upload_bytes_ = sum(t.bytes for t in finished.tallies.values())
        self.trace_ = finished.trace
        self._fitted(outcome.clustering, finished.clustering, outcome.rank)
        self._unscale(finished.terms.box)
        last = None
        if outcome.clustering.centers is not None:
            columns = [str(name) for name in self.center_columns_]
            last = Answered.of(outcome.clustering, self._box, columns)
        sizes = self.cluster_sizes_.tolist()
        self._follow(self._lineage.followed(last, sizes, names))
        for change in self.changes_:
            self.trace_.add("change", tick=0, **change.described())
        has_spreads = last is not None and outcome.clustering.cells is not None
        self.cluster_spreads_ = (
            last.spreads if has_spreads and last is not None else None
        )
        self._result = self._described(outcome, names)
        self._filled = outcome.filled

    def _described(self, outcome: Outcome, names: list[str]) -> dict[str, Any]:
        """Return what ``result.json`` would hold of this run: no row and no label."""
        columns = [str(name) for name in self.center_columns_]
        asked = {"privacy": self.privacy_ or "rival", "min_cell": self._least()}
        parameters = {"seed": self._seed, **storage.plain_params(self), **asked}
        features = () if self._embedding is None else self._embedding.features
        dates = () if self._embedding is None else self._embedding.dates
        run = (outcome, names, columns, parameters, features)
        return {**describe_simulated(*run), "dates": list(dates)}

    def _fitted(self, clustering: Clustering, raw: Clustering, rank: Ints) -> None:
        self.n_clusters_ = clustering.k
        self.cluster_sizes_ = clustering.sizes.astype(np.int64)
        self.scores_ = dict(clustering.scores)
        self.__dict__.update(trust.attributes(clustering.trust))
        # What the server heard stays with the lineage.
        self._clustering = replace(clustering, cells=None)
        self._raw = replace(raw, cells=None)
        self._rank = rank

    def _unscale(self, box: Box) -> None:
        clustering = self._clustering
        self._box = box
        self.cluster_centers_ = (
            None if clustering.centers is None else box.unscale(clustering.centers)
        )
        self.path_ = KPath.of(clustering.path, box)
        self.__dict__.update(shape.attributes(clustering, box, self._shape()))

    def __sklearn_tags__(self) -> Any:
        """Say that missing values are allowed where something is done about them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def _of_these(outcome: Outcome, clients: Sequence[int]) -> Outcome:
    """Return what is known of these clients only: the others are gone."""
    return replace(
        outcome,
        labels=tuple(outcome.labels[c] for c in clients),
        set_aside=tuple(outcome.set_aside[c] for c in clients if outcome.set_aside),
        filled=tuple(outcome.filled[c] for c in clients if outcome.filled),
    )
