# SPDX-License-Identifier: Apache-2.0
"""What the default preset's server refuses, and that it refuses nothing honest."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import rebuild, server
from afcl.core.cell_checks import MOST_CELLS
from afcl.core.checks import MOST_ROWS, check_outsider, check_question
from afcl.core.client import condense, reply
from afcl.core.messages import Cells, Hello, Level, LevelReply, Plan, Summary, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.rebuild import KEPT, prepare
from afcl.core.server import absorb_hello, absorb_update, broadcast
from afcl.core.state import ServerState
from afcl.core.tasks import (
    COUNT,
    KEY,
    PRESENCE,
    SCORE,
    SUM,
    Question,
    SecureHello,
    SeedPartition,
)
from afcl.exceptions import RejectedMessage

LOOSE = DefaultParams(min_cell=1)


def cells(counts, means, scatters=None):
    places = np.array(means, dtype=np.float64).reshape(len(counts), -1)
    scatter = np.zeros(len(counts)) if scatters is None else np.array(scatters, float)
    return Cells(np.array(counts), places, scatter)


def bounded(params=LOOSE, width=1):
    return server.agreed(ServerState(params, 0), width, True)


def heard(state, *hellos):
    """Return the state after these cells as hellos of clients 0, 1, ..., prepared."""
    for client, bag in enumerate(hellos):
        rows = int(bag.counts.sum())
        state, _ = absorb_hello(state, Hello(rows, bag, client=client))
    return prepare(state)


def refused(absorb, state, message, reason):
    """Assert that a message is refused and leaves the state as it was, to the byte."""
    before = pickle.dumps(state)
    with pytest.raises(RejectedMessage, match=reason):
        absorb(state, message)
    assert pickle.dumps(state) == before


# -------------------------------------------------------------------- hellos


@pytest.mark.parametrize("rows", [0, -1, MOST_ROWS + 1, 10**400, 5.0, True])
def test_the_number_of_rows_is_limited(rows):
    message = Hello(rows, cells([1], [0]), client=0)
    refused(absorb_hello, bounded(), message, "at least one row and at most")


def test_as_many_rows_as_may_be():
    big = Hello(MOST_ROWS, cells([MOST_ROWS], [0.5]), client=0)
    state, _ = absorb_hello(bounded(), big)
    assert dict(state.rows) == {0: MOST_ROWS}


def test_no_more_cells_than_rows_allow():
    # 14 rows make two cells of at least five, and ten rows of a bag three too many.
    state = bounded(DefaultParams(min_cell=5))
    three = cells([5, 5, 5], [0.1, 0.2, 0.3])
    refused(
        absorb_hello, state, Hello(14, three, client=0), "more than 2 cells of 14 rows"
    )
    absorb_hello(state, Hello(15, three, client=0))


def test_no_more_cells_than_a_client_forms():
    many = cells([1] * 257, np.linspace(0, 1, 257))
    assert MOST_CELLS == 256
    refused(absorb_hello, bounded(), Hello(1000, many, client=0), "more than 256 cells")
    asked = bounded(DefaultParams(min_cell=1, n_seeds=300))
    absorb_hello(asked, Hello(1000, many, client=0))


@pytest.mark.parametrize(
    ("mean", "fits"), [(-1.0, True), (2.0, True), (-1.001, False), (2.001, False)]
)
def test_means_lie_in_the_box_or_one_width_beyond(mean, fits):
    message = Hello(5, cells([5], [mean]), client=0)
    if fits:
        absorb_hello(bounded(), message)
    else:
        refused(absorb_hello, bounded(), message, "one width outside the agreed box")
    # Without a box there is nothing to lie in.
    absorb_hello(ServerState(LOOSE, 0), message)


def test_scatters_have_a_bound():
    # Of 4 rows in [-1, 2] with mean .5 the farthest apart are two at each end:
    # 4 * 1.5 * 1.5 = 9.
    ends = Hello(4, cells([4], [0.5], [9.0]), client=0)
    beyond = Hello(4, cells([4], [0.5], [9.1]), client=0)
    absorb_hello(bounded(), ends)
    refused(absorb_hello, bounded(), beyond, "scatter is larger than the agreed box")
    # In two columns the bounds add up: (1.5 * 1.5 + 2 * 1) * 4 = 17.
    wide = bounded(width=2)
    absorb_hello(wide, Hello(4, cells([4], [0.5, 1.0], [17.0]), client=0))
    beyond = Hello(4, cells([4], [0.5, 1.0], [17.1]), client=0)
    refused(absorb_hello, wide, beyond, "scatter is larger")


def test_no_two_cells_at_one_place():
    twice = Hello(9, cells([4, 5], [0.5, 0.5]), client=0)
    refused(absorb_hello, bounded(), twice, "two cells have the same mean")
    # Noisy cells may be cut off at the same place, and spread as noise will have it.
    noisy = bounded(DefaultParams(min_cell=1, privacy="dp(8)"))
    absorb_hello(noisy, twice)


@pytest.mark.parametrize(
    ("mean", "scatter"), [(1e121, 0.0), (-1e121, 0.0), (0.0, 1e256)]
)
def test_nothing_can_overflow_where_there_is_no_box(mean, scatter):
    message = Hello(5, cells([5], [mean], [scatter]), client=0)
    refused(absorb_hello, ServerState(LOOSE, 0), message, "a mean is beyond")


def test_the_agreement_says_how_many_columns_there_are():
    message = Hello(5, cells([5], [0.5, 0.5]), client=0)
    refused(absorb_hello, bounded(), message, "1 features agreed")


def test_means_lie_between_the_extremes_that_were_announced():
    state = server.announced(bounded(), 0, np.array([0.2]), np.array([0.4]))
    for mean in (0.2, 0.4):
        absorb_hello(state, Hello(5, cells([5], [mean]), client=0))
    for mean in (0.19, 0.41):
        message = Hello(5, cells([5], [mean]), client=0)
        refused(absorb_hello, state, message, "outside the extremes")
        absorb_hello(state, replace(message, client=1))  # it announced nothing


# -------------------------------------------------------------------- answers

SOUND = cells([10, 10], [0, 1], [1, 1])


def as_valleys(valleys: Any, k: int) -> Any:
    """Return counts of every cluster from those of one; anything else as it is."""
    return np.array([valleys] * k) if isinstance(valleys, tuple) else valleys


def answer(
    state,
    bag=SOUND,
    owners=(0, 1),
    version=None,
    level_bag=SOUND,
    level_owners=(0, 1),
    revision=None,
    valleys=(0.0, 7.0, 13.0),
):
    """Return client 0's answer to the newest plan, sound unless said otherwise."""
    levels = tuple(
        LevelReply(
            level_bag,
            np.array(level_owners),
            np.ones(2),
            as_valleys(valleys, sent.centers.shape[0]),
            sent.revision if revision is None else revision,
        )
        for sent in state.sent[-1].candidates
    )
    summary = Summary(bag, np.array(owners), levels)
    return Update(summary, state.version if version is None else version, client=0)


