# SPDX-License-Identifier: Apache-2.0
"""DK++: questions and answers by hand, pooled Lloyd, absent clients, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import Hello, Left, Positions, Update
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.methods.rival import RivalState
from afcl.runtime.coordinator import Spec
from afcl.runtime.schedule import EventClock, Rounds
from afcl.runtime.simulate import simulate
from afcl.testing import check_method
from afcl_bench.methods.dkpp import DKPlusPlus, DkppParams
from afcl_bench.methods.dkpp_messages import (
    COVER,
    LLOYD,
    SAMPLE,
    DkppCover,
    DkppQuestion,
    DkppSample,
    DkppSums,
)
from afcl_bench.methods.dkpp_model import DkppModel

METHOD = DKPlusPlus()
NONE: Any = None


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def ints(*values):
    return np.array(values, dtype=np.int64)


def blobs(seed, n=40):
    rng = np.random.default_rng(seed)
    spots = np.array([[0, 0], [0, 3], [3, 0], [3, 3], [1.5, 1.5]])
    X = spots[np.arange(5 * n) % 5] + rng.normal(0, 0.8, (5 * n, 2))
    return [X[np.arange(5 * n) % 7 == g] for g in range(7)]


def asked(phase, points, potential=0.0, counting=False):
    return DkppQuestion(phase, 3, points, potential, counting)


def answer(question, X, k=1, seed=0):
    params = DkppParams(n_clusters=k)
    return METHOD.step(question, X, None, params, np.random.default_rng(seed))[0]


def run(tables, schedule=None, seed=0, max_rounds=100, **options):
    spec = Spec(get_method("dk++"), options, seed, max_rounds=max_rounds)
    return simulate(spec, tables, schedule)


def greeted(*tables, **options):
    """Return the state after hellos of these clients, which send their first row."""
    hellos = [Hello(len(t), Positions(t[:1]), client=g) for g, t in enumerate(tables)]
    params = METHOD.parameters(**options)
    return METHOD.prepare(METHOD.init(hellos, params, 0))


def told(state, client, X, seed=0):
    """Return the state after an answer to the question of the moment."""
    said = METHOD.client_step(
        METHOD.broadcast(state), X, None, state.params, np.random.default_rng(seed)
    )[0]
    stamped = replace(said, client=client, version=state.version, contact=1)
    return METHOD.absorb(state, stamped)[0]


def rounds(state, tables, clients, n=1):
    """Let these clients answer n questions."""
    for turn in range(n):
        for client in clients:
            state = told(state, client, tables[client], seed=turn)
        state = METHOD.end_round(state)
    return state


def test_checks_with_whoever_is_present(seed):
    check_method("dk++", seed, aggregation="present")


# ------------------------------------------------------------------ by hand


def test_a_cover_is_the_sum_of_squares():
    # 0 and 1 are nearest to 0 (squares 0 and 1), 4 to 3 (square 1).
    X, points = column(0, 1, 4), column(0, 3)
    said = answer(asked(COVER, points), X)
    assert said.cost == 2.0
    assert said.counts.shape == (0,)
    said = answer(asked(COVER, points, counting=True), X)
    assert said.counts.tolist() == [2, 1]


def test_rows_are_sampled_by_their_square(seed):
    # l = 2: with phi = 2 a square of 1 is drawn for certain, a square of 0 never.
    X, points = column(0, 1, 4), column(0, 3)
    said = answer(asked(SAMPLE, points, potential=2.0), X, seed=seed)
    assert said.points.tolist() == [[1.0], [4.0]]
    # Squares of 1 at l = 2 and phi = 20000: one in 10000, of 20000 rows about 2.
    many = np.ones((20000, 1))
    said = answer(asked(SAMPLE, column(0), potential=20000.0), many, seed=seed)
    assert 0 <= len(said.points) < 15


def test_lloyd_asks_for_counts_and_sums():
    said = answer(asked(LLOYD, column(0, 3, 9)), column(0, 1, 4))
    assert said.counts.tolist() == [2, 1, 0]
    assert said.sums.tolist() == [[1.0], [4.0], [0.0]]


def lloyd_state(aggregation, pending):
    """Two centres 0 and 10; client 0 said 2 rows with sum 2, and 1 row at 10."""
    parts = {0: (np.array([2.0, 1.0]), column(2, 10))}
    model = DkppModel(
        column(0, 10), np.array([2.0, 1.0]), column(0), ints(0), phase=LLOYD, stage=5
    )
    model = replace(model, start=column(0, 10), since=5, parts=parts)
    params = DkppParams(n_clusters=2, aggregation=aggregation)
    rows = {0: 3, 1: 4}
    return RivalState(params, 0, 1, rows=rows, pending=pending, version=9, model=model)


def test_stale_adds_everybodys_last_sums():
    said = DkppSums(5, ints(1, 3), column(4, 36))
    state = lloyd_state("stale", (Update(said, 9, client=1, contact=1),))
    model, _ = METHOD.combine(state)
    # (2 + 4) / (2 + 1) = 2 and (10 + 36) / (1 + 3) = 11.5; it moved by 2 and 1.5.
    assert model.centers.tolist() == [[2.0], [11.5]]
    assert model.movement == 2.5
    assert model.sizes.tolist() == [3.0, 4.0]
    assert (model.stage, model.answered) == (6, frozenset())


def test_present_uses_the_round_alone():
    said = DkppSums(5, ints(0, 4), column(0, 44))
    state = lloyd_state("present", (Update(said, 9, client=1, contact=1),))
    model, _ = METHOD.combine(state)
    # Nothing near the first centre: it stays. 44 / 4 = 11.
    assert model.centers.tolist() == [[0.0], [11.0]]
    assert model.sizes.tolist() == [2.0, 5.0]  # client 0 counts as it last said
    assert METHOD.wanted(replace(state, model=model)) == {0, 1}


def test_present_stays_where_only_something_late_arrived():
    late = Update(DkppSample(3, column(7)), 7, client=1, contact=1)
    model, _ = METHOD.combine(lloyd_state("present", (late,)))
    assert model.centers.tolist() == [[0.0], [10.0]]


def test_sums_of_an_earlier_start_are_not_used():
    late = Update(DkppSums(4, ints(4), column(44)), 8, client=1, contact=1)
    state = lloyd_state("stale", (late,))
    METHOD.check_update(state, late.payload, 4)
    model, _ = METHOD.combine(state)
    assert model.parts.keys() == {0}


def test_the_first_candidate_is_drawn_by_size():
    # Client 1 holds 99 of 100 rows: its row is drawn nearly always.
    picks = []
    for seed in range(40):
        hellos = [Hello(1, Positions(column(0)), 0), Hello(99, Positions(column(1)), 1)]
        state = METHOD.init(hellos, DkppParams(n_clusters=2), seed)
        model = METHOD.prepare(state).model
        assert model.candidates[0, 0] == model.owners[0]
        picks.append(model.candidates[0, 0])
    assert 36 <= sum(picks) <= 40


# ------------------------------------------------------------------ the whole


def test_full_participation_is_pooled_lloyd(seed):
    from sklearn.cluster import KMeans

    tables = blobs(seed)
    outcome = run(tables, seed=seed, n_clusters=5, tolerance=0.0)
    model = outcome.finished.state.model
    X = outcome.finished.terms.box.scale(np.concatenate(tables))
    pooled = KMeans(5, init=model.start, n_init=1, tol=0, max_iter=300).fit(X)
    assert np.abs(model.centers - pooled.cluster_centers_).max() < 1e-10
    assert not np.allclose(model.start, model.centers, atol=1e-3)
    assert outcome.finished.rounds < 100
    assert np.array_equal(
        np.sort(outcome.clustering.sizes), np.sort(np.bincount(pooled.labels_))
    )


def test_one_client_is_pooled_lloyd_too(seed):
    outcome = run([np.concatenate(blobs(seed))], seed=seed, n_clusters=5)
    model = outcome.finished.state.model
    assert model.movement <= 1e-4


def test_a_start_takes_eleven_questions(seed):
    tables = blobs(seed)
    state = greeted(*tables, n_clusters=3)
    phases = []
    while state.model.phase != LLOYD:
        phases.append(state.model.phase)
        state = rounds(state, tables, range(7))
    assert phases == [COVER, SAMPLE] * 5 + [COVER]
    assert state.model.owners.shape[0] == len(state.model.candidates)
    rows = np.concatenate(tables)
    for client, point in zip(state.model.owners, state.model.candidates, strict=True):
        assert (tables[client] == point).all(axis=1).any()
        assert (rows == point).all(axis=1).any()


def test_stale_goes_where_pooled_lloyd_goes_with_few_present(seed):
    from sklearn.cluster import KMeans

    tables = blobs(seed)
    schedule = Rounds(probability=0.4)
    outcome = run(tables, schedule, seed, 400, n_clusters=5, tolerance=1e-9)
    model = outcome.finished.state.model
    X = outcome.finished.terms.box.scale(np.concatenate(tables))
    onwards = KMeans(5, init=model.centers, n_init=1, tol=0).fit(X)
    assert outcome.finished.rounds < 400
    assert np.abs(model.centers - onwards.cluster_centers_).max() < 1e-6


def test_predict_and_repeat(seed):
    tables = blobs(seed)
    fit = [
        make_method("dk++", n_clusters=4, random_state=seed).fit_clients(tables)
        for _ in range(2)
    ]
    assert np.array_equal(fit[0].labels_, fit[1].labels_)
    assert np.array_equal(fit[0].predict(np.concatenate(tables)), fit[0].labels_)


# ------------------------------------------------------------------ absent clients


def test_a_phase_waits_so_long_for_those_who_are_missing():
    tables = [column(0, 1, 2), column(5, 6, 7), column(9, 10, 11)]
    state = greeted(*tables, n_clusters=2, patience=2)
    assert METHOD.end_round(state) is state  # nobody has answered: nothing to say
    state = rounds(state, tables, [0])
    assert METHOD.wanted(state) == {1, 2}
    state = METHOD.end_round(state)  # quiet, once
    state = rounds(state, tables, [2])  # news: the count starts anew
    state = METHOD.end_round(state)
    assert state.model.phase == COVER
    version = state.version
    state = METHOD.end_round(state)
    assert (state.model.phase, state.version) == (SAMPLE, version + 1)
    # Client 1 has told no cost: it is not part of phi and does not sample.
    assert METHOD.wanted(state) == {0, 2}
    assert state.model.potential == sum(state.model.costs.values())
    state = rounds(state, tables, [0, 2])
    assert METHOD.wanted(state) == {0, 1, 2}


def test_a_silent_client_does_not_stop_the_others(seed):
    tables = blobs(seed)
    outcome = run(tables, Schedule(silent=(3,)), seed, n_clusters=5)
    model = outcome.finished.state.model
    assert model.phase == LLOYD
    assert model.parts.keys() <= {0, 1, 2, 3, 4, 5, 6}
    assert outcome.clustering.k == 5


def test_an_absent_clients_rows_count_for_what_it_sampled():
    tables = [column(*range(10)), column(20, 21)]
    state = greeted(*tables, n_clusters=2, sampling_rounds=1, patience=1)
    state = rounds(state, tables, [0, 1], 2)
    assert state.model.phase == COVER
    own = state.model.owners == 1
    state = METHOD.end_round(rounds(state, tables, [0]))  # client 1 does not count
    assert state.model.phase == LLOYD
    assert state.model.parts.keys() == ({0, 1} if own.any() else {0})
    assert state.model.sizes.sum() == (12.0 if own.any() else 10.0)


def test_nobody_answers_the_hellos_do():
    tables = [column(0, 0), column(1, 1), column(5, 5, 5)]
    found = make_method("dk++", n_clusters=2, participation=0.0, random_state=0)
    assert found.fit_clients(tables).n_clusters_ == 2
    assert found.cluster_sizes_.sum() == 7


def test_a_late_joiner_takes_part(seed):
    tables = blobs(seed)
    for late in (2, 40):
        outcome = run(tables, Schedule(late={0: late}), seed, n_clusters=5)
        assert 0 in outcome.finished.state.model.parts
        assert outcome.finished.rounds > late
        assert METHOD.done(outcome.finished.state)


def test_a_late_joiner_before_any_answer_renews_the_first_guess():
    state = greeted(column(0, 0), n_clusters=3)
    assert len(state.model.centers) == 1
    late = Hello(2, Positions(column(4)), client=1)
    state = METHOD.prepare(METHOD.absorb(state, late)[0])
    assert sorted(state.model.centers.ravel()) == [0.0, 4.0]
    assert METHOD.result(state).sizes.tolist() == [2.0, 2.0]


def test_too_few_centres_are_sought_anew_when_somebody_joins(seed):
    rng = np.random.default_rng(seed)
    tables = [np.zeros((5, 2)), rng.normal(size=(40, 2))]
    outcome = run(tables, Schedule(late={1: 20}), seed, n_clusters=4)
    assert outcome.clustering.k == 4
    assert METHOD.done(outcome.finished.state)


def test_those_who_leave_are_not_waited_for(seed):
    tables = blobs(seed)
    outcome = run(tables, Schedule(leaves={0: 3, 1: 14}), seed, n_clusters=5)
    assert METHOD.done(outcome.finished.state)
    everybody = Schedule(leaves=dict.fromkeys(range(7), 4))
    outcome = run(tables, everybody, seed, n_clusters=5)
    assert outcome.finished.rounds < 10


def test_who_sampled_may_be_gone_when_the_next_one_comes():
    tables = [column(0, 3, 8), column(20, 21)]
    state = rounds(greeted(tables[0], n_clusters=2), tables, [0])
    assert state.model.phase == SAMPLE
    state, _ = METHOD.absorb(state, Left(0))
    state, _ = METHOD.absorb(state, Hello(2, Positions(column(20)), client=1))
    state = METHOD.prepare(state)
    assert METHOD.wanted(state) == {1}
    # phi is what it was when the question was put, not 0: rows are still drawn by it
    assert METHOD.broadcast(state).payload.potential == state.model.potential > 0


@pytest.mark.parametrize("schedule", [Rounds(delay=4), EventClock(loss=0.3)])
def test_late_answers_are_accepted(seed, schedule):
    outcome = run(blobs(seed), schedule, seed, 60, n_clusters=5)
    assert not [e for e in outcome.finished.trace if e["event"] == "rejected"]
    assert outcome.clustering.k == 5


# ------------------------------------------------------------------ few rows


def test_fewer_distinct_rows_than_clusters(seed):
    tables = [column(0, 0, 1), column(1, 2, 2)]
    outcome = run(tables, seed=seed, n_clusters=5)
    assert outcome.clustering.k == 3
    # What is covered is not sampled: one, two or three rounds, then the counts.
    assert outcome.finished.rounds <= 2 * 5 + 2


@pytest.mark.filterwarnings("ignore::afcl.exceptions.SuspicionWarning")
def test_sampling_goes_on_while_candidates_are_few(seed):
    # A tiny l: about one row of ten a round, so five rounds are seldom enough.
    tables = [column(*range(40))]
    found = make_method(
        "dk++", n_clusters=8, oversampling=0.2, random_state=seed
    ).fit_clients(tables)
    assert 2 * 5 + 1 < found.n_rounds_
    assert found.n_clusters_ > 4


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"n_clusters": None}, "must be told the number of clusters"),
        ({"n_clusters": 0}, "n_clusters must be a whole number, at least 1"),
        ({"sampling_rounds": 0}, "sampling_rounds must be at least 1, not 0"),
        ({"restarts": 0}, "restarts must be at least 1, not 0"),
        ({"patience": 0}, "patience must be at least 1, not 0"),
        ({"oversampling": 0.0}, "oversampling must be positive, not 0.0"),
        ({"aggregation": "new"}, "aggregation must be one of .* not 'new'"),
        ({"tolerance": -1.0}, "tolerance must not be negative, not -1.0"),
        ({"rounds": 3}, "dk\\+\\+ has no option 'rounds'"),
    ],
)
def test_parameters_are_checked(option, text):
    with pytest.raises(InputError, match=text):
        METHOD.parameters(**{"n_clusters": 2, **option})


@pytest.mark.parametrize(
    "said", [None, Positions(column(0, 1)), Positions(ints(1)[:, None])]
)
def test_hellos_are_one_row(said):
    state = METHOD.init((), DkppParams(n_clusters=2), 0)
    with pytest.raises(RejectedMessage, match="expected one row"):
        METHOD.absorb(state, Hello(3, said, client=0))


def refused(state, said):
    with pytest.raises(RejectedMessage) as caught:
        METHOD.absorb(state, Update(said, state.version, client=0, contact=1))
    return str(caught.value)


def test_covers_are_checked():
    tables = [column(0, 1, 4), column(3, 8)]
    state = greeted(*tables, n_clusters=2, sampling_rounds=1)
    none = ints()
    assert "a cost, rows or sums" in refused(state, Positions(column(0)))
    assert "stage 1 was never asked" in refused(state, DkppCover(1, 1.0, none))
    assert "'cover'" in refused(state, DkppSample(0, column(1)))
    for cost in (-1.0, np.nan, np.inf, NONE):
        assert "a cost" in refused(state, DkppCover(0, cost, none))
    for counts in (ints(3), none.astype(float), ints(0)[:, None], NONE):
        assert "counts of 3 rows" in refused(state, DkppCover(0, 1.0, counts))
    state = rounds(state, tables, [0, 1], 2)  # now with counts
    stage, n = state.model.stage, len(state.model.candidates)
    for counts in (none, np.full(n, 3), np.zeros(n, dtype=np.int64)):
        assert "counts of 3 rows" in refused(state, DkppCover(stage, 1.0, counts))
    late = DkppSums(0, ints(3), column(1))
    assert "no sums before there are centres" in refused(state, late)


def test_samples_are_checked():
    tables = [column(0, 1, 4), column(3, 8)]
    state = rounds(greeted(*tables, n_clusters=2), tables, [0, 1])
    for points in (column(1, 2, 3, 4), np.zeros((1, 2)), ints(1)[:, None], NONE):
        assert "sampled rows" in refused(state, DkppSample(1, points))


def test_sums_are_checked():
    state = lloyd_state("stale", ())
    good = DkppSums(5, ints(2, 1), column(2, 9))
    METHOD.check_update(state, good, 3)
    for changes in (
        {"counts": ints(2, 2)},
        {"counts": ints(3)},
        {"counts": ints(4, -1)},
        {"counts": np.array([2.0, 1.0])},
        {"counts": ints(3, 0)},  # and yet a sum of 9
        {"sums": column(1, 2, 3)},
        {"sums": np.zeros((2, 2))},
        {"sums": None},
    ):
        assert "counts and sums of 3 rows" in refused(state, replace(good, **changes))
    assert "'lloyd'" in refused(state, DkppSample(5, column(1)))
    # Around another number of centres: only if it was asked before these.
    METHOD.check_update(state, DkppSums(4, ints(3), column(1)), 3)
    assert refused(state, DkppSums(5, ints(3), column(1)))
