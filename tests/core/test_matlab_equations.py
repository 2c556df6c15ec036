# SPDX-License-Identifier: Apache-2.0
"""Where the published code departs from the paper, each difference by hand."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.messages import Broadcast, Cells, Intensities, WeightedPositions
from afcl.core.paper.attributes import (
    client_upload,
    cooperate,
    learned_weights,
    rebuild,
    replayed,
    start_weights,
    steps_of,
)
from afcl.core.paper.balance import Contribution, balance_weights
from afcl.core.paper.objective import objective
from afcl.core.params import PaperParams
from afcl.core.protocol import client_rng
from afcl.exceptions import RejectedMessage
from afcl.methods.afcl_matlab import AfclMatlab

METHOD = AfclMatlab()
PARAMS = PaperParams(n_seeds=2)


# -------------------------------------------------------------------- helpers


def column(*values):
    """Points with one feature."""
    return np.array(values, dtype=np.float64)[:, None]


def near(*values):
    return pytest.approx(np.array(values), abs=1e-12)


def rng():
    return np.random.default_rng(0)


def upload_of(owners, uploads, means=None, scatters=None):
    """Return an upload; cells of zeros unless given."""
    held, won = np.unique(owners, return_counts=True)
    cells = Cells(
        won.astype(np.int64),
        np.zeros((held.size, uploads.shape[1])) if means is None else means,
        np.zeros(held.size) if scatters is None else np.array(scatters, dtype=float),
    )
    return Intensities(np.array(owners, dtype=np.int64), uploads, cells)


def started(tables, params=PARAMS):
    """Return the prepared state after everybody's hello."""
    hellos = [
        replace(METHOD.hello(X, params, client_rng(0, g, 0)), client=g)
        for g, X in enumerate(tables)
    ]
    return METHOD.prepare(METHOD.init(hellos, params, 0))


def answer(broadcast, X, client, params=PARAMS):
    """Return a client's stamped answer."""
    update, _ = METHOD.client_step(broadcast, X, None, params, rng())
    return replace(update, client=client, version=broadcast.version, contact=1)


def round_of(state, tables):
    """Return the state after a round in which these clients (id: rows) took part."""
    broadcast = METHOD.broadcast(state)
    for client, X in tables.items():
        state, _ = METHOD.absorb(state, answer(broadcast, X, client))
    return METHOD.end_round(state)


# ------------------------------------------------------------ attribute weights W


@given(st.integers(1, 40), st.floats(1e-6, 1.0), st.integers(0, 1000))
def test_the_first_weights_are_random_and_sum_to_eta_d(d, rate, seed):
    weights = start_weights(rate, d, np.random.default_rng(seed))
    assert weights.shape == (d,)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(rate * d)


def test_learned_weights_by_hand():
    # D = |1| + |-0|, |-64| + |64|: (D_1/D_2)^(1/7) = (1/128)^(1/7) = 1/2.
    # W = 0.1 * 2 / (1 + 1/2), 0.1 * 2 / (2 + 1).
    uploads = [
        upload_of([0], np.array([[1.0, -64.0]])),
        upload_of([1], np.array([[0.0, 64.0]])),
    ]
    assert learned_weights(uploads, 0.1) == near(0.4 / 3, 0.2 / 3)


def test_an_attribute_nobody_moves_along_weighs_nothing():
    # D = 0, 1, 128: W = 0, 0.1 * 3 / 1.5, 0.1 * 3 / 3.
    uploads = [upload_of([0], np.array([[0.0, 1.0, 128.0]]))]
    assert learned_weights(uploads, 0.1) == near(0, 0.2, 0.1)


def test_no_movement_at_all_gives_zero_weights():
    assert learned_weights([upload_of([0], np.zeros((1, 2)))], 0.1) == near(0, 0)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=6))
def test_learned_weights_sum_to_eta_d_and_favour_the_compact(spread):
    weights = learned_weights([upload_of([0], np.array([spread]))], 0.1)
    assert weights.sum() == pytest.approx(0.1 * len(spread))
    assert (np.diff(weights[np.argsort(spread)]) <= 1e-15).all()


# ------------------------------------------------------------------- at the client