def settled():
    """Return a server with seeds and candidate centres at 0 and 1."""
    state = heard(bounded(), SOUND)
    assert state.seeds is not None
    order = np.argsort(state.seeds[:, 0])
    assert state.seeds[order, 0].tolist() == [0.0, 1.0]
    assert len(state.candidates) == 1
    plan = state.sent[0]
    level = replace(plan.candidates[0], centers=np.array([[0.0], [1.0]]))
    ordered = replace(plan, seeds=np.array([[0.0], [1.0]]), candidates=(level,))
    return replace(state, sent=(ordered,))


OFF = "do not lie around the seeds"
NO_COUNT = "not a whole number from 0 to 20"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "owners exchanged": ({"owners": (1, 0)}, OFF),
    "both at one place": ({"bag": cells([10, 10], [0, 0.1])}, OFF),
    "a cell beyond the middle": ({"bag": cells([10, 10], [0.51, 1])}, OFF),
    "an owner that is no seed": ({"owners": (0, 2)}, OFF),
    "folded, and yet as many cells as seeds": ({"owners": (0, -1)}, OFF),
    "one owner twice": ({"owners": (0, 0)}, "the same owner"),
    "a negative owner": ({"owners": (0, -2)}, "an owner is negative"),
    "too few owners": ({"owners": (0,)}, "one int64 owner per cell"),
    "owners that are not whole": ({"owners": (0.0, 1.0)}, "one int64 owner per cell"),
    "a level's cells elsewhere": ({"level_bag": cells([10, 10], [0, 0.1])}, OFF),
    "a level's owners exchanged": ({"level_owners": (1, 0)}, OFF),
    "a revision from the future": ({"revision": 1}, OFF),
    "a revision before the first": ({"revision": -1}, "must be a whole number"),
    "a revision that is no number": ({"revision": "0"}, "must be a whole number"),
    "valleys that are no array": ({"valleys": None}, "three float64 counts"),
    "valleys of other numbers": ({"valleys": (0, 1, 2)}, "three float64 counts"),
    "two counts a valley": ({"valleys": (0.0, 1.0)}, "three float64 counts"),
    "a flat valley": ({"valleys": np.zeros(6)}, "three float64 counts"),
    "a valley alone": ({"valleys": np.zeros((1, 3))}, "three float64 counts"),
    "very many valleys": ({"valleys": np.zeros((257, 3))}, "three float64 counts"),
    "a valley of no level": ({"valleys": np.zeros((3, 3))}, OFF),
    "half a row in a valley": ({"valleys": (0.0, 0.5, 1.0)}, NO_COUNT),
    "fewer rows than none": ({"valleys": (-1.0, 0.0, 1.0)}, NO_COUNT),
    "more rows than there are": ({"valleys": (0.0, 0.0, 21.0)}, NO_COUNT),
    "a valley of nan": ({"valleys": (0.0, 0.0, np.nan)}, NO_COUNT),
    "a bottomless valley": ({"valleys": (np.inf, 0.0, 0.0)}, NO_COUNT),
    "a version from the future": ({"version": 2}, "version 2 was never sent"),
    "a version before the first": ({"version": -1}, "version -1 was never sent"),
}


