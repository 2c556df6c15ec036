# SPDX-License-Identifier: Apache-2.0
"""DK++: k-means|| finds a start, distributed Lloyd goes on from it.

Bahmani et al., "Scalable k-means++", VLDB 2012. Starting from one row, every client
draws each of its rows with probability min(1, l d^2 / phi), where d is its distance to
the candidates so far, phi the summed squares over all clients and l = 2k; after r = 5
rounds the candidates, weighted by the rows nearest to them, are clustered at the
server. Then every client uploads sum and count of its rows around each centre.

A start takes 2r + 1 questions: `cover` (what do the candidates cost you?) and `sample`
in turn, the last cover also counting. Where we depart, for clients that are not
always there:

* The first candidate is the row of one client's hello (drawn by size), so that there
  is an answer from the first hello on; until the start is found it is hello rows.
* A phase of the start ends when every active client has answered it or, once somebody
  has, after `patience` rounds in a row without a new answer. An absent client's cost
  is its last one, its rows count for the candidates it sampled, in equal shares; late
  samples join the next ones.
* Further rounds of sampling (at most r) follow while there are fewer candidates than
  clusters; after that the answer has fewer clusters.
* ``aggregation="stale"`` moves the centres to the mean of everybody's last sums and
  counts (until there are any, of the candidates by their counts), which converges to
  pooled Lloyd; ``"present"`` uses the answers of the round alone, as a naive port does.
* The server clusters the candidates by the best of `restarts` runs, which costs no
  message.
* The end has come when the centres move by at most `tolerance` (Frobenius norm) and
  every active client has answered since they last moved farther.

A late joiner takes part from the next question on. The start is sought anew only if it
had fewer centres than asked for.

Uploaded: raw rows (one in the hello, about 2k in each of the r rounds from all clients
together), then k (d + 1) numbers a round. With everybody present this is pooled Lloyd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.messages import Positions, refuse_unless
from afcl.core.protocol import Clustering, server_rng
from afcl.exceptions import InputError
from afcl.kernels import assign, sums
from afcl.methods.rival import (
    KnownK,
    Rival,
    RivalState,
    check_at_least,
    expect,
    simple_clustering,
)
from afcl_bench.methods.dkpp_messages import (
    ANSWERS,
    COVER,
    LLOYD,
    SAMPLE,
    DkppCover,
    DkppQuestion,
    DkppSample,
    DkppSums,
    check_answer,
    expect_row,
)
from afcl_bench.methods.dkpp_model import (
    FIRST,
    DkppModel,
    counted,
    counting,
    expected,
    following,
    hello_rows,
    moved,
    noted,
    provisional,
)

AGGREGATIONS = ("stale", "present")


@dataclass(frozen=True, slots=True, kw_only=True)
class DkppParams(KnownK):
    """Constants of k-means|| and of Lloyd; see the module's docstring.

    `oversampling` is l / k, `restarts` those of the weighted k-means at the server.
    """

    sampling_rounds: int = 5
    oversampling: float = 2.0
    restarts: int = 10
    patience: int = 2
    aggregation: str = "stale"
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        check_at_least(self, 1, "sampling_rounds", "restarts", "patience")
        if not self.oversampling > 0:
            raise InputError(f"oversampling must be positive, not {self.oversampling}")
        if self.aggregation not in AGGREGATIONS:
            raise InputError(
                f"aggregation must be one of {AGGREGATIONS}, not {self.aggregation!r}"
            )
        if not self.tolerance >= 0:
            raise InputError(f"tolerance must not be negative, not {self.tolerance}")


class DKPlusPlus(Rival):
    """k-means|| and distributed Lloyd."""

    name = "dk++"
    Params = DkppParams

    # ------------------------------------------------ hello

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Positions:
        """Send one row, uniformly drawn."""
        return Positions(X[[int(rng.integers(X.shape[0]))]])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect one row."""
        return expect_row(hello)

    def start(self, state: RivalState) -> DkppModel:
        """Draw the first candidate: client g's row with probability n_g / n."""
        rows, mass = hello_rows(state)
        rng = server_rng(state.seed, FIRST, 0)
        pick = int(rng.choice(mass.shape[0], p=mass / mass.sum()))
        owner = np.array(sorted(state.hellos)[pick : pick + 1], dtype=np.int64)
        return DkppModel(*provisional(state), rows[[pick]], owner)

    def on_join(self, state: RivalState) -> DkppModel:
        """Stay; but look for more centres where there were too few."""
        model: DkppModel = state.model
        if model.start is None:
            centers, sizes = provisional(state)
            return replace(model, centers=centers, sizes=sizes)
        if model.phase == LLOYD and model.centers.shape[0] < state.params.k:
            return model.ask(COVER, draws=state.params.sampling_rounds)
        return model

    # ------------------------------------------------ question and answer

    def message(self, state: RivalState) -> DkppQuestion:
        """Send the candidates or the centres."""
        model: DkppModel = state.model
        return DkppQuestion(
            model.phase,
            model.stage,
            model.centers if model.phase == LLOYD else model.candidates,
            model.potential,
            counting(state, model),
        )

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Want whoever has not answered the question; a naive port asks everybody."""
        if self.done(state):
            return frozenset()
        model: DkppModel = state.model
        naive = model.phase == LLOYD and state.params.aggregation == "present"
        everybody = expected(state, model)
        return everybody if naive else everybody - model.answered

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[DkppCover | DkppSample | DkppSums, None]:
        """Answer the question."""
        labels, distances = assign(X, broadcast.points)
        stage, k = broadcast.stage, broadcast.points.shape[0]
        if broadcast.phase == SAMPLE:
            wish = params.oversampling * params.k * distances
            drawn = rng.random(X.shape[0]) * broadcast.potential < wish
            return DkppSample(stage, X[drawn]), None
        counts = np.bincount(labels, minlength=k).astype(np.int64)
        if broadcast.phase == COVER:
            sent = counts if broadcast.counting else counts[:0]
            return DkppCover(stage, float(distances.sum()), sent), None
        total = sums(X, np.ones(X.shape[0]), labels, k)[1]
        return DkppSums(stage, counts, total), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect an answer to the question, or a late one to an earlier question."""
        model: DkppModel = state.model
        expect(isinstance(reply, tuple(ANSWERS.values())), "a cost, rows or sums")
        refuse_unless(
            type(reply.stage) is int and 0 <= reply.stage <= model.stage,
            f"stage {reply.stage} was never asked, the newest is {model.stage}",
        )
        current = reply.stage == model.stage
        expect(
            not current or isinstance(reply, ANSWERS[model.phase]),
            f"an answer to the question '{model.phase}'",
        )
        expect(
            not isinstance(reply, DkppSums) or model.start is not None,
            "no sums before there are centres",
        )
        of_these = reply.stage >= model.since
        check_answer(
            reply,
            state.n_features,
            n_rows,
            counted(state, model) if current else None,
            model.centers.shape[0] if of_these else None,
        )

    # ------------------------------------------------ what follows from answers

    def end_round(self, state: RivalState) -> RivalState:
        """As every rival; a phase of the start may also end in a quiet round."""
        model: DkppModel | None = state.model
        if state.pending or model is None or model.phase == LLOYD:
            return super().end_round(state)
        if not model.answered:
            return state
        later, _ = self.combine(state)
        version = state.version
        if later.stage != model.stage:
            version += 1
        return replace(state, model=later, version=version)

    def combine(self, state: RivalState) -> tuple[DkppModel, bool]:
        """Note the answers; go on where the question has been answered."""
        old: DkppModel = state.model
        model = old
        for update in state.pending:
            model = noted(model, update)
        if model.phase == LLOYD:
            return moved(model, state), False
        news = model.answered != old.answered
        model = replace(model, quiet=0 if news else model.quiet + 1)
        complete = model.answered >= expected(state, model)
        patient = model.quiet < state.params.patience
        if not model.answered or (patient and not complete):
            return model, False
        return following(model, state), False

    def done(self, state: RivalState) -> bool:
        """Whether every active client has answered for centres that rest."""
        model: DkppModel | None = state.model
        return (
            model is not None
            and not state.joined
            and (model.phase == LLOYD or not state.active())
            and model.answered >= frozenset(state.active())
        )

    def cluster(self, state: RivalState) -> Clustering:
        """Leave out centres without rows."""
        held = state.model.sizes > 0
        return simple_clustering(state.model.centers[held], state.model.sizes[held])
