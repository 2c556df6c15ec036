# SPDX-License-Identifier: Apache-2.0
"""The paper's equations (2)-(14) by hand, and the protocol around them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from afcl.core.messages import (
    Broadcast,
    Cells,
    Hello,
    Intensities,
    Left,
    Positions,
    Update,
)
from afcl.core.paper.balance import Contribution, balance_weights, count
from afcl.core.paper.competition import client_upload, cooperate
from afcl.core.paper.objective import aggregate, objective
from afcl.core.params import PaperParams
from afcl.core.protocol import client_rng
from afcl.exceptions import RejectedMessage
from afcl.methods.afcl_paper import AfclPaper

METHOD = AfclPaper()
HALF = PaperParams(n_seeds=2, learning_rate=0.5)
NO_SCORES = dict.fromkeys(("silhouette", "simplified", "ch", "db", "bic", "free_bic"))


# -------------------------------------------------------------------- helpers


def column(*values):
    """Points with one feature."""
    return np.array(values, dtype=np.float64)[:, None]


def near(*values):
    return pytest.approx(np.array(values), abs=1e-12)


def rng():
    return np.random.default_rng(0)


def part(weight, sent, owners, intensities, counts=None, means=None, scatters=None):
    """Return a contribution; cells of zeros unless given."""
    held, won = np.unique(np.array(owners, dtype=np.int64), return_counts=True)
    cells = Cells(
        np.array(won if counts is None else counts, dtype=np.int64),
        np.zeros((held.size, sent.shape[1])) if means is None else means,
        np.zeros(held.size) if scatters is None else np.array(scatters, dtype=float),
    )
    upload = Intensities(np.array(owners, dtype=np.int64), intensities, cells)
    return Contribution(weight, sent, upload)


def cell_part(weight, k, held, counts, means, scatters):
    """Return a contribution of which only the cells matter."""
    sent = np.zeros((k, 1))
    owners = np.repeat(held, counts)
    return part(
        weight, sent, owners, np.zeros((owners.size, 1)), counts, means, scatters
    )


def started(params, tables, seeds=None):
    """Return the prepared state after everybody's hello, with these seeds if given."""
    hellos = [
        replace(METHOD.hello(X, params, client_rng(0, g, 0)), client=g)
        for g, X in enumerate(tables)
    ]
    state = METHOD.prepare(METHOD.init(hellos, params, 0))
    return state if seeds is None else replace(state, history=(seeds,))


def answer(state, X, client, version=None):
    """Return the client's stamped answer to a version (the current one)."""
    broadcast = METHOD.broadcast(state)
    if version is not None:
        broadcast = Broadcast(version, Positions(state.history[version]))
    update, _ = METHOD.client_step(broadcast, X, None, state.params, rng())
    return replace(update, client=client, version=broadcast.version, contact=1)


def round_of(state, tables):
    """Return the state after a round in which these clients (id: rows) took part."""
    for client, X in tables.items():
        state, _ = METHOD.absorb(state, answer(state, X, client))
    return METHOD.end_round(state)


# ---------------------------------------------------- at the client, Eqs. (2)-(7)

#: Rows 1.2, 1.1, 1.2, 1.0 and seeds 0, 3, as s_r |x - m_r|^2 (Eqs. 2-4):
#: 1*1.44 < 1*3.24: seed 0 | 2*1.21 < 1*3.61: seed 0 | 3*1.44 > 1*3.24: seed 1
#: | 3*1 < 2*4: seed 0.
ROWS, SEEDS = column(1.2, 1.1, 1.2, 1.0), column(0, 3)


def test_equations_2_to_4_frequent_winners_are_held_back():
    upload = client_upload(ROWS, SEEDS, PaperParams(learning_rate=0.1), rng())
    assert upload.owners.tolist() == [0, 0, 0, 1]


def test_equation_5_update_intensities_come_seed_by_seed():
    # Seed 0: 0.1 * (1.2, 1.1, 1.0) in the rows' order; seed 1: 0.1 * (1.2 - 3).
    upload = client_upload(ROWS, SEEDS, PaperParams(learning_rate=0.1), rng())
    assert upload.intensities[:, 0] == near(0.12, 0.11, 0.10, -0.18)