@pytest.mark.parametrize("name", BAD)
def test_answers_that_do_not_answer_what_was_sent(name):
    state = settled()
    change, reason = BAD[name]
    refused(absorb_update, state, answer(state, **change), reason)


@pytest.mark.parametrize("name", ["one owner twice", "a negative owner"])
def test_an_answer_to_an_older_version_is_checked_as_far_as_possible(name):
    state = replace(settled(), version=2)
    change, reason = BAD[name]
    refused(absorb_update, state, answer(state, version=1, **change), reason)


def test_an_answer_to_an_older_version_cannot_be_compared_with_its_seeds():
    state = replace(settled(), version=2)
    absorb_update(state, answer(state, version=1, owners=(1, 0)))


def test_sound_answers():
    state = settled()
    for bag, owners in [
        (SOUND, (0, 1)),
        (
            cells([10, 10], [0.5, 0.5 + 1e-12]),
            (0, 1),
        ),  # on the border, but for rounding
        (cells([20], [0.7]), (-1,)),  # folded: may lie anywhere
        (cells([20], [1.0]), (1,)),  # nobody near the other seed
    ]:
        absorb_update(state, answer(state, bag=bag, owners=owners))


def test_no_more_levels_than_are_ever_sent():
    params = DefaultParams(min_cell=1, candidates=1)
    state = replace(settled(), params=params, version=2)
    late = answer(state, version=1)
    many = replace(late.payload, levels=late.payload.levels * 9)
    refused(absorb_update, state, replace(late, payload=many), "at most 8 levels")
    alone = replace(state, params=replace(params, criterion="silhouette"))
    three = replace(late.payload, levels=late.payload.levels * 3)
    refused(absorb_update, alone, replace(late, payload=three), "at most 2 levels")


def test_an_answer_may_be_to_any_plan_of_its_version():
    # The seeds move on with every answer; who answers what was sent before is honest.
    first = settled()
    moved = replace(first.sent[0], seeds=np.array([[0.3], [2.0]]))
    state = replace(first, sent=(first.sent[0], moved), plans=2)
    for bag in (SOUND, cells([10, 10], [1.1, 1.2])):
        absorb_update(state, answer(state, bag=bag))
    far = cells([10, 10], [1.6, 1.1])
    refused(absorb_update, state, answer(state, bag=far), OFF)


