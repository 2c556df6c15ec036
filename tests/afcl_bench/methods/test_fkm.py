# SPDX-License-Identifier: Apache-2.0
"""FKM: local means and their clustering by hand, absent clients, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import Hello, Positions, Update
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.metrics import adjusted_rand
from afcl.runtime.coordinator import Spec
from afcl.runtime.schedule import Rounds
from afcl.runtime.simulate import simulate
from afcl_bench.methods.fkm import FKM, FkmMeans, FkmParams

METHOD = FKM()
NO_RNG: Any = None  # a step draws nothing


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def ints(*values):
    return np.array(values, dtype=np.int64)


def means(counts, *values):
    return FkmMeans(ints(*counts), column(*values))


def greeted(*said, n_rows=9, **options):
    hellos = [Hello(n_rows, one, client=g) for g, one in enumerate(said)]
    params = METHOD.parameters(**{"n_clusters": 2, **options})
    return METHOD.prepare(METHOD.init(hellos, params, 0))


def told(state, client, said):
    update = Update(said, state.version, client=client, contact=1)
    return METHOD.absorb(state, update)[0]


def blobs(seed, n=30):
    rng = np.random.default_rng(seed)
    spots = np.array([[0, 0], [0, 6], [6, 0], [6, 6]])
    y = np.arange(4 * n) // n
    X = spots[y] + rng.normal(0, 0.4, (4 * n, 2))
    owner = (y + rng.integers(2, size=4 * n)) % 4  # two of the spots at each client
    return [X[owner == g] for g in range(4)], np.concatenate(
        [y[owner == g] for g in range(4)]
    )


# ------------------------------------------------------------------ by hand


def test_the_hello_leaves_out_single_rows(seed):
    # Two picks of 0, 0, 0, 9: k-means++ takes one 0 and the 9; the 9 is alone.
    params, rng = FkmParams(n_clusters=2), np.random.default_rng(seed)
    said = METHOD.first(column(0, 0, 0, 9), params, rng)
    assert said.counts.tolist() == [3]
    assert said.means.tolist() == [[0.0]]


@pytest.mark.parametrize("values", [(3.0,), (1.0, 5.0)])
def test_a_client_of_single_rows_sends_their_mean(seed, values):
    params, rng = FkmParams(n_clusters=2), np.random.default_rng(seed)
    said = METHOD.first(column(*values), params, rng)
    assert said.counts.tolist() == [len(values)]
    assert said.means.tolist() == [[3.0]]


def test_a_step_keeps_the_means_that_win():
    # 0, 1 and 5 go to 1, 8 goes to 10, nothing goes to 50.
    X, sent = column(0, 1, 5, 8), Positions(column(1, 50, 10))
    one, _ = METHOD.step(sent, X, None, FkmParams(n_clusters=3), NO_RNG)
    assert one.counts.tolist() == [3, 1]
    assert one.means.tolist() == [[2.0], [8.0]]
    # From 2 and 8 the row at 5 is a tie, which goes to the first: nothing changes.
    two, _ = METHOD.step(sent, X, None, FkmParams(n_clusters=3, local_steps=2), NO_RNG)
    assert two.means.tolist() == [[2.0], [8.0]]
    # From 0 and 9: 0, 4 | 5, 6, 13 with means 2 and 8; then 5 is a tie, 6 is not:
    # 0, 4, 5 | 6, 13 with means 3 and 9.5.
    X, sent = column(0, 4, 5, 6, 13), Positions(column(0, 9))
    two, _ = METHOD.step(sent, X, None, FkmParams(n_clusters=2, local_steps=2), NO_RNG)
    assert two.counts.tolist() == [3, 2]
    assert two.means.tolist() == [[3.0], [9.5]]


def test_the_server_weighs_by_counts():
    # 0 (1 row) and 1 (3 rows) make 0.75; 10 (2 rows) and 12 (2 rows) make 11.
    state = greeted(means((1, 2), 0, 10), means((3, 2), 1, 12))
    assert sorted(state.model.centers.ravel()) == [0.75, 11.0]
    found = METHOD.result(state)
    assert found.sizes.tolist() == [4.0, 4.0]


def test_absent_clients_count_as_they_last_said():
    state = greeted(means((2, 2), 0, 10), means((2, 2), 2, 12), n_rows=4)
    state = METHOD.end_round(told(state, 0, means((3, 1), 0, 16)))
    # Client 1 said 2 (2 rows) and 12 (2 rows): (0*3 + 2*2) / 5, (16 + 12*2) / 3.
    assert np.allclose(sorted(state.model.centers.ravel()), [0.8, 40 / 3])
    # From 1 to 0.8 and from 11 to 40/3.
    assert np.isclose(state.model.movement, np.hypot(0.2, 40 / 3 - 11))
    assert METHOD.progress(state)["movement"] == state.model.movement
    assert METHOD.wanted(state) == {0, 1}


def test_over_when_everybody_has_seen_centres_that_rest():
    said = means((2, 2), 0, 10)
    state = greeted(said, said, n_rows=4)
    state = METHOD.end_round(told(state, 0, said))
    assert state.model.movement == 0.0
    assert METHOD.wanted(state) == {1}
    assert not METHOD.done(state)
    late = Update(said, 0, client=1, contact=1)  # asked before, but centres rested
    state = METHOD.end_round(METHOD.absorb(state, late)[0])
    assert METHOD.done(state)
    # Somebody new: the clusters move, and everybody is asked again.
    hello = Hello(4, means((4,), 30), client=2)
    state = METHOD.prepare(METHOD.absorb(state, hello)[0])
    assert METHOD.wanted(state) == {0, 1, 2}
    old = Update(said, 1, client=1, contact=2)  # to the centres before
    state = METHOD.end_round(METHOD.absorb(state, old)[0])
    assert METHOD.wanted(state) == {0, 1, 2}


def test_over_after_so_many_rounds():
    state = greeted(means((2, 2), 0, 10), n_rows=4, rounds=2)
    for value in (11.0, 12.0):
        assert not METHOD.done(state)
        state = METHOD.end_round(told(state, 0, means((2, 2), 0, value)))
    assert METHOD.done(state)


def test_movement_does_not_depend_on_numbering(seed):
    # The same means again: whichever run wins, and however it numbers them, it rests.
    rng = np.random.default_rng(seed)
    said = FkmMeans(np.full(5, 2), rng.normal(size=(5, 3)))
    state = greeted(said, n_rows=10, n_clusters=5)
    state = METHOD.end_round(told(state, 0, said))
    assert state.model.movement == 0.0


# ------------------------------------------------------------------ the whole


@pytest.mark.parametrize("participation", [None, 0.5])
def test_clusters_are_found(seed, participation):
    tables, y = blobs(seed)
    found = make_method(
        "fkm", n_clusters=4, participation=participation, random_state=seed
    ).fit_clients(tables)
    assert adjusted_rand(y, found.labels_) > 0.95
    assert np.array_equal(found.predict(np.concatenate(tables)), found.labels_)


@pytest.mark.parametrize(
    "schedule", [Schedule(silent=(1,)), Schedule(late={3: 9}), Rounds(delay=3)]
)
def test_absent_and_late_clients(seed, schedule):
    tables, y = blobs(seed)
    spec = Spec(get_method("fkm"), {"n_clusters": 4}, seed, max_rounds=40)
    outcome = simulate(spec, tables, schedule)
    assert adjusted_rand(y, np.concatenate(outcome.labels)) > 0.95
    assert max(outcome.finished.state.answers.values()) <= 20


def test_more_clusters_than_rows(seed):
    found = make_method("fkm", n_clusters=9, random_state=seed)
    found.fit_clients([column(0, 0, 1, 1), column(5)])
    assert found.n_clusters_ == 3


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"n_clusters": None}, "must be told the number of clusters"),
        ({"local_steps": 0}, "local_steps must be at least 1, not 0"),
        ({"rounds": 0}, "rounds must be at least 1, not 0"),
        ({"restarts": 0}, "restarts must be at least 1, not 0"),
        ({"tolerance": -0.5}, "tolerance must not be negative, not -0.5"),
        ({"patience": 3}, "fkm has no option 'patience'"),
    ],
)
def test_parameters_are_checked(option, text):
    with pytest.raises(InputError, match=text):
        METHOD.parameters(**{"n_clusters": 2, **option})


GOOD = means((2, 7), 0, 1)


@pytest.mark.parametrize(
    "said",
    [
        None,
        Positions(column(0)),
        means((1, 1, 1), 0, 1, 2),  # three means, two clusters
        replace(GOOD, means=None),
        replace(GOOD, means=np.zeros(2)),
        replace(GOOD, counts=None),
        replace(GOOD, counts=ints(9)),
        replace(GOOD, counts=ints(9, 0)),
        replace(GOOD, counts=ints(9, 1)),
        replace(GOOD, counts=np.array([2.0, 7.0])),
    ],
)
def test_messages_are_checked(said):
    state = greeted(GOOD)
    with pytest.raises(RejectedMessage, match="expected"):
        METHOD.absorb(state, Hello(9, said, client=1))
    with pytest.raises(RejectedMessage, match="expected"):
        told(state, 0, said)


def test_answers_hold_all_rows_and_features():
    state = greeted(GOOD)
    with pytest.raises(RejectedMessage, match="counts of all 9 rows"):
        told(state, 0, means((2, 6), 0, 1))
    with pytest.raises(RejectedMessage, match="means"):
        told(state, 0, FkmMeans(ints(9), np.zeros((1, 2))))
    METHOD.absorb(state, Hello(9, means((2, 6), 0, 1), client=1))  # a hello need not
