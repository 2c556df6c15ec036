# SPDX-License-Identifier: Apache-2.0
"""FedGEM: steps, balls and radii by hand; rounds, vote, late joiners, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import make_method
from afcl.core.messages import Cells, Left, Positions, Update
from afcl.data.split import iid_split
from afcl.data.synthetic import make_mixture
from afcl.exceptions import InputError, RejectedMessage
from afcl.metrics import adjusted_rand
from afcl_bench.methods.fedgem import GRID, FedGEM, Mixtures, SilhouetteVote
from afcl_bench.methods.fedgem_mixture import (
    MixtureStep,
    attract,
    em_step,
    final_radii,
    fit_of,
    levels,
    local_start,
    super_clusters,
)

#: What a client draws from; this method draws nothing.
RNG = np.random.default_rng(0)


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def part(means, radii, masses=None):
    masses = np.ones(len(means)) if masses is None else np.array(masses, float)
    return MixtureStep(column(*means), np.array(radii, float), masses)


def gaps_of(positions):
    return np.abs(np.subtract.outer(positions, positions))


class Federation:
    """A method with its state and its clients' memories."""

    def __init__(self, tables, **options):
        self.method = FedGEM()
        self.params = self.method.parameters(**options)
        self.tables, self.memory = tables, {}
        self.state = self.method.init((), self.params, 0)
        for g in range(len(tables)):
            self.join(g)
        self.state = self.method.prepare(self.state)

    def join(self, g):
        hello = self.method.hello(self.tables[g], self.params, RNG)
        self.state, _ = self.method.absorb(self.state, replace(hello, client=g))

    def answer(self, sent, g):
        update, self.memory[g] = self.method.client_step(
            sent, self.tables[g], self.memory.get(g), self.params, RNG
        )
        return replace(update, client=g, version=sent.version, contact=1)

    def round(self, *present):
        sent = self.method.broadcast(self.state)
        for g in present:
            self.state, _ = self.method.absorb(self.state, self.answer(sent, g))
        self.state = self.method.end_round(self.state)