def test_equations_6_and_7_cells():
    # Seed 0: o = 3, b = 3.3 / 3, z = 0.1^2 + 0 + 0.1^2; seed 1: o = 1, b = 1.2, z = 0.
    cells = client_upload(ROWS, SEEDS, PaperParams(learning_rate=0.1), rng()).cells
    assert cells.counts.tolist() == [3, 1]
    assert cells.means[:, 0] == near(1.1, 1.2)
    assert cells.scatters == near(0.02, 0.0)


def test_the_winner_without_gamma_is_the_nearest_seed():
    upload = client_upload(ROWS, SEEDS, PaperParams(winner="nearest"), rng())
    assert upload.owners.tolist() == [0, 0, 0, 0]


def test_rows_in_random_order_are_the_permuted_rows_in_theirs():
    shuffled = ROWS[rng().permutation(4)]
    found = client_upload(ROWS, SEEDS, PaperParams(order="random"), rng())
    expected = client_upload(shuffled, SEEDS, PaperParams(), rng())
    assert pickle.dumps(found) == pickle.dumps(expected)


# ---------------------------------------------------------------- balance, Eq. (8)


def test_equation_8():
    # theta = 3, 1. xi = 1: 1 / (1 + 3/4) and 1 / (1 + 1/4);
    # xi = 0.5: 0.5 / (0.5 + 0.75) and 0.5 / (0.5 + 0.25).
    assert balance_weights({7: 3, 9: 1}, 1.0) == {7: 4 / 7, 9: 0.8}
    assert balance_weights({7: 3, 9: 1}, 0.5) == pytest.approx({7: 0.4, 9: 2 / 3})


def test_nobody_was_there_yet():
    assert balance_weights({0: 0, 1: 0}, 1.0) == {0: 1.0, 1: 1.0}


def test_participations_are_counted_each():
    before = {0: 1, 1: 0, 2: 4}
    assert count(before, [2, 0, 2]) == {0: 2, 1: 0, 2: 6}
    assert before == {0: 1, 1: 0, 2: 4}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.floats(0.01, 100))
def test_who_uploads_more_weighs_less(frequencies, balance):
    weights = balance_weights(dict(enumerate(frequencies)), balance)
    ranked = sorted(weights, key=lambda client: frequencies[client])
    assert all(0 < weight <= 1 for weight in weights.values())
    assert all(
        weights[a] >= weights[b] for a, b in zip(ranked, ranked[1:], strict=False)
    )


# ------------------------------------------------------ objective, Eqs. (9) and (10)


def test_equation_9_weights_sums_but_not_their_counts():
    # Seed 0: o = 2, 3 at b = 1, 2 with z = 4, 1 and w = 0.5, 0.8:
    #   b = (0.5*2*1 + 0.8*3*2) / 5 = 1.16, z = (0.5*2*4 + 0.8*3*1) / 5 = 1.28.
    # Seed 1 holds nothing. Seed 2: b = 0.8*1*6 / 1 = 4.8, z = 0.
    centers, scatters = aggregate(
        [
            cell_part(0.5, 3, [0], [2], column(1), [4]),
            cell_part(0.8, 3, [0, 2], [3, 1], column(2, 6), [1, 0]),
        ]
    )
    assert centers[:, 0] == near(1.16, 4.8)
    assert scatters == near(1.28, 0.0)


def test_equation_10_by_hand():
    # b = 0, 1, 3 and z = 1, 2, 3. Ratios: (1+2)/1 = 3, (1+3)/9, (2+3)/4 = 1.25.
    # Largest per cell: 3, 3, 1.25.
    parts = [cell_part(1.0, 5, [0, 2, 4], [1, 1, 1], column(0, 1, 3), [1, 2, 3])]
    assert objective(parts) == pytest.approx(7.25 / 3, abs=1e-12)


def test_one_occupied_cell_has_objective_zero():
    assert objective([cell_part(1.0, 3, [1], [4], column(2), [9])]) == 0.0


def test_coincident_centres_keep_the_objective_finite():
    # (1 + 3) / 1e-12 for both.
    parts = [cell_part(1.0, 2, [0, 1], [1, 1], column(2, 2), [1, 3])]
    assert objective(parts) == pytest.approx(4e12)


# ---------------------------------------------------- at the server, Eqs. (11)-(14)


def test_equations_11_to_14_by_hand():
    # eta = 0.5, w = 1, row 4 at seed 0: r = 2, reach |2 / 0.5|^2 = 16 = |0 - 4|^2.
    # Seeds 0, 3, 9 are 0, 9, 81 away (squared): the first two cooperate.
    # 0 + 2 + 0.5*(0 - 0) = 2; 3 + 2 + 0.5*(0 - 3) = 3.5 = 3 + 0.5*(4 - 3) (Eq. 12).
    seeds = column(0, 3, 9)
    moved = cooperate(seeds, [part(1.0, seeds, [0], column(2))], HALF)
    assert moved[:, 0] == near(2, 3.5, 9)
    assert seeds[:, 0].tolist() == [0, 3, 9]


