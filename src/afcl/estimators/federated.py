# SPDX-License-Identifier: Apache-2.0
"""What all clusterers share: tables in, a simulated federation, labels out."""

from __future__ import annotations

import copy
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from afcl._typing import Bools, Floats, Ints
from afcl.core.lineage import Answered
from afcl.core.protocol import AnyMethod, Clustering
from afcl.data.features import Embedding
from afcl.data.mixed import has_texts, rows_of
from afcl.estimators import shape, storage, trust
from afcl.estimators.answers import NumberedAnswers
from afcl.estimators.clients import Table, aligned, is_source
from afcl.estimators.kpath import KPath
from afcl.estimators.mixed import (
    as_tables,
    embed,
    found_in_rows,
    public_bounds,
    warn_of_owners,
    without_owners,
)
from afcl.estimators.rows import (
    by_owner,
    kept_rows,
    owners_of,
    rows_at,
    without_gaps,
)
from afcl.estimators.told import warn_user
from afcl.exceptions import InputError, SmallClientsWarning
from afcl.gaps import AVAILABLE, IMPUTE, KEEPING
from afcl.methods.presets import at_default_level
from afcl.runtime.coordinator import Spec
from afcl.runtime.schedule import as_schedule
from afcl.runtime.simulate import Outcome, rows_that_speak, simulate, too_small
from afcl.scale import Box
from afcl.trace import Event, Trace

logger = logging.getLogger("afcl")

MISSING = ("error", "drop", IMPUTE, AVAILABLE)