@pytest.fixture
def pair(seed):
    """Two clients that see the same three groups."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    return [spots[np.arange(60) % 3] + rng.normal(0, 0.05, (60, 2)) for _ in range(2)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"local_clusters": 0}, "local_clusters must be a whole number"),
        ({"n_rounds": 1.5}, "n_rounds must be a whole number"),
        ({"v": -1}, "v must be a number of at least 0"),
        ({"tolerance": None}, "tolerance must be a number of at least 0"),
        ({"n_clusters": 3}, "no option 'n_clusters'"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("fedgem", **options)


# ------------------------------------------------------------------ a client


def test_em_step_by_hand():
    # One component: M is the mean 1, it moved by 1, it holds both rows.
    step = em_step(column(0.0, 2.0), column(0.0), 1.0)
    assert (step.means.item(), step.radii.item(), step.masses.item()) == (1.0, 1.0, 2.0)
    # Components 0 and 2, variance 1, row 0: odds 1 : exp(-4/2); row 2 the other way.
    odd = 1 / (1 + np.exp(-2.0))
    step = em_step(column(0.0, 2.0), column(0.0, 2.0), 1.0)
    assert np.allclose(step.means[:, 0], [2 * (1 - odd), 2 * odd])
    assert np.allclose(step.masses, 1.0)


def test_a_component_without_mass_stays():
    step = em_step(column(0.0, 0.1), column(0.0, 50.0), 1e-3)
    assert step.means[1, 0] == 50.0
    assert step.radii[1] == 0.0
    assert step.masses.tolist() == [2.0, 0.0]


def test_no_centre_in_the_ball_lowers_the_surrogate(seed):
    # Q(c) = -sum_i gamma_i |x_i - c|^2 per component; at the rim it equals Q(theta).
    rng = np.random.default_rng(seed)
    X, theta, variance = rng.random((30, 2)), rng.random((3, 2)), 0.05
    step = em_step(X, theta, variance)
    logits = -((X[:, None] - theta) ** 2).sum(axis=2) / (2 * variance)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    def surrogate(j, center):
        return -(shares[:, j] * ((X - center) ** 2).sum(axis=1)).sum()

    for j in range(3):
        for angle in rng.random(20) * 2 * np.pi:
            way = np.array([np.cos(angle), np.sin(angle)])
            rim = step.means[j] + step.radii[j] * way
            outside = step.means[j] + 1.1 * step.radii[j] * way
            assert np.isclose(surrogate(j, rim), surrogate(j, theta[j]))
            assert surrogate(j, outside) < surrogate(j, theta[j])


def test_the_start_can_be_repeated(pair):
    first, second = local_start(pair[0], 3), local_start(pair[0], 3)
    assert np.array_equal(first.means, second.means)
    assert first.counts.tolist() == [20, 20, 20]
    assert len(local_start(np.ones((4, 2)), 3)) == 1


def test_silhouettes_of_a_vote():
    # Rows 0 and 1 at centres 0 and 4: 1 - 0/4 and 1 - 1/3.
    assert np.isclose(fit_of(column(0.0, 1.0), column(0.0, 4.0)), 1 + 2 / 3)
    assert fit_of(column(0.0, 1.0), column(0.0)) == 0.0


def test_a_client_finds_its_own_components():
    # It reported 3 and 8; the server moved them to 2 and 9. Rows pull M to themselves.
    X, sent = (
        column(2.0, 9.0),
        Mixtures(column(5.0, 8.0, 3.0), column(0.0, 9.0, 2.0), 1e-3, ()),
    )
    method = FedGEM()
    answer, memory = method.step(
        sent, X, Positions(column(3.0, 8.0)), method.parameters(), RNG
    )
    assert answer.means[:, 0].tolist() == [2.0, 9.0]
    assert answer.radii.tolist() == [0.0, 0.0]
    assert np.array_equal(memory.points, answer.means)
    # What the server does not know of (a lost answer) is the client's own.
    answer, _ = method.step(
        sent, X, Positions(column(3.5, 8.0)), method.parameters(), RNG
    )
    assert answer.radii.tolist() == [1.5, 0.0]


# ------------------------------------------------------------------ the server


def test_balls_that_meet():
    # Owners 0, 0, 1 at 0, 1 and .4: 2 is closest to 0; 1 meets 2 as well, but then two
    # components of owner 0 would share a super-cluster.
    owners = np.array([0, 0, 1])
    gaps = gaps_of([0.0, 1.0, 0.4])
    assert super_clusters(owners, gaps, np.full(3, 1.0)).tolist() == [0, 1, 0]
    assert super_clusters(owners, gaps, np.full(3, 0.2)).tolist() == [0, 1, 0]
    assert super_clusters(owners, gaps, np.full(3, 0.1)).tolist() == [0, 1, 2]


def test_joining_through_others():
    # 0 - 1 - 2 in a chain, all of different owners: one super-cluster.
    gaps = gaps_of([0.0, 1.0, 2.0])
    assert super_clusters(np.arange(3), gaps, np.full(3, 0.5)).tolist() == [0, 0, 0]


def test_attraction_by_hand():
    # 0 and 1.5 with radii 1 meet. 1.5 projected into the ball of 0 is 1: mean .5; 0
    # projected into the other is .5: mean of 1.5 and .5 is 1. Radii of .5 do not meet.
    assert attract({0: part([0.0], [1.0]), 1: part([1.5], [1.0])})[:, 0].tolist() == [
        0.5,
        1.0,
    ]
    assert attract({0: part([0.0], [0.5]), 1: part([1.5], [0.5])})[:, 0].tolist() == [
        0.0,
        1.5,
    ]
    assert attract({0: part([2.0], [0.0]), 1: part([2.0], [0.0])})[:, 0].tolist() == [
        2.0,
        2.0,
    ]


def test_nobody_leaves_its_ball(seed):
    rng = np.random.default_rng(seed)
    parts = {
        g: MixtureStep(rng.random((4, 2)), rng.random(4) / 3, np.ones(4))
        for g in range(5)
    }
    moved = attract(parts)
    means = np.concatenate([p.means for p in parts.values()])
    radii = np.concatenate([p.radii for p in parts.values()])
    assert (np.linalg.norm(moved - means, axis=1) <= radii + 1e-12).all()
    assert not np.array_equal(moved, means)


def test_final_radii_by_hand():
    # Client 0 (4 rows): R = 1, k_g = 2: sqrt(1 * 2 / 2) = 1. Client 1 (16 rows) has one
    # component, R is the others' mean, 1: sqrt(1 * 1 / 4) = .5.
    owners, gaps = np.array([0, 0, 1]), gaps_of([0.0, 1.0, 5.0])
    assert final_radii(owners, gaps, {0: 4, 1: 16}).tolist() == [1.0, 1.0, 0.5]
    # Nobody has two: the largest distance, 5, over sqrt(1) and sqrt(25).
    owners, gaps = np.array([0, 1]), gaps_of([0.0, 5.0])
    assert np.allclose(final_radii(owners, gaps, {0: 1, 1: 25}) ** 2, [5.0, 1.0])


def test_levels_by_hand():
    # Radii at v: sqrt(v) (1, 1, .5). 1.6 is .6 from 1: joined from sqrt(v) = .4 on, at
    # (3 * 1 + 1 * 1.6) / 4 = 1.15, weighted by mass.
    parts = {0: part([0.0, 1.0], [0, 0], [1, 3]), 1: part([1.6], [0], [1])}
    centers = column(0.0, 1.0, 1.6)
    apart, together = levels(parts, centers, {0: 4, 1: 16}, (0.0, 0.1, 0.17, 0.2))
    assert apart[0][:, 0].tolist() == [0.0, 1.0, 1.6]
    assert apart[1].tolist() == [1.0, 3.0, 1.0]
    assert np.allclose(together[0][:, 0], [0.0, 1.15])
    assert together[1].tolist() == [1.0, 4.0]


# ------------------------------------------------------------------ a run


def test_k_from_local_k(seed):
    X, y = make_mixture(
        4, 3, separation=5, imbalance=1, random_state=seed, n_samples=600
    )
    model = make_method("fedgem", local_clusters=4, random_state=seed)
    model.fit(X, clients=iid_split(600, 4, seed))
    assert model.n_clusters_ == 4
    assert adjusted_rand(y, model.labels_) > 0.98
    assert model.n_rounds_ <= 11
    simplified = model.scores_["simplified"]
    assert simplified is not None
    assert 0.5 < simplified <= 1


def test_given_v_needs_no_vote(pair):
    run = Federation(pair, local_clusters=3, v=0.0, n_rounds=2, tolerance=0.0)
    run.round(0, 1)
    assert not run.state.finished
    run.round(0, 1)
    assert run.method.done(run.state)
    assert run.method.result(run.state).k == 6  # nothing joins at v = 0
    assert run.method.result(run.state).scores == {}
    wide = Federation(pair, local_clusters=3, v=1.0, n_rounds=1)
    wide.round(0, 1)
    assert wide.method.result(wide.state).k == 3


def test_an_answer_before_anybody_answered(pair):
    run = Federation(pair, local_clusters=3)
    alone = make_method("fedgem", local_clusters=3, v=GRID[4], participation=0.0)
    assert run.method.result(run.state).k == alone.fit_clients(pair).n_clusters_


def test_the_vote(pair):
    run = Federation(pair, local_clusters=3)
    for _ in range(10):
        if run.state.model.candidates:
            break
        run.round(0, 1)
    assert len(run.state.model.candidates) > 1
    late = run.method.broadcast(replace(run.state, version=0))
    stale = run.answer(late, 0)
    run.state, _ = run.method.absorb(run.state, stale)  # a vote on older candidates
    run.state = run.method.end_round(run.state)
    assert run.state.model.votes == {}
    run.round(0)
    assert run.method.broadcast(run.state).wanted == frozenset({1})
    assert not run.method.done(run.state)
    ended = replace(run.state, left=frozenset({1}))
    assert run.method.done(ended)
    run.round(1)
    assert run.method.done(run.state)
    assert run.method.result(run.state).k == 3


def test_votes_choose_the_best(pair):
    run = Federation(pair, local_clusters=3, n_rounds=1)
    run.round(0, 1)
    n = len(run.state.model.candidates)
    for favourite in range(n):
        votes = {0: np.zeros(n), 1: np.eye(n)[favourite] * 30}
        state = replace(run.state, model=replace(run.state.model, votes=votes))
        answer = run.method.result(state)
        assert answer.k == len(run.state.model.candidates[favourite][0])
        assert answer.scores == {"simplified": 30 / 120}


def test_a_late_joiner_reopens_the_run(pair):
    run = Federation(pair, local_clusters=3, v=0.1, n_rounds=2)
    run.round(0, 1)
    run.round(0, 1)
    assert run.method.done(run.state)
    run.tables = [*pair, pair[0] + 7.0]
    run.join(2)
    run.state = run.method.prepare(run.state)
    assert not run.method.done(run.state)
    assert run.state.model.rounds == 0
    assert list(run.state.model.parts) == [0, 1, 2]
    run.round(0, 1, 2)
    run.round(0, 1, 2)
    assert run.method.done(run.state)
    assert run.method.result(run.state).k == 6


def test_rest_ends_the_rounds_early(pair):
    run = Federation(pair, local_clusters=3, v=0.1, n_rounds=50, tolerance=10.0)
    run.round(0)
    assert not run.state.finished  # client 1 has not answered
    run.round(1)
    assert run.state.finished


def test_components_of_one_client_may_change_in_number(pair):
    run = Federation(pair, local_clusters=3, v=0.1, n_rounds=50)
    fewer = MixtureStep(np.zeros((1, 2)), np.zeros(1), np.array([60.0]))
    run.state, _ = run.method.absorb(
        run.state, Update(fewer, version=0, client=0, contact=1)
    )
    run.state = run.method.end_round(run.state)
    assert run.state.model.centers.shape == (4, 2)


def test_an_answer_remains_when_all_have_left(pair):
    run = Federation(pair, local_clusters=2)
    for g in range(2):
        run.state, _ = run.method.absorb(run.state, Left(g))
    assert run.method.result(run.state).k >= 2


# ------------------------------------------------------------------ refusals


def test_bad_hellos(pair):
    method = FedGEM()
    state = method.init((), method.parameters(local_clusters=2), 0)
    hello = method.hello(pair[0], method.parameters(local_clusters=2), RNG)
    cells = hello.payload
    for bad in (
        Positions(cells.means),
        local_start(pair[0], 3),
        replace(cells, counts=cells.counts * 9),
        Cells(cells.counts, cells.means, -cells.scatters),
    ):
        with pytest.raises(RejectedMessage):
            method.absorb(state, replace(hello, payload=bad, client=0))


def test_bad_updates(pair):
    run = Federation(pair, local_clusters=2)
    good = MixtureStep(np.zeros((2, 2)), np.zeros(2), np.array([20.0, 40.0]))
    run.method.absorb(run.state, Update(good, version=0, client=0, contact=1))
    for bad in (
        Positions(good.means),
        replace(good, means=np.zeros((3, 2))),
        replace(good, means=np.zeros((2, 3))),
        replace(good, radii=-np.ones(2)),
        replace(good, radii=np.zeros(3)),
        replace(good, radii=np.zeros(2, dtype=np.int64)),
        replace(good, masses=np.array([20.0, 50.0])),
        SilhouetteVote(np.zeros((1, 2))),
        SilhouetteVote(np.array([61.0])),
    ):
        with pytest.raises(RejectedMessage, match="expected"):
            run.method.absorb(run.state, Update(bad, version=0, client=0, contact=1))