def test_a_weight_shortens_reach_and_step():
    # w = 0.5: reach |0.5*2 / 0.5|^2 = 4, seed 3 (9 away) stays; step 0.5*2.
    seeds = column(0, 3, 9)
    moved = cooperate(seeds, [part(0.5, seeds, [0], column(2))], HALF)
    assert moved[:, 0] == near(1, 3, 9)


@pytest.mark.parametrize(("anchor", "expected"), [("sent", 1.5), ("current", 2.5)])
def test_the_second_row_finds_moved_seeds(anchor, expected):
    # Rows 4 and 1 at seed 0. After the first (above): 2, 3.5, 9. The second has
    # r = 0.5, reach 1: nobody but the owner, which always takes part.
    # As sent: 2 + 0.5 + 0.5*(0 - 2) = 1.5 = 2 + 0.5*(1 - 2), towards the row.
    # Current: 2 + 0.5 + 0 = 2.5, away from it.
    seeds = column(0, 3, 9)
    params = replace(HALF, anchor=anchor)
    moved = cooperate(seeds, [part(1.0, seeds, [0, 0], column(2, 0.5))], params)
    assert moved[:, 0] == near(expected, 3.5, 9)


def test_uploads_act_one_client_after_the_other():
    # Client A moves the seeds to 2, 3.5, 9 (above). Client B's row 3 at seed 1 (sent
    # at 3) has r = 0, reach 0: only the owner, 3.5 + 0 + 0.5*(3 - 3.5) = 3.25.
    seeds = column(0, 3, 9)
    parts = [part(1.0, seeds, [0], column(2)), part(1.0, seeds, [1], column(0))]
    assert cooperate(seeds, parts, HALF)[:, 0] == near(2, 3.25, 9)


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=5),
    st.floats(-5, 5),
    st.floats(0.01, 0.9),
)
def test_equations_13_and_14_are_11_and_12_without_the_row(points, row, rate):
    seeds, owner = column(*points), 0
    reach = (seeds[owner, 0] - row) ** 2
    apart = (seeds[:, 0] - seeds[owner, 0]) ** 2
    assume((abs(apart - reach) > 1e-9).all())  # rounding decides on the rim
    expected = np.where(
        apart <= reach, seeds[:, 0] + rate * (row - seeds[:, 0]), seeds[:, 0]
    )
    upload = part(1.0, seeds, [owner], rate * (column(row) - seeds[owner]))
    moved = cooperate(seeds, [upload], PaperParams(learning_rate=rate))
    assert moved[:, 0] == pytest.approx(expected, abs=1e-9)


# -------------------------------------------------------------- Algorithm 1: start


def test_a_client_draws_k_different_rows():
    X = np.random.default_rng(1).random((20, 2))
    hello = METHOD.hello(X, PaperParams(n_seeds=6), rng())
    points = hello.payload.points
    assert hello.n_rows == 20
    assert np.unique(points, axis=0).shape == (6, 2)
    assert all((X == point).all(axis=1).any() for point in points)


def test_a_client_with_no_more_than_k_rows_sends_them_all():
    X = column(1, 1, 2)
    hello = METHOD.hello(X, PaperParams(n_seeds=3), rng())
    assert hello.payload.points.tolist() == X.tolist()


def test_global_seeds_come_from_the_union():
    # Three distinct points among four: all of them, whatever k asks for beyond that.
    state = started(PaperParams(n_seeds=9), [column(1, 2), column(2, 5)])
    assert sorted(state.seeds[:, 0]) == [1, 2, 5]
    assert state.version == 0


def test_the_number_of_seeds_follows_the_rows():
    assert METHOD.settle(METHOD.parameters(), 96).n_seeds == 3
    assert METHOD.settle(METHOD.parameters(n_seeds=8), 96).n_seeds == 8


def test_init_is_absorbing_the_hellos_in_order():
    hellos = [
        Hello(2, Positions(column(3, 4)), client=4),
        Hello(1, Positions(column(1)), client=2),
    ]
    state = METHOD.init((), HALF, 7)
    for hello in hellos:
        state, _ = METHOD.absorb(state, hello)
    assert pickle.dumps(METHOD.init(hellos, HALF, 7)) == pickle.dumps(state)