class FederatedClusterer(NumberedAnswers, ClusterMixin, BaseEstimator):
    """The part of a clusterer that does not depend on its method.

    Attributes
    ----------
    n_clusters_ : int
        The number of clusters found.
    cluster_centers_ : ndarray of shape (n_clusters_, n_features) or None
        In the units of the data; clusters are numbered by size, largest first.
    cluster_sizes_ : ndarray of shape (n_clusters_,)
        Rows in every cluster.
    labels_ : ndarray of shape (n_samples,)
        Cluster of every training row, in the order of the input.
    client_labels_ : list of ndarray
        The same, one array per client.
    scores_ : dict of str to float or None
        Indices of the answer, as the federation knows them.
    path_ : KPath
        Every k that was considered.
    structure_ : dict or None
        Whether there are clusters: `verdict` is "clusters", "none" or "unclear", `gain`
        how much better they explain the rows than a single cloud (nats a row). None,
        as what follows is None or empty, where the method does not judge itself.
    k_confidence_ : float or None
        How often `n_clusters_` comes out when what the clients said is resampled.
        Of a k that `granularity` asked for: how often all of its clusters come back.
    k_confidences_ : dict of int to float
        The same of every k that came out.
    cluster_stability_ : ndarray of shape (n_clusters_,)
        How much of every cluster comes back on average, 0 to 1.
    levels_ : ndarray of int
        Every k that can be believed, the answer's own among them.
    shape_ : dict or None
        What the clusters look like: `name` is "convex" or "connected", `reason` says
        why. None where the method knows no shapes.
    cells_ : dict or None
        Of connected clusters, the cells they consist of: `means`, in the units of the
        data, and `rows`. None of convex ones, as are the next two.
    cell_labels_ : ndarray of shape (n_cells,) or None
        The cluster of every cell.
    cell_sparse_ : ndarray of bool of shape (n_cells,) or None
        Which cells are much sparser than their cluster: rows there may be outliers.
    n_rounds_, upload_bytes_ : int
        Rounds the run took, and bytes all clients sent up.
    privacy_ : str or None
        The privacy level the run had, also where none was named; None for a method
        that knows no levels.
    trace_ : Trace
        Everything that happened.
    answer_ : int
        Number of the answer: 1 after a fit, one more after every :meth:`update` and
        :meth:`forget`.
    cluster_names_ : list of str
        What the clusters are called: a name stays with its cluster from answer to
        answer. In the first one `c0` is label 0.
    changes_ : list of Change
        What is not as it was in the answer before: clusters that were born, split,
        merged, died or have drifted.
    history_ : list of NumberedAnswer
        All answers so far.
    """

    participation: Any
    scale: Any
    missing: str
    #: Columns whose levels have an order, and these; None: none is declared.
    ordinal: Mapping[str, Sequence[Any]] | None = None
    max_rounds: int
    random_state: Any
    verbose: bool
    cluster_centers_: Any
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
    _embedding: Embedding | None = None

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
        self, X: Any, y: Any = None, *, clients: ArrayLike | str | None = None
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

        Returns
        -------
        self
            The fitted estimator.
        """
        warn_of_owners(y, clients)
        X, clients = without_owners(X, clients)
        self._embedding = None
        if self.ordinal or has_texts(X):
            owner, names = owners_of(clients, len(X))
            self._embedding = embed([X], self._least(), owner, self.ordinal)
        rows: Floats = self._checked(X, reset=True)
        owner, names = owners_of(clients, rows.shape[0])
        self._begin(names)
        kept = kept_rows(rows, self.missing)
        order, ends = by_owner(owner, len(names))
        groups = [own[kept[own]] for own in np.split(order, ends)]
        outcome = self._run([rows_at(rows, index) for index in groups], names)
        self._fit_rows = [rows]
        self.labels_ = np.full(rows.shape[0], -1, dtype=np.int64)
        for index, labels in zip(groups, outcome.labels, strict=True):
            self.labels_[index] = labels
        self.client_labels_ = [self.labels_[own] for own in np.split(order, ends)]
        return self

    def fit_clients(self, tables: Sequence[Any] | Mapping[str, Any]) -> Self:
        """Cluster one table per client.

        Parameters
        ----------
        tables : sequence or mapping of array-like of shape (n_rows, n_features)
            Arrays, pandas or Polars frames, by the clients' names if these matter;
            frames are matched by column name, and their columns of texts are
            categories. Also tables that are kept elsewhere, such as
            :class:`~afcl.runtime.cluster.ClusterTable`.

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
        held: list[Any] = [tables[name] for name in names]
        self._tables = dict(tables)
        self._embedding = embed(held, self._least(), ordinal=self.ordinal)
        if self._embedding is not None:
            columns: tuple[str, ...] | None = tuple(map(str, held[0].columns))
            held = [rows_of(t, self._embedding, i) for i, t in enumerate(held, 1)]
        else:
            held, columns = aligned(held)
        given: list[Any] = [
            table
            if is_source(table)
            else check_array(
                table,
                dtype=np.float64,
                ensure_all_finite=self._finite(),
                input_name=f"table {g}",
            )
            for g, table in enumerate(held)
        ]
        self.n_features_in_ = given[0].shape[1] if columns is None else len(columns)
        if columns is not None:
            self.feature_names_in_ = np.asarray(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if any(is_source(table) for table in given):
            return self._fit_sources(given, names)
        masks = [kept_rows(a, self.missing) for a in given]
        kept = [a if m.all() else a[m] for a, m in zip(given, masks, strict=True)]
        outcome = self._run(kept, names)
        self._fit_rows = given
        ends = np.cumsum([mask.shape[0] for mask in masks])
        self.labels_ = outcome.joined_labels
        if self.labels_.shape[0] < ends[-1]:  # rows were dropped
            self.labels_ = np.full(ends[-1], -1, dtype=np.int64)
            self.labels_[np.concatenate(masks)] = outcome.joined_labels
        self.client_labels_ = np.split(self.labels_, ends[:-1])
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

    def _least(self) -> int:
        """Return how many rows of a level a client needs to name it."""
        return int(getattr(self, "min_cell", 1))

    def _checked(self, X: Any, reset: bool) -> Floats:
        """Return rows as numbers, or refuse them; remember what they are, if asked."""
        finite = self._finite()
        if self._embedding is None:
            rows: Floats = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite
            )
            return rows
        if reset:
            self.feature_names_in_ = np.asarray(list(map(str, X.columns)), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        given = rows_of(X, self._embedding) if hasattr(X, "columns") else X
        checked: Floats = check_array(given, dtype=np.float64, ensure_all_finite=finite)
        width = len(self._embedding.names)
        if checked.shape[1] != width:
            raise InputError(
                f"X has {checked.shape[1]} columns, categories and numbers make "
                f"{width}: pass a frame"
            )
        return checked

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return what the columns of `cluster_centers_` are called.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            The names of the columns; a category has one for each of its levels, unless
            these have an order.
        """
        check_is_fitted(self, "n_clusters_")
        if self._embedding is not None:
            return np.asarray(self._embedding.names, dtype=object)
        numbered = [f"x{i}" for i in range(self.n_features_in_)]
        return np.asarray(getattr(self, "feature_names_in_", numbered), dtype=object)

    def _finite(self) -> bool | str:
        if self.missing not in MISSING:
            raise InputError(
                f"missing={self.missing!r} is unknown: give 'error', 'drop', 'impute' "
                "or 'available'"
            )
        return True if self.missing == "error" else "allow-nan"

    def _run(self, tables: Sequence[Table], names: list[str]) -> Outcome:
        """Run the federation of these clients; who is gone keeps its number."""
        method, options = self._method()
        scale, bounds = public_bounds(self.scale, self._embedding)
        speak = [rows_that_speak(table, self.missing, bounds) for table in tables]
        enough = sum(n >= self._least() for n in speak)
        options, _ = at_default_level(method, options, max(1, enough), scale)
        sizes = [table.shape[0] for table in tables]
        self._before_run(sizes, options)
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
        trace = Trace(_log if self.verbose else None)
        schedule = as_schedule(self.participation)
        numbered, gone = self._numbered(tables, names)
        for note in too_small(spec, numbered, gone).values():
            warn_user(SmallClientsWarning(note))
        outcome = simulate(spec, numbered, schedule, trace=trace, gone=gone)
        if gone:
            here = [c for c in range(len(numbered)) if c not in gone]
            outcome = replace(outcome, labels=tuple(outcome.labels[c] for c in here))
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
            columns = [str(name) for name in self.get_feature_names_out()]
            last = Answered.of(outcome.clustering, self._box, columns)
        sizes = self.cluster_sizes_.tolist()
        self._follow(self._lineage.followed(last, sizes, names))
        for change in self.changes_:
            self.trace_.add("change", tick=0, **change.described())

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

    # ------------------------------------------------------------------ using

    def predict(self, X: Any) -> Ints:
        """Label new rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows, in the units of the data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of every row: with ``missing="drop"`` -1 for a row with missing
            values, with "impute" and "available" by the values it has (-1: it has
            none).
        """
        rows, kept = self._new_rows(X)
        labels = np.full(rows.shape[0], -1, dtype=np.int64)
        method, _ = self._method()
        scaled = without_gaps(self._box.scale(rows[kept]), self._raw.landmarks)
        labels[kept] = self._rank[method.label(self._raw, scaled, None, None)]
        return labels

    def _new_rows(self, X: Any) -> tuple[Floats, Bools]:
        check_is_fitted(self, "n_clusters_")
        rows = self._checked(X, reset=False)
        return rows, kept_rows(rows, self.missing)

    def cut(self, k: int, X: Any = None) -> Ints:
        """Label rows for another k on the path, without a new run.

        Parameters
        ----------
        k : int
            One of ``path_.k``.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to label; None: the training rows (a model that was loaded or
            unpickled has none).

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Nearest centre of the path's level k; where clusters are not round, the
            cluster of that level at the nearest place.
        """
        check_is_fitted(self, "n_clusters_")
        levels = {level.k: level for level in self._clustering.path}
        if k not in levels:
            known = ", ".join(str(k) for k in sorted(levels)) or "none"
            raise InputError(f"k={k} is not on the path; it holds {known}")
        if X is None and self._fit_rows is None:
            raise InputError("this model holds no rows: call cut(k, X)")
        given = np.concatenate(self._fit_rows or ()) if X is None else X
        rows, kept = self._new_rows(given)
        labels = np.full(rows.shape[0], -1, dtype=np.int64)
        places = shape.places_at(self._clustering, levels[k])
        scaled = without_gaps(self._box.scale(rows[kept]), places.means)
        labels[kept] = places.label(scaled)
        return labels

    # ------------------------------------------------------------------ keeping

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: what :meth:`save` keeps, and no training row."""
        state: dict[str, Any] = super().__getstate__()
        return storage.without_rows(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle held; older ones held the rows, which go, and no trust."""
        super().__setstate__(storage.up_to_date(state))

    def __copy__(self) -> Self:
        """Copy within this process, where the rows may stay."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy deeply within this process, where the rows may stay."""
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def save(self, path: Path | str) -> None:
        """Write the fitted model to a folder: ``model.json`` and ``arrays.npz``.

        Neither holds a training row (but for the `pooled-` references, whose server has
        them all); a :class:`Schedule` given as `participation` is not kept.
        """
        check_is_fitted(self, "n_clusters_")
        storage.save(self, Path(path))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a model that :meth:`save` wrote."""
        return storage.load(cls, Path(path))

    def __sklearn_tags__(self) -> Any:
        """Say that missing values are allowed where something is done about them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def _log(event: Event) -> None:
    if event["event"] in ("prepare", "end"):
        logger.info("round %s: k = %s (%s)", event["round"], event["k"], event["event"])