def test_plans_are_kept_while_the_version_lasts(seed, monkeypatch):
    monkeypatch.setattr(rebuild, "KEPT", 3)
    params = DefaultParams(min_cell=1, contacts=99, drift=9.0)
    rng = np.random.default_rng(seed)
    tables = [rng.random((40, 1)) for _ in range(2)]
    state = server.agreed(ServerState(params, seed), 1, True)
    for client, X in enumerate(tables):
        bag = condense(X, params, client_rng(seed, client, 0))
        state, _ = absorb_hello(state, Hello(40, bag, client=client))
    state = prepare(state)
    first = broadcast(state)
    for turn in range(2, 6):
        sent = broadcast(state)
        told = Update(reply(tables[0], sent.payload, params), sent.version, client=0)
        state = prepare(absorb_update(state, told)[0])
        assert state.version == 1
        assert state.plans == turn
        assert len(state.sent) == min(turn, 3)
        assert state.sent[-1] is broadcast(state).payload
    # The first plan is forgotten: an answer to it is believed, as far as it goes.
    told = Update(reply(tables[1], first.payload, params), 1, client=1)
    absorb_update(state, told)
    assert KEPT == 64
    late, _ = absorb_hello(state, Hello(5, cells([5], [0.3]), client=7))
    rebuilt = prepare(late)
    assert (rebuilt.version, rebuilt.plans, len(rebuilt.sent)) == (2, 1, 1)


# -------------------------------------------------------------------- plans

LEVEL = Level(np.zeros((2, 3)), np.zeros(2), np.ones(2), 0)
PLAN = Plan(np.zeros((4, 3)), (LEVEL,))


def with_candidates(candidates: Any) -> Plan:
    """Return a plan with whatever in place of candidates."""
    return replace(PLAN, candidates=candidates)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (None, "expected seeds and candidates"),
        (replace(PLAN, seeds=np.zeros((4, 2))), "seeds do not fit"),
        (replace(PLAN, seeds=np.zeros((0, 3))), "seeds do not fit"),
        (replace(PLAN, seeds=np.zeros(3)), "seeds do not fit"),
        (replace(PLAN, seeds=np.zeros((4, 3), dtype=np.int64)), "seeds do not fit"),
        (replace(PLAN, seeds=np.full((4, 3), np.nan)), "seeds do not fit"),
        (replace(PLAN, seeds=np.full((4, 3), 1e121)), "seeds do not fit"),
        (with_candidates([LEVEL]), "a tuple of candidates"),
        (with_candidates((PLAN,)), "levels as candidates"),
        (Plan(PLAN.seeds, (replace(LEVEL, centers=np.zeros((1, 3))),)), "centres"),
        (Plan(PLAN.seeds, (replace(LEVEL, centers=np.zeros((2, 2))),)), "centres"),
        (Plan(PLAN.seeds, (replace(LEVEL, spreads=-np.ones(2)),)), "cannot be"),
        (Plan(PLAN.seeds, (replace(LEVEL, spreads=np.ones(3)),)), "cannot be"),
        (Plan(PLAN.seeds, (replace(LEVEL, counts=np.full(2, np.inf)),)), "cannot be"),
        (Plan(PLAN.seeds, (replace(LEVEL, counts=np.ones(2, int)),)), "cannot be"),
    ],
)
def test_a_client_refuses_a_plan_that_cannot_be(plan, reason):
    rows = np.random.default_rng(0).random((20, 3))
    reply(rows, PLAN, LOOSE)
    with pytest.raises(RejectedMessage, match=reason):
        reply(rows, plan, LOOSE)


# -------------------------------------------------------------------- honest


@st.composite
def tables(draw):
    """Draw two clients' rows in the unit box, often equal or constant."""
    d = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grid = draw(st.sampled_from([1, 2, 5, 10**6]))
    return [
        rng.integers(0, grid + 1, (draw(st.integers(5, 40)), d)) / grid
        for _ in range(2)
    ]