def test_the_order_of_the_hellos_does_not_show_in_the_seeds():
    tables = {4: column(3, 4, 8), 2: column(1, 0, 9)}
    hellos = [
        Hello(3, Positions(points), client=client) for client, points in tables.items()
    ]
    params = PaperParams(n_seeds=3)
    first = METHOD.prepare(METHOD.init(hellos, params, 7))
    other = METHOD.prepare(METHOD.init(hellos[::-1], params, 7))
    assert np.array_equal(first.seeds, other.seeds)


def test_prepare_has_nothing_to_do_twice_or_without_hellos():
    empty = METHOD.init((), HALF, 0)
    assert METHOD.prepare(empty) is empty
    state = started(HALF, [column(0, 1)])
    assert METHOD.prepare(state) is state


def test_a_repeated_hello_changes_nothing_and_a_new_one_replaces_it():
    hello = Hello(2, Positions(column(0, 1)), client=0)
    state = METHOD.init([hello], HALF, 0)
    again, found = METHOD.absorb(state, hello)
    assert again is state
    assert found["repeated"]
    other = replace(hello, payload=Positions(column(5, 6)))
    state, found = METHOD.absorb(state, other)
    assert not found["repeated"]
    assert sorted(METHOD.prepare(state).seeds[:, 0]) == [5, 6]


def test_a_late_joiner_is_registered_and_finds_the_seeds_as_they_are():
    state = started(HALF, [column(0, 1)])
    late = Hello(1, Positions(column(9)), client=5)
    joined, _ = METHOD.absorb(state, late)
    joined = METHOD.prepare(joined)
    assert joined.seeds is state.seeds
    moved = round_of(joined, {5: column(9)})
    assert moved.frequencies == {0: 0, 5: 1}
    assert moved.version == 1


# -------------------------------------------------------------- Algorithm 1: rounds


def test_participants_are_counted_before_anybody_is_weighed():
    # Seeds 0, 4; rows 1 (client 0) and 5 (client 1): r = 0.5 each. theta = 1, 1, so
    # both weigh 1 / (1 + 1/2) = 2/3 and reach 2/3: each moves its seed by 1/3.
    # Movement (1/3)^2 * 2; one row a cell, so Z = 0.
    state = started(HALF, [column(1), column(5)], column(0, 4))
    moved = round_of(state, {0: column(1), 1: column(5)})
    assert moved.seeds[:, 0] == near(1 / 3, 13 / 3)
    assert moved.frequencies == {0: 1, 1: 1}
    assert moved.movement == pytest.approx(2 / 9, abs=1e-12)
    assert (moved.objective, moved.version, moved.pending) == (0.0, 1, ())


def test_the_objective_of_a_round_is_weighted():
    # Client 0 alone weighs 1 / (1 + 1) = 0.5. Rows 0, 2 at seed 0 and 8, 10 at seed
    # 10 (Eq. 2: 1*0 < 1*100; 2*4 < 1*64; 3*64 > 1*4; 3*100 > 2*0), o = 2 each:
    # b = 0.5*1, 0.5*9 and z = 0.5*2, 0.5*2: Z = (1 + 1) / 4^2.
    X = column(0, 2, 8, 10)
    state = round_of(started(HALF, [X], column(0, 10)), {0: X})
    assert state.objective == pytest.approx(0.125, abs=1e-12)


def test_a_late_upload_is_anchored_where_it_was_sent():
    # Round 1, client 0 alone (w = 1/2), row 1: seed 0 -> 0.5 * 0.5 = 0.25.
    # Round 2, client 1 answers version 0 with row 1: r = 0.5, w = 2/3, and
    # 0.25 + 1/3 + 1/3 * (0 - 0.25) = 0.5, a step of 1/3 towards the row.
    start = started(HALF, [column(1), column(1)], column(0, 4))
    state = round_of(start, {0: column(1)})
    assert state.seeds[:, 0] == near(0.25, 4)
    state, _ = METHOD.absorb(state, answer(state, column(1), 1, version=0))
    state = METHOD.end_round(state)
    assert state.seeds[:, 0] == near(0.5, 4)
    assert state.version == 2


def test_two_uploads_of_one_client_in_a_round_both_count():
    state = started(HALF, [column(1)], column(0, 4))
    for _ in range(2):
        state, _ = METHOD.absorb(state, answer(state, column(1), 0))
    assert METHOD.end_round(state).frequencies == {0: 2}