ROWS = np.array([[0.0, 0.0], [9.0, 10.0], [0.0, 2.0], [0.0, 4.0]])
SEEDS = np.array([[0.0, 0.0], [10.0, 10.0]])


def test_uploads_are_weighted_by_attribute():
    # W = 0.1, 0.2. Seed 0: (0, 0), (0, 0.2*2), (0, 0.2*4); seed 1: (0.1*(9 - 10), 0).
    upload = client_upload(ROWS, SEEDS, np.array([0.1, 0.2]), PARAMS, rng())
    assert upload.owners.tolist() == [0, 0, 0, 1]
    expected = np.array([[0, 0], [0, 0.4], [0, 0.8], [-0.1, 0]])
    assert upload.intensities == pytest.approx(expected, abs=1e-12)


def test_z_is_the_mean_distance_to_the_centre():
    # Seed 0: b = (0, 2), distances 2, 0, 2; seed 1 holds one row.
    cells = client_upload(ROWS, SEEDS, np.array([0.1, 0.2]), PARAMS, rng()).cells
    assert cells.counts.tolist() == [3, 1]
    assert cells.means == pytest.approx(np.array([[0, 2], [9, 10]]), abs=1e-12)
    assert cells.scatters == near(4 / 3, 0)


def test_the_nearest_seed_wins_without_gamma():
    # With gamma the third row would go to seed 3 (3*1.44 > 1*3.24).
    upload = client_upload(
        column(1.2, 1.2, 1.2), column(0, 3), np.ones(1), PARAMS, rng()
    )
    assert upload.owners.tolist() == [0, 0, 0]


# ------------------------------------------------------------------- at the server


def test_a_zero_attribute_weight_counts_as_one():
    assert steps_of(np.array([0.1, 0.0]), 0.5) == near(0.05, 0.5)


def test_rows_are_rebuilt_pushed_outwards_behind_a_zero_upload_per_seed():
    # w = 0.5, W = 0.1, 0. Row x = (2.2, 2) at seed (2, 2): upload (0.02, 0), rebuilt
    # as 0.02 / 0.05 + 2 = 2.4 = 2 + 0.2 / 0.5. The zero uploads are the seeds.
    sent = np.array([[1.0, 1.0], [2.0, 2.0]])
    part = Contribution(0.5, sent, upload_of([1], np.array([[0.02, 0.0]])))
    rows = rebuild(part, steps_of(np.array([0.1, 0.0]), 0.5))
    expected = np.array([[1, 1], [2, 2], [2.4, 2]])
    assert rows == pytest.approx(expected, abs=1e-12)