@settings(max_examples=40)
@given(tables(), st.sampled_from([1, 2, 5]), st.integers(0, 9))
def test_honest_messages_are_never_refused(rows, min_cell, draw):
    params = DefaultParams(min_cell=min_cell, contacts=9)
    state = server.agreed(ServerState(params, draw), rows[0].shape[1], True)
    for client, X in enumerate(rows):
        state = server.announced(state, client, X.min(axis=0), X.max(axis=0))
        bag = condense(X, params, client_rng(draw, client, 0))
        state, _ = absorb_hello(state, Hello(X.shape[0], bag, client=client))
    older = []
    for _ in range(3):
        state = prepare(state)
        sent = broadcast(state)
        for client, X in enumerate(rows):
            said = reply(X, sent.payload, params)
            update = Update(said, version=sent.version, client=client)
            state, _ = absorb_update(state, update)
            older.append(update)
    for update in older:  # late ones are welcome
        absorb_update(state, update)


# -------------------------------------------------------------------- questions


def divided(seeds, parents, groups):
    return SeedPartition(
        np.array(seeds, dtype=np.float64)[:, None], np.array(parents), np.array(groups)
    )


OUTER = divided([0.1, 0.5, 0.9], [0, 0, 0], [0, 1, 0])
INNER = divided([0.1, 0.2, 0.5, 0.6], [0, 0, 1, 1], [1, 0, 2, 2])
JUDGED = Level(np.array([[0.1], [0.9]]), np.ones(2), np.full(2, 5.0), 0)


def test_honest_questions_are_not_refused():
    for kind in (COUNT, SUM):
        check_question(Question(kind, (OUTER,)), 1, DefaultParams())
        check_question(Question(kind, (OUTER, INNER)), 1, DefaultParams())
    check_question(Question(SCORE, levels=(JUDGED, JUDGED)), 1, DefaultParams())


def test_groups_are_opened_one_by_one_where_they_are_summed():
    nested = (OUTER, INNER)
    bits = np.array([1, 0])  # of the coarse groups
    check_question(Question(SUM, nested, opened=bits), 1, DefaultParams())
    check_question(Question(SUM, nested[:1], opened=bits), 1, DefaultParams())
    for kind in (COUNT, PRESENCE):
        check_question(Question(kind, nested), 1, DefaultParams())
        with pytest.raises(RejectedMessage, match="opened where they are summed"):
            check_question(Question(kind, nested, opened=bits), 1, DefaultParams())
    odd: Any
    for odd in (bits[:1], bits.astype(float), bits + 1, -bits, bits[None], [1, 0]):
        with pytest.raises(RejectedMessage, match="whether it is opened"):
            check_question(Question(SUM, nested, opened=odd), 1, DefaultParams())


