# SPDX-License-Identifier: Apache-2.0
"""Clients at every level: what they work on, and that they say no more than that."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.messages import Addressed, Broadcast, Cells, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng, secret_rng
from afcl.core.refine import coarse
from afcl.core.tasks import COUNT, Question, SecureHello, Task
from afcl.exceptions import RejectedMessage
from afcl.methods.afcl import Afcl
from afcl.privacy.accountant import epsilon_of
from afcl.privacy.grouping import group_rows
from afcl.privacy.masks import Sealed
from afcl.privacy.protection import protection
from afcl.privacy.secure import GRID
from afcl.runtime.codec import encode

X = np.random.default_rng(0).random((60, 2))
PLAN = Plan(np.random.default_rng(1).random((5, 2)), ())


def made(level, **options):
    method = Afcl()
    params = method.parameters(privacy=level, **options)
    view = method.view(X, params, secret_rng(b"mine", "run"))
    return method, params, view.stands


def messages(level, rng_seed=0, **options):
    method, params, view = made(level, **options)
    hello = method.hello(view, params, client_rng(rng_seed, 0, 0))
    update, _ = protection(params).step(PLAN, view, None)
    return hello.payload, update.payload


def test_summary_works_on_the_rows_themselves():
    assert made("summary")[2] is X


@pytest.mark.parametrize("seed", range(3))
def test_grouped_cells_are_unions_of_groups(seed):
    """Every cell of every message is a sum of whole groups: nothing finer can leak."""
    labels = group_rows(X, 5)
    groups = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    hello, update = messages("grouped(5)", seed)
    for cells in (hello, update.cells):
        assert cells.counts.sum() == 60
        for count, mean in zip(cells.counts, cells.means, strict=True):
            held = _whole_groups(groups, count, count * mean)
            assert held, "a cell is no union of groups"


def _whole_groups(groups, count, total):
    """Whether some groups give this count and sum (depth first over a dozen groups)."""

    def search(at, n, left):
        if n == 0:
            return np.abs(left).max() < 1e-9
        if at == len(groups) or n < 0:
            return False
        g = groups[at]
        return search(at + 1, n - len(g), left - X[g].sum(axis=0)) or search(
            at + 1, n, left
        )

    return search(0, int(count), total)


def test_min_cell_holds_above_the_groups():
    hello, update = messages("grouped(2)", min_cell=7)
    assert hello.counts.min() >= 7
    assert update.cells.counts.min() >= 7


def test_secure_says_hello_on_a_grid_and_shows_a_key():
    method, params, view = made("secure")
    said = method.hello(view, params, client_rng(0, 0, 0)).payload
    assert isinstance(view, Sealed)
    assert isinstance(said, SecureHello)
    steps = said.cells.means / GRID
    assert np.array_equal(steps, np.rint(steps))
    assert said.cells.counts.min() >= 5
    assert len(said.key) == 64
    assert view.secret.hex() not in str(encode(said))


def test_secure_answers_tasks_only():
    _, params, view = made("secure")
    with pytest.raises(RejectedMessage, match="tasks"):
        protection(params).step(PLAN, view, None)
    for own in (None, PLAN):
        with pytest.raises(RejectedMessage):
            protection(params).step(Addressed(None, own), view, None)


def test_secure_with_dp_sums_the_synopsis_not_the_rows():
    _, _, view = made("secure+dp(4)")
    assert isinstance(view, Sealed)
    assert isinstance(view.rows, Cells)
    assert view.rows is view.shown


def test_secure_with_summary_sums_rows_and_shows_cells_of_them():
    method, params, view = made("secure+summary")
    assert view.rows is X
    said = method.hello(view, params, client_rng(0, 0, 0)).payload
    assert said.cells.counts.sum() == 60
    assert said.cells.counts.min() >= 5
    own, _ = messages("summary")
    steps = said.cells.means / GRID
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(said.cells.means - own.means).max() <= GRID / 2
    assert np.array_equal(said.cells.counts, own.counts)


def test_a_simulated_client_has_a_name_instead_of_a_key():
    _, _, view = made("secure(plain)+summary")
    assert view.plain
    assert len(view.public) == 64
    assert not made("secure+summary")[2].plain


def test_dp_is_one_release_however_often_a_client_speaks():
    hello, update = messages("dp(4)", 0)
    again, _ = messages("dp(4)", 99)
    assert encode(hello) == encode(again)
    assert update.cells.counts.sum() == 60
    method = Afcl()
    params = method.parameters(privacy="dp(4)")
    other = method.view(X, params, secret_rng(b"other", "run"))
    assert encode(other.stands) != encode(hello)


class Book:
    """Keeps what is said, and what it cost."""

    def __init__(self):
        self.kept, self.costs = {}, {}

    def __call__(self, what, make, cost=0.0):
        if what not in self.kept:
            self.kept[what], self.costs[what] = make(), cost
        return self.kept[what]


def spoken(level, **options):
    """Let a client say hello and answer two plans; return what it kept."""
    book, method = Book(), Afcl()
    params = method.parameters(privacy=level, **options)
    view = method.view(X, params, secret_rng(b"mine", "run"), book)
    method.hello(view, params, client_rng(0, 0, 0))
    memory = None
    if not level.startswith("secure"):
        for seeds in (PLAN.seeds, PLAN.seeds / 2):
            sent = Broadcast(1, Plan(seeds, ()))
            rng = client_rng(0, 0, 1)
            _, memory = method.client_step(sent, view, memory, params, rng)
    return book


@pytest.mark.parametrize("level", ["dp(4)", "secure+dp(4)", "dp-rounds(4)"])
def test_what_messages_cost(level):
    book = spoken(level, contacts=3)
    spent = np.sqrt(sum(cost**2 for cost in book.costs.values()))
    assert epsilon_of(float(spent), 1e-5) == pytest.approx(4, abs=1e-6)
    assert len(book.costs) == (3 if level.startswith("dp-rounds") else 1)


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("summary", ["12 cells of 5 rows"]),
        ("secure+summary", ["12 cells of 5 rows"]),
        ("grouped(5)", ["groups of 5 rows"]),
        ("grouped(6)", ["groups of 6 rows"]),
        ("secure", ["groups of 5 rows"]),
    ],
)
def test_what_is_kept_where_nothing_can_be_charged(level, names):
    assert spoken(level).costs == dict.fromkeys(names, 0.0)


def test_levels_whose_every_word_follows_from_what_is_kept():
    method = Afcl()
    for level, once in {
        "summary": False,
        "secure": False,
        "secure+summary": False,
        "grouped(5)": True,
        "dp(4)": True,
        "secure+dp(4)": True,
        "dp-rounds(4)": True,
    }.items():
        told = method.disclosure(method.parameters(privacy=level, contacts=4))
        assert told.once == once
        assert told.steps == (None if level.startswith("secure") else 4)


def test_dp_rounds_draws_anew_for_every_question_and_stops_when_it_is_spent():
    _, params, view = made("dp-rounds(4)")
    said, memory = [], None
    for seeds in (PLAN.seeds, PLAN.seeds + 1e-12):
        update, memory = protection(params).step(Plan(seeds, ()), view, memory)
        said.append(update.payload.cells)
        # No counts of rows, which would need noise of their own.
        assert not any(level.valleys.any() for level in update.payload.levels)
    assert np.abs(said[0].means[0] - said[1].means[0]).max() > 1e-6
    update, _ = protection(params).step(PLAN, view, None)
    assert encode(update.payload.cells) == encode(said[0])
    with pytest.raises(RejectedMessage, match="epsilon"):
        protection(params).step(PLAN, view, memory)
    hello = protection(params).hello(view, client_rng(0, 0, 0)).payload
    assert hello.counts.sum() == 60


def test_levels_tell_what_they_ask_of_the_agreement():
    method = Afcl()

    def asked(level, **options):
        return method.requirements(method.parameters(privacy=level, **options))

    assert asked("summary").group == 1
    assert asked("grouped(7)").group == 7
    assert asked("dp(8)").bounds
    assert asked("secure", cohort=4).clients == 4
    assert asked("secure+summary").clients == 3
    assert asked("secure").box
    assert not asked("summary").box


def test_a_task_belongs_to_this_client():
    _, params, view = made("secure")
    question = Question(COUNT, (coarse(PLAN.seeds),))
    task = Task(0, COUNT, (0, 1, 2), ("00" * 32,) * 3, 0, question)
    with pytest.raises(RejectedMessage):
        protection(params).step(Addressed(None, task), view, None)
    assert isinstance(params, DefaultParams)