def test_a_round_without_uploads_changes_nothing():
    state = round_of(started(HALF, [column(0, 1)]), {0: column(0, 1)})
    assert METHOD.end_round(state) is state
    assert not METHOD.done(state)


def test_the_run_is_done_when_the_objective_has_settled():
    # One row a cell: Z = 0 in every round; the first has nothing to compare with.
    state = started(HALF, [column(0, 1)])
    assert not METHOD.done(state)
    state = round_of(state, {0: column(0, 1)})
    assert not METHOD.done(state)
    state = round_of(state, {0: column(0, 1)})
    assert state.change == 0.0
    assert METHOD.done(state)


def test_the_version_stays_when_no_seed_moves():
    X = column(3, 3, 3)
    state = started(HALF, [X])
    state = round_of(state, {0: X})
    assert (state.version, state.movement) == (0, 0.0)
    assert METHOD.broadcast(state).version == 0


def test_old_states_are_not_modified():
    X = column(0, 1, 5)
    state = started(HALF, [X])
    before = pickle.dumps(state)
    absorbed, _ = METHOD.absorb(state, answer(state, X, 0))
    kept = pickle.dumps(absorbed)
    METHOD.end_round(absorbed)
    assert pickle.dumps(state) == before
    assert pickle.dumps(absorbed) == kept


def test_what_a_client_that_left_has_said_stays():
    state = started(HALF, [column(0, 1)])
    after, found = METHOD.absorb(state, Left(0))
    assert after is state
    assert found == {"accepted": True}


# -------------------------------------------------------------------- the answer


def test_coincident_seeds_are_one_and_the_largest_cluster_comes_first():
    # 0, 0.0005 and 0.0011 are linked pair by pair (< 0.001): survivors 0, 5, 9.
    # Rows at 5 (two), 0 and 0.0005, 9: sizes 2, 2, 1; ties keep the seeds' order.
    X = column(0, 0.0005, 5, 5, 9)
    params = replace(HALF, learning_rate=1e-9)
    state = started(params, [X], column(0, 0.0005, 0.0011, 5, 9))
    state = round_of(state, {0: X})
    clustering = METHOD.result(state)
    assert clustering.k == 3
    assert clustering.centers is not None
    assert clustering.centers[:, 0] == pytest.approx([0, 5, 9], abs=1e-6)
    assert clustering.sizes.tolist() == [2, 2, 1]
    assert clustering.scores == {"objective": state.objective}
    assert METHOD.label(clustering, column(8, 1, 4), None, None).tolist() == [2, 0, 1]


def test_the_path_has_one_level_without_scores():
    clustering = METHOD.result(started(HALF, [column(0, 1, 1)]))
    (level,) = clustering.path
    assert (level.k, level.scores) == (2, NO_SCORES)
    assert clustering.scores == {}


def test_only_the_latest_upload_of_a_client_counts():
    # First all three rows at seed 0; later the seeds are elsewhere.
    X = column(0, 0, 1)
    state = started(replace(HALF, winner="nearest"), [X], column(0, 9))
    state = round_of(state, {0: X})
    assert METHOD.result(state).sizes.tolist() == [3, 0]
    state = replace(state, history=(*state.history, column(0, 1)))
    state, _ = METHOD.absorb(state, answer(state, X, 0))
    assert METHOD.result(state).sizes.tolist() == [2, 1]


def test_who_only_said_hello_counts_by_the_seeds_it_drew():
    # Client 0: two rows at seed 0. Client 1 has five rows and drew 7, 8: 3 + 2 rows.
    # Seeds 0, 7.6: sizes 5 and 2.
    params = PaperParams(n_seeds=2, winner="nearest")
    state = started(params, [column(0, 0)], column(0, 7.6))
    state, _ = METHOD.absorb(state, Hello(5, Positions(column(7, 8)), client=1))
    state, _ = METHOD.absorb(state, answer(state, column(0, 0), 0))
    clustering = METHOD.result(state)
    assert clustering.sizes.tolist() == [5, 2]
    assert clustering.centers is not None
    assert clustering.centers[:, 0].tolist() == [7.6, 0]


def test_progress_tells_what_a_run_shows():
    state = round_of(started(HALF, [column(0, 1)]), {0: column(0, 1)})
    progress = METHOD.progress(state)
    assert progress["k"] == METHOD.result(state).k
    assert progress["objective"] == state.objective
    assert progress["version"] == state.version
    assert progress["movement"] == state.movement
    assert progress["seeds"] is state.seeds


