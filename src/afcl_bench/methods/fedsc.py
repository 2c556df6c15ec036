# SPDX-License-Identifier: Apache-2.0
"""FedSC: a shared dictionary compresses the kernel, the server cuts its graph.

K(X, X) is approximated by C^T K(Z, Z) C. The dictionary Z (a few points in the space of
the rows) is learned in rounds: every client codes its rows by kernel ridge regression
on Z, moves Z by one fixed-point step towards its own rows, and the server averages.
Then the clients upload their codes C, and the server does spectral clustering on the
approximated kernel.

Qiao, Ding and Fan, "Federated spectral clustering via secure similarity
reconstruction", NeurIPS 2023. Where we depart from it:

* The published code takes kernel width and size of the dictionary from the pooled rows.
  Here s^2 = 2 tr(Cov), the mean squared distance of two rows, comes from the moments in
  the hellos (those heard before the first round), and there are min(100, n / 4) atoms.
* The server draws the first dictionary: a mean of p standard normal ones, which is what
  averaging the clients' own draws gives, is normal with variance 1/p.
* The codes belong to the last dictionary, not to the one before it.
* Spectral clustering is quadratic in the rows. Above `max_rows` rows in all each client
  uploads codes of a drawn share of its rows; the others are labelled like new rows.
* A new row x has the code c = (K_zz + penalty I)^-1 k(Z, x) and the similarities
  c^T K_zz C to the coded rows; the majority among its nearest ones labels it.
* `neighbours` says how many similarities of a row the graph keeps: the published code's
  logarithm of n, or (0) all of them.
* Whoever is there takes part in a round: the average is over the answers that have
  arrived. Before any codes have arrived the answer is one cluster.

Averaging dictionaries that are each best for one client pulls the atoms between the
clients; where clients do not overlap the kernel is approximated badly.

Uploaded: the sum and the summed squared length of the rows, the dictionary in every
round, then one code per row (up to `max_rows`) and a random receipt by which the client
finds its rows in the result. **The codes give the server the kernel between all rows.**
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.protocol import Clustering, Diagnostics, server_rng
from afcl.methods.rival import Rival, RivalState, expect
from afcl_bench.methods.dictionary import Kernel, distinct_codes, knn_graph, majority
from afcl_bench.methods.fedsc_messages import (
    BOUND,
    RECEIPTS,
    FedSpectralParams,
    SpectralAtoms,
    SpectralCodes,
    SpectralMemory,
    SpectralMoments,
    SpectralPlan,
    check_atoms,
    check_codes,
    check_moments,
)
from afcl_bench.methods.spectral import spectral_labels

#: Runs of k-means in the spectral clustering.
RESTARTS = 50
# Purposes of the server's draws.
START = 0
CUT = 1


@dataclass(frozen=True, slots=True)
class SpectralModel:
    """The dictionary after so many rounds; then the codes, by client."""

    kernel: Kernel
    rounds: int
    codes: dict[ClientId, SpectralCodes]
    movement: float = math.inf


class FedSpectral(Rival):
    """Spectral clustering on a kernel learned in rounds."""

    name = "fedsc"
    Params = FedSpectralParams

    def settle(self, params: Any, n_rows: int) -> FedSpectralParams:
        """Fix the size of the dictionary and the share of coded rows."""
        settled: FedSpectralParams = params.settled(n_rows)
        return settled

    # ------------------------------------------------ hello

    def first(
        self, X: Floats, params: Any, rng: np.random.Generator
    ) -> SpectralMoments:
        """Send the moments the kernel's width follows from."""
        return SpectralMoments(X.sum(axis=0), float((X * X).sum()))

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect moments that so many rows can have."""
        return check_moments(hello, n_rows)

    def start(self, state: RivalState) -> SpectralModel:
        """Settle the width and draw the first dictionary."""
        params: FedSpectralParams = state.params
        rng = server_rng(state.seed, START, 0)
        atoms = rng.standard_normal((params.atoms or 1, state.n_features))
        atoms /= math.sqrt(len(state.hellos))
        width = params.width or common_width(state)
        return SpectralModel(Kernel(atoms, width, params.penalty), 0, {})

    # ------------------------------------------------ rounds

    def message(self, state: RivalState) -> SpectralPlan:
        """Send the dictionary."""
        kernel = state.model.kernel
        return SpectralPlan(kernel.atoms, kernel.width, self._final(state))

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Want everybody, then whoever has not sent codes."""
        active = state.active()
        if not self._final(state):
            return frozenset(active)
        return frozenset(c for c in active if c not in state.model.codes)

    @staticmethod
    def _final(state: RivalState) -> bool:
        final: bool = state.model.rounds >= state.params.rounds
        return final

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[SpectralAtoms | SpectralCodes, Any]:
        """Move the dictionary; in the end, code the rows."""
        kernel = Kernel(broadcast.atoms, broadcast.width, params.penalty)
        if not broadcast.final:
            moved = np.clip(kernel.moved(X), -BOUND, BOUND)
            return SpectralAtoms(moved), memory
        if memory is None:
            n, m = X.shape[0], params.coded(X.shape[0])
            drawn = np.arange(n) if m == n else np.sort(rng.permutation(n)[:m])
            memory = SpectralMemory(drawn.astype(np.int64), int(rng.integers(RECEIPTS)))
        return SpectralCodes(kernel.codes(X[memory.drawn]), memory.receipt), memory

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect a dictionary of the same shape, or codes once they were asked for."""
        shape = state.model.kernel.atoms.shape
        if isinstance(reply, SpectralAtoms):
            check_atoms(reply, shape)
            return
        check_codes(reply, (state.params.coded(n_rows), shape[0]))
        expect(self._final(state), "a dictionary, no codes yet")

    def combine(self, state: RivalState) -> tuple[SpectralModel, bool]:
        """Average the dictionaries; in the end, collect the codes."""
        model: SpectralModel = state.model
        if self._final(state):
            sent = {
                update.client: update.payload
                for update in state.pending
                if isinstance(update.payload, SpectralCodes)
            }
            return replace(model, codes={**model.codes, **sent}, movement=0.0), False
        atoms = np.mean([update.payload.atoms for update in state.pending], axis=0)
        movement = float(((atoms - model.kernel.atoms) ** 2).sum())
        kernel = replace(model.kernel, atoms=atoms)
        return SpectralModel(kernel, model.rounds + 1, {}, movement), False

    def done(self, state: RivalState) -> bool:
        """Whether everybody who is here has sent codes."""
        return (
            state.model is not None
            and not state.joined
            and self._final(state)
            and not self.wanted(state)
        )

    # ------------------------------------------------ answer

    def cluster(self, state: RivalState) -> Clustering:
        """Cut the graph of all coded rows; one cluster before there are any."""
        model: SpectralModel = state.model
        if not model.codes:
            return Clustering(None, np.array([float(sum(state.rows.values()))]), {})
        clients = sorted(model.codes)
        replies = [model.codes[client] for client in clients]
        counts = [len(answer.codes) for answer in replies]
        codes = np.concatenate([answer.codes for answer in replies])
        neighbours = max(1, math.ceil(math.log(codes.shape[0])))
        asked = state.params.neighbours
        kept = neighbours if asked is None else asked or codes.shape[0]
        labels = spectral_labels(
            knn_graph(model.kernel.similarities(codes, codes), kept),
            min(state.params.k, distinct_codes(codes)),
            server_rng(state.seed, CUT, 0),
            RESTARTS,
        )
        shares = [state.rows[c] / m for c, m in zip(clients, counts, strict=True)]
        sizes = np.bincount(labels, np.repeat(shares, counts)).astype(np.float64)
        order = np.argsort(-sizes, kind="stable")
        receipts = np.array([answer.receipt for answer in replies], dtype=np.int64)
        known = {
            "atoms": model.kernel.atoms,
            "width": model.kernel.width,
            "penalty": model.kernel.penalty,
            "codes": codes,
            "receipts": np.repeat(receipts, counts),
            "clusters": np.argsort(order, kind="stable")[labels].astype(np.int64),
            "neighbours": neighbours,
        }
        return Clustering(None, sizes[order], {}, extra=known)

    def progress(self, state: RivalState) -> Diagnostics:
        """Return numbers worth showing, without cutting the graph."""
        model: SpectralModel = state.model
        return {
            "k": state.params.k if model.codes else 1,
            "objective": None,
            "version": state.version,
            "movement": model.movement,
            "seeds": None,
        }

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Label coded rows as the server did, the others by their neighbours."""
        known = clustering.extra
        labels = np.zeros(X.shape[0], dtype=np.int64)
        if not known:
            return labels
        rest = np.ones(X.shape[0], dtype=np.bool_)
        if memory is not None and memory.drawn[-1] < X.shape[0]:
            own = known["clusters"][known["receipts"] == memory.receipt]
            if own.shape == memory.drawn.shape:
                labels[memory.drawn] = own
                rest[memory.drawn] = False
        kernel = Kernel(known["atoms"], known["width"], known["penalty"])
        labels[rest] = majority(
            kernel, X[rest], known["codes"], known["clusters"], known["neighbours"]
        )
        return labels


def common_width(state: RivalState) -> float:
    """Return 2 tr(Cov) over all rows heard of; 1 where they do not vary."""
    n = sum(state.rows.values())
    mean = np.sum([reply.total for reply in state.hellos.values()], axis=0) / n
    square = sum(reply.squares for reply in state.hellos.values()) / n
    variance = float(square - mean @ mean)
    return 2.0 * variance if variance > 1e-12 * square else 1.0