def test_no_more_parts_than_memory_can_bear():
    many = divided(np.linspace(0, 1, 20_001), [0] * 20_001, range(20_001))
    with pytest.raises(RejectedMessage, match="at most 20000"):
        check_question(Question(COUNT, (many,)), 1, DefaultParams())


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (None, "expected a question"),
        (OUTER, "expected a question"),
        (Question(KEY, (OUTER,)), "'key' cannot be answered"),
        (Question("open sum", (OUTER,)), "'open sum' cannot be answered"),
        (Question(COUNT), "expected partitions, or clusterings"),
        (Question(SUM, levels=(JUDGED,)), "expected partitions, or clusterings"),
        (Question(SUM, (OUTER,), (JUDGED,)), "expected partitions, or clusterings"),
        (Question(SCORE, (OUTER,)), "expected partitions, or clusterings"),
        (Question(SCORE, (OUTER,), (JUDGED,)), "expected partitions, or clusterings"),
        (Question(SCORE), "expected partitions, or clusterings"),
        (Question(COUNT, (OUTER, INNER, INNER)), "expected partitions, or clusterings"),
        (Question(COUNT, [OUTER]), "expected partitions, or clusterings"),  # type: ignore[arg-type]
        (Question(SCORE, levels=[JUDGED]), "expected partitions, or clusterings"),  # type: ignore[arg-type]
    ],
)
def test_questions_of_the_wrong_form_are_refused(question, reason):
    with pytest.raises(RejectedMessage, match=reason):
        check_question(question, 1, DefaultParams())


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": OUTER.seeds[:2]},
        {"seeds": np.zeros((3, 2))},
        {"seeds": np.zeros((3, 1), dtype=np.float32)},
        {"seeds": np.array([[0.0], [np.nan], [1.0]])},
        {"seeds": np.array([[0.0], [1e300], [1.0]])},
        {"seeds": None},
        {"parents": None},
        {"parents": np.zeros(3)},
        {"parents": np.array([0, 0])},
        {"parents": np.array([0, 0, 3])},
        {"groups": np.array([0, -1, 1])},
        {"groups": np.array([0, 1, 3])},
        {"groups": np.array([[0, 1, 2]])},
    ],
)
def test_seeds_without_parents_groups_or_columns_are_refused(change):
    odd = replace(OUTER, **change)
    with pytest.raises(RejectedMessage, match="every seed needs a parent and a group"):
        check_question(Question(COUNT, (odd,)), 1, DefaultParams())
    with pytest.raises(RejectedMessage, match="every seed needs a parent and a group"):
        check_question(Question(COUNT, (None,)), 1, DefaultParams())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "nested",
    [
        # A first partition has one parent.
        (INNER,),
        (divided([0.1, 0.9], [1, 1], [0, 1]),),
        # A group without a seed: rows of it would have nowhere to go.
        (OUTER, divided([0.1, 0.2], [0, 0], [0, 1])),
        # One that is numbered but has none itself.
        (divided([0.1, 0.5, 0.9], [0, 0, 0], [0, 2, 2]),),
        # Parents that are in no order, or that there are none of.
        (OUTER, divided([0.1, 0.2, 0.5], [0, 1, 0], [0, 1, 0])),
        (OUTER, divided([0.1, 0.2, 0.5], [0, 1, 2], [0, 1, 2])),
        # A group that lies in two groups: sums whose difference is a few rows.
        (OUTER, divided([0.1, 0.2, 0.5], [0, 0, 1], [0, 1, 1])),
    ],
)
def test_groups_that_do_not_lie_inside_each_other_are_refused(nested):
    for kind in (COUNT, SUM):
        with pytest.raises(RejectedMessage, match="must lie inside each other"):
            check_question(Question(kind, nested), 1, DefaultParams())


@pytest.mark.parametrize(
    "change",
    [
        {"centers": np.zeros((2, 2))},
        {"centers": np.zeros((1, 1))},
        {"centers": np.array([[0.0], [np.inf]])},
        {"spreads": np.array([1.0, -1.0])},
        {"spreads": np.ones(3)},
        {"counts": np.array([1.0, np.nan])},
        {"counts": np.array([1, 2])},
    ],
)
def test_clusterings_that_cannot_be_are_not_scored(change):
    odd = replace(JUDGED, **change)
    with pytest.raises(RejectedMessage, match="candidate's"):
        check_question(Question(SCORE, levels=(JUDGED, odd)), 1, DefaultParams())
    with pytest.raises(RejectedMessage, match="expected levels"):
        check_question(Question(SCORE, levels=(None,)), 1, DefaultParams())  # type: ignore[arg-type]


def _hello(means, secure=False):
    means = np.array(means, dtype=float)
    n = means.shape[0]
    cells = Cells(np.full(n, 5), means, np.zeros(n))
    return Hello(5 * n, SecureHello(cells, "ab" * 32) if secure else cells)


ONE_FAR = np.array([True, False])


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "means",
    [
        [[1.25, 0.4], [0.4, -0.25], [0.4, 0.4]],
        [[0.5, 0.4], [0.5, 0.1], [0.4, 0.4]],  # rows beyond all measure are put there
    ],
)
def test_outsiders_are_refused(means, secure):
    with pytest.raises(RejectedMessage, match="more than half of its rows lie outside"):
        check_outsider(_hello(means, secure), ONE_FAR)


@pytest.mark.parametrize(
    "said",
    [
        _hello([[1.25, 0.4], [0.4, 0.4]]),  # half of the rows, not more
        _hello([[1.0, 0.0], [0.0, 1.0]]),
        _hello([[0.4, 0.5], [0.2, 0.5]]),  # in a column that is not far
        Hello(5, "what another method says"),
    ],
)
def test_who_is_inside_with_half_of_its_rows_is_welcome(said):
    check_outsider(said, ONE_FAR)
