# SPDX-License-Identifier: Apache-2.0
"""A Gaussian kernel compressed by a dictionary, its fixed-point step and its graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.seeding import distinct
from afcl.kernels import squared_distances

#: Similarities held at a time when new rows are labelled.
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Kernel:
    """k(x, y) = exp(-|x - y|^2 / (2 width)) through the atoms z of a dictionary.

    Attributes
    ----------
    atoms
        Z, one atom a row, (d_z, d).
    width
        s^2.
    penalty
        lambda, the ridge of the codes.
    """

    atoms: Floats
    width: float
    penalty: float

    def between(self, X: Floats, Y: Floats) -> Floats:
        """Return the kernel of every row of X with every row of Y."""
        kernel: Floats = np.exp(squared_distances(X, Y) / (-2.0 * self.width))
        return kernel

    def codes(self, X: Floats) -> Floats:
        """Return (K_zz + penalty I)^-1 k(Z, x) of every row x, (n, d_z)."""
        within = self.between(self.atoms, self.atoms)
        return self._codes(self.between(X, self.atoms), within)

    def _codes(self, across: Floats, within: Floats) -> Floats:
        ridge = within + self.penalty * np.eye(within.shape[0])
        return np.ascontiguousarray(np.linalg.solve(ridge, across.T).T)

    def moved(self, X: Floats) -> Floats:
        """Return the atoms after one fixed-point step towards the rows of X.

        The gradient of |phi(X) - phi(Z) C|^2 / 2 in Z, with the codes C held, is linear
        in Z but for the kernel; solving it gives Z = tau^-1 (C o K_zx) X. Atoms that no
        row needs make tau singular and go to the origin.
        """
        across = self.between(X, self.atoms)
        within = self.between(self.atoms, self.atoms)
        codes = self._codes(across, within)
        pull = codes * across
        push = (codes.T @ codes) * within
        tau = push + np.diag(pull.sum(axis=0) - push.sum(axis=0))
        return np.asarray(np.linalg.lstsq(tau, pull.T @ X)[0], dtype=np.float64)

    def similarities(self, left: Floats, right: Floats) -> Floats:
        """Return the approximated kernel c^T K_zz c' between coded rows."""
        approximated: Floats = left @ self.between(self.atoms, self.atoms) @ right.T
        return approximated


def knn_graph(similarities: Floats, neighbours: int) -> Floats:
    """Keep every row's largest similarities, scaled to [0, 1]; symmetric by maximum.

    A row is its own neighbour too, if it is among the nearest.
    """
    low, high = similarities.min(), similarities.max()
    spread = high - low
    flat = not spread > 1e-12 * abs(high)
    scaled = np.ones_like(similarities) if flat else (similarities - low) / spread
    n = scaled.shape[0]
    count = min(neighbours, n)
    nearest = np.argpartition(-scaled, count - 1, axis=1)[:, :count]
    rows = np.arange(n)[:, None]
    graph = np.zeros_like(scaled)
    graph[rows, nearest] = scaled[rows, nearest]
    return np.maximum(graph, graph.T)


def distinct_codes(codes: Floats) -> int:
    """Return the number of different codes, up to rounding."""
    return distinct(np.round(codes, 9))


def majority(
    kernel: Kernel, X: Floats, codes: Floats, clusters: Ints, neighbours: int
) -> Ints:
    """Label rows by the commonest cluster among their most similar coded rows.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
        Rows to label.
    codes : ndarray of shape (m, d_z)
        Of rows whose `clusters` are known.
    clusters : ndarray of shape (m,)
    neighbours : int
        Coded rows that vote; the lowest cluster wins a tie.

    Returns
    -------
    labels : ndarray of shape (n,)
    """
    count = min(neighbours, clusters.shape[0])
    labels = np.empty(X.shape[0], dtype=np.int64)
    step = max(1, BLOCK // codes.shape[0])
    for first in range(0, X.shape[0], step):
        found = kernel.similarities(kernel.codes(X[first : first + step]), codes)
        nearest = np.argpartition(-found, count - 1, axis=1)[:, :count]
        votes = np.zeros((found.shape[0], int(clusters.max()) + 1))
        np.add.at(votes, (np.arange(found.shape[0])[:, None], clusters[nearest]), 1.0)
        labels[first : first + step] = votes.argmax(axis=1)
    return labels