# ---------------------------------------------------------------------- refusals


def hello_of(points, n_rows=3, client=1):
    return Hello(n_rows, Positions(points), client=client)


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(3, None, client=1), "must carry positions"),
        (hello_of(np.zeros(2)), "table of float64"),
        (hello_of(np.zeros((2, 1), dtype=np.float32)), "table of float64"),
        (hello_of(np.zeros((2, 3))), "3 features, 1 agreed"),
        (hello_of(np.zeros((0, 1))), "expected 1 to 2 seeds"),
        (hello_of(column(1, 2, 3)), "expected 1 to 2 seeds of 3 rows, got 3"),
        (hello_of(column(1, 2), n_rows=1), "expected 1 to 1 seeds"),
        (hello_of(column(1, 2), n_rows=0), "expected 1 to 0 seeds"),
        (hello_of(column(1, np.nan)), "not finite"),
    ],
)
def test_a_malformed_hello_is_refused(hello, reason):
    state = started(HALF, [column(0, 1, 2)])
    before = pickle.dumps(state)
    with pytest.raises(RejectedMessage, match=reason):
        METHOD.absorb(state, hello)
    assert pickle.dumps(state) == before


GOOD = Intensities(
    np.array([0, 0, 1]),
    column(0.1, 0.2, 0.3),
    Cells(np.array([2, 1]), column(0, 1), np.zeros(2)),
)


def upload_with(**changes):
    return Update(replace(GOOD, **changes), version=0, client=0, contact=1)


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (replace(upload_with(), client=9), "client 9 has not said hello"),
        (replace(upload_with(), version=1), "version 1 was never sent"),
        (replace(upload_with(), version=-1), "version -1 was never sent"),
        (Update(None, version=0, client=0), "must carry update intensities"),
        (upload_with(cells=None), "expected cells"),
        (
            upload_with(cells=Cells(np.array([2, 2]), column(0, 1), np.zeros(2))),
            "cells hold 4 rows",
        ),
        (upload_with(owners=np.array([0, 1])), "for 3 rows of 1 features"),
        (upload_with(intensities=np.zeros((3, 2))), "for 3 rows of 1 features"),
        (upload_with(owners=np.array([0.0, 0.0, 1.0])), "int64 owners"),
        (upload_with(intensities=column(0, np.inf, 0)), "not finite"),
        (upload_with(intensities=column(np.inf, -np.inf, 0)), "not finite"),
        (upload_with(intensities=column(1e308, 1e308, np.nan)), "not finite"),
        (upload_with(owners=np.array([0, 0, 2])), r"not in 0\.\.1"),
        (upload_with(owners=np.array([-1, 0, 1])), r"not in 0\.\.1"),
        (upload_with(owners=np.array([0, 1, 0])), "seed by seed"),
        (upload_with(owners=np.array([0, 1, 1])), "do not count"),
    ],
)
def test_a_malformed_update_is_refused(update, reason):
    state = started(HALF, [column(0, 1, 2)])
    before = pickle.dumps(state)
    with pytest.raises(RejectedMessage, match=reason):
        METHOD.absorb(state, update)
    assert pickle.dumps(state) == before


def test_the_well_formed_update_is_accepted():
    state = started(HALF, [column(0, 1, 2)])
    after, found = METHOD.absorb(state, upload_with())
    assert found == {"accepted": True, "cells": 2}
    assert len(after.pending) == 1


def test_finite_numbers_whose_sum_is_not_are_accepted():
    state = started(HALF, [column(0, 1, 2)])
    huge = upload_with(intensities=column(1e308, 1e308, 1e308))
    assert METHOD.absorb(state, huge)[1]["accepted"]


# ------------------------------------------------------------------ degenerate data


@pytest.mark.parametrize("options", [{}, {"winner": "nearest", "anchor": "current"}])
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
def test_degenerate_data_give_finite_answers(tables, options):
    params = METHOD.parameters(n_seeds=50, **options)
    state = started(params, tables)
    for _ in range(3):
        state = round_of(METHOD.prepare(state), dict(enumerate(tables)))
    clustering = METHOD.result(state)
    assert clustering.centers is not None
    assert np.isfinite(clustering.centers).all()
    assert clustering.sizes.sum() == sum(len(X) for X in tables)
    assert np.isfinite(state.objective)
