# SPDX-License-Identifier: Apache-2.0
"""What a fitted clusterer says of rows: labels, distances, memberships, scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from afcl._typing import AnyArray, Bools, Floats, Ints
from afcl.core.lineage import Answered, Lineage
from afcl.core.protocol import AnyMethod, Clustering
from afcl.estimators import shape, spreads
from afcl.estimators.rows import kept_rows, without_gaps
from afcl.exceptions import InputError
from afcl.scale import Box


class OnNewRows(TransformerMixin):
    """The part of a clusterer that is used after a fit."""

    missing: str
    n_clusters_: int
    cluster_centers_: Any
    cluster_spreads_: Any
    _box: Box
    _clustering: Clustering
    _raw: Clustering
    _rank: Ints
    _fit_rows: list[Floats] | None
    _lineage: Lineage

    def _checked(self, X: Any, reset: bool) -> Floats:
        """Return rows as numbers, or refuse them."""
        raise NotImplementedError

    def _method(self) -> tuple[AnyMethod, dict[str, Any]]:
        """Return the method and its options."""
        raise NotImplementedError

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

    def transform(self, X: Any) -> Any:
        """Return the distances of rows to the centres.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in the units of the data.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters_)
            Euclidean, in the agreed units, in which a column's range is 1: the
            smallest one is the label's. NaN for a row that gets no label.
        """
        check_is_fitted(self, "n_clusters_")
        _needs_centers(self, "transform")
        rows, kept = self._new_rows(X)
        centers = self._clustering.centers
        assert centers is not None
        scaled = without_gaps(self._box.scale(rows[kept]), centers)
        return _filled(kept, _distances(scaled, centers))

    def predict_proba(self, X: Any) -> Floats:
        """Return how far rows belong to every cluster.

        The likeliest cluster of a row between two may be another than the one of
        :meth:`predict`, which goes by the nearest centre alone: a wide or large
        cluster reaches further.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in the units of the data.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_clusters_)
            From centres, `cluster_spreads_` and sizes; a row's add up to 1. NaN for a
            row that gets no label.
        """
        kept, densities = self._densities(X, "predict_proba")
        return _filled(kept, spreads.shares(densities))

    def score_samples(self, X: Any) -> Floats:
        """Return how usual rows are; those with the lowest values are outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in the units of the data.

        Returns
        -------
        log_densities : ndarray of shape (n_samples,)
            Of the clusters as :meth:`predict_proba` sees them. NaN for a row that gets
            no label.
        """
        kept, densities = self._densities(X, "score_samples")
        return _filled(kept, spreads.total(densities))

    def score(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean simplified silhouette of rows; larger is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in the units of the data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            What each row counts for in the mean.

        Returns
        -------
        score : float
            Between -1 and 1: the mean of (b - a) / max(a, b), a being a row's distance
            to its centre and b that to the next; -1 where there is one cluster only.
            Rows that get no label do not count.
        """
        check_is_fitted(self, "n_clusters_")
        _needs_centers(self, "score")
        rows, kept = self._new_rows(X)
        centers = self._clustering.centers
        assert centers is not None
        if self.n_clusters_ < 2 or not kept.any():
            return -1.0
        scaled = without_gaps(self._box.scale(rows[kept]), centers)
        each = _simplified(_distances(scaled, centers))
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)[kept]
        return float(np.average(each, weights=weights))

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
        table = np.concatenate(self._fit_rows or ()) if X is None else X
        rows, kept = self._new_rows(table)
        labels = np.full(rows.shape[0], -1, dtype=np.int64)
        places = shape.places_at(self._clustering, levels[k])
        scaled = without_gaps(self._box.scale(rows[kept]), places.means)
        labels[kept] = places.label(scaled)
        return labels

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return what the columns of :meth:`transform` are called.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One per cluster: ``afcl0``, ``afcl1``, ... What the columns of the centres
            are called says `center_columns_`.
        """
        check_is_fitted(self, "n_clusters_")
        prefix = type(self).__name__.lower()
        names = [f"{prefix}{cluster}" for cluster in range(self.n_clusters_)]
        return np.asarray(names, dtype=object)

    def _new_rows(self, X: Any) -> tuple[Floats, Bools]:
        check_is_fitted(self, "n_clusters_")
        rows = self._checked(X, reset=False)
        return rows, kept_rows(rows, self.missing)

    def _densities(self, X: Any, what: str) -> tuple[Bools, Floats]:
        """Return which rows count, and their log densities at all clusters."""
        check_is_fitted(self, "n_clusters_")
        _needs_centers(self, what)
        answer = _with_spreads(self, what)
        rows, kept = self._new_rows(X)
        scaled = without_gaps(self._box.scale(rows[kept]), self._clustering.centers)
        return kept, spreads.log_densities(self._box.unscale(scaled), answer)


def _needs_centers(model: OnNewRows, what: str) -> None:
    """Refuse what cannot be had without centres; the one place that says so."""
    if getattr(model, "cell_labels_", None) is not None:
        raise InputError(
            f"{what} needs clusters that are round a centre, these are labelled "
            "cells: predict labels new rows"
        )
    if model.cluster_centers_ is None:
        raise InputError(
            f"{what} needs centres, this method has none: predict labels new rows"
        )


def _with_spreads(model: OnNewRows, what: str) -> Answered:
    """Return the answer with its spreads, or say that nobody knows them."""
    answer = model._lineage.last if hasattr(model, "_lineage") else None
    if answer is None or model.cluster_spreads_ is None:
        raise InputError(
            f"{what} needs the spreads of the clusters, which this method's server "
            "does not hear (AFCL's default preset does)"
        )
    return answer


def _distances(scaled: Floats, centers: Floats) -> Floats:
    """Return the distances of rows to centres, both in agreed units."""
    found = np.empty((scaled.shape[0], centers.shape[0]))
    for cluster, center in enumerate(centers):
        away = scaled - center
        found[:, cluster] = np.sqrt((away * away).sum(axis=1))
    return found


def _simplified(distances: Floats) -> Floats:
    """Return the simplified silhouette of rows that belong to their nearest centre."""
    own, other = np.partition(distances, 1, axis=1)[:, :2].T
    parted: Floats = (other - own) / np.maximum(other, np.finfo(float).tiny)
    return parted


def _filled(kept: Bools, values: Floats) -> Floats:
    """Return values by row, NaN where a row does not count."""
    if kept.all():
        return values
    whole = np.full((kept.shape[0], *values.shape[1:]), np.nan)
    whole[kept] = values
    return whole