def test_every_seeds_list_starts_with_its_zero_upload():
    part = Contribution(1.0, column(0, 3), upload_of([0, 0, 1], column(1, 2, 1)))
    assert rebuild(part, np.ones(1))[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_all_seeds_compete_again_with_gamma_counted_over_the_round():
    # W w = 0.5, seeds 0, 3. Client A has rows 1, 1 at seed 0: rows 0, 1, 1, 3 compete.
    #   0: seed 0 wins, s = 2, 1 | 1: 2*1 < 4, s = 3, 1, 0 -> 0.5
    #   1: 3*0.25 < 4, s = 4, 1, 0.5 -> 0.75 | 3: seed 1 wins, s = 4, 2
    # Client B has row 1.425 at seed 0: rows 0, 1.425, 3.
    #   0: 4*0.5625 < 2*9, s = 5, 2, 0.75 -> 0.375
    #   1.425: 5*1.05^2 = 5.5125 > 2*1.575^2 = 4.96125: seed 1 wins (were s to start
    #     anew for B: 2*1.05^2 = 2.205 < 1*1.575^2, seed 0), s = 5, 3. Seed 0 is 2.625
    #     away, farther than 1.575. 3 -> 2.2125
    #   3: seed 1 wins, 2.2125 -> 2.60625.
    sent = column(0, 3)
    parts = [
        Contribution(1.0, sent, upload_of([0, 0], column(0.5, 0.5))),
        Contribution(1.0, sent, upload_of([0], column(0.7125))),
    ]
    moved = cooperate(sent, parts, np.array([0.5]))
    assert moved[:, 0] == near(0.375, 2.60625)
    assert sent[:, 0].tolist() == [0, 3]


def test_cooperation_reaches_as_far_as_the_row():
    # W w = 0.5 * 0.5. Row 2 at seed 0 (upload 0.5 * 2 = 1) comes back as 1 / 0.25 = 4.
    # Seeds 0, 3: row 0 moves nothing, s = 2, 1. Row 4: 2*16 > 1*1, seed 1 wins; seed 0
    # is 3 away, row 4 only 1: 3 -> 3.25, s = 2, 2. Row 3 (zero upload): seed 1 wins,
    # 3.25 -> 3.1875.
    # Seeds 0, 1 instead: row 4: 2*16 > 1*9, seed 1 wins and seed 0 is within 3:
    # 0 -> 1, 1 -> 1.75, s = 2, 2. Row 1: 2*0 < 2*0.5625, seed 0 wins, reach 0.
    upload = upload_of([0], column(1.0))
    far = cooperate(
        column(0, 3), [Contribution(0.5, column(0, 3), upload)], np.full(1, 0.5)
    )
    assert far[:, 0] == near(0, 3.1875)
    close = cooperate(
        column(0, 1), [Contribution(0.5, column(0, 1), upload)], np.full(1, 0.5)
    )
    assert close[:, 0] == near(1, 1.75)


def test_seeds_next_to_the_winner_always_cooperate():
    # W w = 0.5, seeds 0, 0.005 (2.5e-5 apart, squared); row 0 at seed 0: rows 0, 0,
    # 0.005. Twice seed 0 wins with reach 0 and takes seed 1 along: 0.005 -> 0.0025 ->
    # 0.00125. Then 3*0.005^2 > 1*0.00375^2, seed 1 wins and takes seed 0 along:
    # 0 -> 0.0025, 0.00125 -> 0.003125.
    sent, upload = column(0, 0.005), upload_of([0], column(0))
    moved = cooperate(sent, [Contribution(1.0, sent, upload)], np.array([0.5]))
    assert moved[:, 0] == near(0.0025, 0.003125)
    # 0.02 apart is 4e-4, squared, which is too far.
    sent = column(0, 0.02)
    moved = cooperate(sent, [Contribution(1.0, sent, upload)], np.array([0.5]))
    assert moved[:, 0] == near(0, 0.02)


def test_the_objective_uses_plain_distances():
    # b = 0, 1, 3 and z = 1, 2, 3. Ratios: 3/1, 4/3, 5/2; largest 3, 3, 2.5.
    upload = upload_of([0, 1, 2], column(0, 0, 0), column(0, 1, 3), [1, 2, 3])
    parts = [Contribution(1.0, column(0, 0, 0), upload)]
    assert objective(parts, plain=True) == pytest.approx(8.5 / 3, abs=1e-12)


# --------------------------------------------------------------------- replaying


def test_who_is_replayed():
    # theta = 3, 1, 0, 2: w = 2/3, 6/7, 1, 3/4, mean 0.818. Client 0 is present,
    # client 2 was never heard, client 3 is below the mean.
    frequencies = {0: 3, 1: 1, 2: 0, 3: 2}
    weights = balance_weights(frequencies, 1.0)
    assert replayed(frequencies, weights, [0]) == [1]
    assert replayed(frequencies, weights, [0, 1]) == []


@given(st.integers(1, 30), st.integers(1, 9))
def test_equal_weights_replay_nobody(frequency, n_clients):
    frequencies = dict.fromkeys(range(n_clients), frequency)
    assert replayed(frequencies, balance_weights(frequencies, 1.0), []) == []


X0, X1 = column(0, 0.1, 0.2), column(0.8, 1.0)


def test_an_absent_client_is_replayed_and_counted():
    # theta = 1, 1 after the first round, 2, 1 after client 0 came back alone:
    # w = 1 / (1 + 2/3) = 0.6 and 1 / (1 + 1/3) = 0.75, mean 0.675. Client 1 is
    # replayed against the seeds it was sent then, with W as it is now.
    first = round_of(started([X0, X1]), {0: X0, 1: X1})
    second = round_of(first, {0: X0})
    assert second.frequencies == {0: 2, 1: 2}
    fresh, stale = second.latest[0].payload, second.latest[1].payload
    parts = [
        Contribution(1 / (1 + 2 / 3), first.history[1], fresh),
        Contribution(1 / (1 + 1 / 3), first.history[0], stale),
    ]
    assert np.array_equal(second.seeds, cooperate(first.seeds, parts, first.attributes))
    assert second.objective == objective(parts, plain=True)


def test_weights_are_learned_from_participants_only():
    first = round_of(started([X0, X1]), {0: X0, 1: X1})
    second = round_of(first, {0: X0})
    assert second.frequencies[1] == 2  # client 1 was replayed
    expected = learned_weights([second.latest[0].payload], PARAMS.learning_rate)
    assert np.array_equal(second.attributes, expected)


# --------------------------------------------------------------------- protocol


def test_the_first_weights_are_drawn_once():
    empty = METHOD.init((), PARAMS, 0)
    assert METHOD.prepare(empty) is empty
    state = started([X0, X1])
    assert state.attributes.sum() == pytest.approx(PARAMS.learning_rate)
    assert METHOD.prepare(state) is state


def test_init_is_absorbing_the_hellos_in_order():
    hellos = [
        replace(METHOD.hello(X, PARAMS, rng()), client=g)
        for g, X in enumerate([X0, X1])
    ]
    state = METHOD.init((), PARAMS, 3)
    for hello in hellos:
        state, _ = METHOD.absorb(state, hello)
    assert pickle.dumps(METHOD.init(hellos, PARAMS, 3)) == pickle.dumps(state)


def test_clients_get_seeds_and_weights():
    state = started([X0, X1])
    broadcast = METHOD.broadcast(state)
    assert broadcast.version == 0
    assert broadcast.payload.points is state.seeds
    assert broadcast.payload.weights is state.attributes


def test_a_late_upload_is_rebuilt_where_it_was_sent():
    start = started([X0, X1])
    state = round_of(start, {0: X0})
    old = Broadcast(0, WeightedPositions(start.seeds, start.attributes))
    late = answer(old, X1, 1)
    after = METHOD.end_round(METHOD.absorb(state, late)[0])
    # theta = 1, 1: both weigh 2/3, neither is above the mean, nobody is replayed.
    part = Contribution(1 / 1.5, start.seeds, late.payload)
    assert np.array_equal(after.seeds, cooperate(state.seeds, [part], state.attributes))


def test_a_round_without_uploads_changes_nothing_and_replays_nobody():
    state = round_of(started([X0, X1]), {0: X0, 1: X1})
    assert METHOD.end_round(state) is state


def test_other_weights_are_another_version():
    # Duplicates: no seed moves, but W drops from its random start to 0, once.
    X = column(3, 3)
    state = round_of(started([X]), {0: X})
    assert (state.version, state.movement) == (1, 0.0)
    assert state.attributes.tolist() == [0.0]
    assert round_of(state, {0: X}).version == 1


def test_a_malformed_update_is_refused():
    state = started([X0, X1])
    before = pickle.dumps(state)
    update = answer(METHOD.broadcast(state), X0, 0)
    broken = replace(update.payload, intensities=column(0, np.nan, 0))
    with pytest.raises(RejectedMessage, match="not finite"):
        METHOD.absorb(state, replace(update, payload=broken))
    assert pickle.dumps(state) == before


def test_old_states_are_not_modified():
    state = started([X0, X1])
    state, _ = METHOD.absorb(state, answer(METHOD.broadcast(state), X0, 0))
    before = pickle.dumps(state)
    METHOD.end_round(state)
    assert pickle.dumps(state) == before


@pytest.mark.parametrize(
    "tables",
    [
        [column(0.3)],
        [column(0.3, 0.3, 0.3), column(0.3)],
        [np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])],
        [column(0, 1), column(0, 1)],
    ],
    ids=["one row", "duplicates", "constant column", "equal clients"],
)
def test_degenerate_data_give_finite_answers(tables):
    state = started(tables, METHOD.parameters(n_seeds=50))
    for _ in range(3):
        state = round_of(METHOD.prepare(state), dict(enumerate(tables)))
    clustering = METHOD.result(state)
    assert clustering.centers is not None
    assert np.isfinite(clustering.centers).all()
    assert np.isfinite(state.attributes).all()
    assert clustering.sizes.sum() == sum(len(X) for X in tables)
    assert METHOD.done(state) == (state.change <= state.params.tolerance)
