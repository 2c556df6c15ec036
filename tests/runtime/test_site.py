# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core.messages import Cells, Hello, Level, Plan, Positions, Summary, Update
from afcl.core.protocol import client_rng, keep_nothing
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.exceptions import CodecError, RejectedMessage
from afcl.methods import get_method
from afcl.methods.afcl import Afcl
from afcl.privacy.accountant import mu_of
from afcl.runtime.codec import decode, encode
from afcl.runtime.site import Site, shown_rows
from afcl.scale import Box, Ranges

ROWS = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 50.0] + [0.0, 100.0]
BOX = Box(np.array([0.0, 100.0]), np.array([2.0, 50.0]))
TERMS = Terms("run", "afcl", '{"min_cell": 2}', 7, 3, BOX, 200)
PLAN = Plan(
    np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0]]),
    (Level(np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones(2), np.array([20.0, 20.0]), 0),),
)


def asked(request, site=None):
    return decode((site or Site(ROWS)).answer(encode(request)))


def test_ranges_with_extremes():
    said = asked(AskRanges("run", True))

    assert isinstance(said, Ranges)
    assert (said.n_rows, said.n_features) == (40, 2)
    assert np.array_equal(said.low, ROWS.min(axis=0))
    assert np.array_equal(said.high, ROWS.max(axis=0))


def test_ranges_without_extremes_reveal_none():
    said = asked(AskRanges("run", False))

    assert (said.n_rows, said.n_features) == (40, 2)
    assert said.low.size == said.high.size == 0


def test_a_hello_is_the_methods_own_on_scaled_rows():
    method = get_method("afcl")
    params = method.parameters(min_cell=2)
    expected = method.hello(BOX.scale(ROWS), params, client_rng(7, 3, 0))

    said = asked(AskHello(TERMS))

    assert isinstance(said, Hello)
    assert encode(said) == encode(expected)
    assert isinstance(said.payload, Cells)


def test_an_answer_is_the_methods_own_on_scaled_rows():
    said = asked(AskStep(TERMS, 4, 2, PLAN))

    assert isinstance(said, Update)
    assert isinstance(said.payload, Summary)
    assert said.payload.cells.counts.sum() == 40
    assert (said.version, said.client, said.contact) == (-1, -1, -1)


def test_options_reach_the_method():
    coarse = asked(AskHello(replace(TERMS, options='{"min_cell": 20}')))

    assert coarse.payload.counts.min() >= 20


def test_the_agreed_number_of_rows_reaches_the_method():
    terms = replace(TERMS, method="afcl-paper", options="{}", n_rows=32 * 5)

    assert isinstance(asked(AskHello(terms)).payload, Positions)
    upload = asked(AskStep(terms, 0, 1, Positions(np.zeros((5, 2))))).payload
    assert upload.intensities.shape == (40, 2)


def test_a_new_process_says_the_same():
    site = Site(ROWS)
    requests = [AskHello(TERMS), AskStep(TERMS, 1, 1, PLAN), AskStep(TERMS, 1, 2, PLAN)]

    for request in [*requests, *reversed(requests)]:
        data = encode(request)
        assert site.answer(data) == Site(ROWS).answer(data)


def test_draws_depend_on_seed_and_client():
    first = Site(ROWS).answer(encode(AskHello(TERMS)))

    assert first != Site(ROWS).answer(encode(AskHello(replace(TERMS, seed=8))))
    assert first != Site(ROWS).answer(encode(AskHello(replace(TERMS, client=4))))


def test_rows_are_not_modified():
    rows = ROWS.copy()
    site = Site(rows)
    for request in (
        AskRanges("run", True),
        AskHello(TERMS),
        AskStep(TERMS, 1, 1, PLAN),
    ):
        asked(request, site)

    assert np.array_equal(rows, ROWS)


def test_scaled_rows_are_kept_for_the_same_terms():
    site = Site(ROWS)

    first = site.scaled(TERMS)
    assert site.scaled(TERMS) is first
    assert np.array_equal(first, (ROWS - BOX.low) / BOX.span)

    other = replace(TERMS, box=Box(np.zeros(2), np.ones(2)))
    assert np.array_equal(site.scaled(other), ROWS)
    assert np.array_equal(site.scaled(TERMS), first)


class Counting(Afcl):
    """A method's client side that remembers how often it was asked."""

    def parameters(self, **options):
        return options

    def view(self, X, params, rng, keep=keep_nothing):
        return X

    def settle(self, params, n_rows):
        return {**params, "n_rows": n_rows}

    def client_step(self, broadcast, X, memory, params, rng):
        memory = (memory or 0) + 1
        said = (memory, broadcast.version, params["n_rows"], params["min_cell"])
        return Update((*said, float(rng.random()))), memory


def test_memory_goes_from_answer_to_answer(monkeypatch):
    monkeypatch.setattr("afcl.runtime.site.get_method", lambda name: Counting())
    site = Site(ROWS)
    assert site.memory is None

    said = [asked(AskStep(TERMS, 5, contact, None), site).payload for contact in (1, 2)]

    draws = [float(client_rng(7, 3, contact).random()) for contact in (1, 2)]
    assert said == [(1, 5, 200, 2, draws[0]), (2, 5, 200, 2, draws[1])]
    assert site.memory == 2
    site.memory = 10
    assert asked(AskStep(TERMS, 5, 3, None), site).payload[0] == 11


@pytest.mark.parametrize("request_", [Update(None), Hello(1, None), TERMS, BOX])
def test_other_requests_are_refused(request_):
    name = type(request_).__name__
    with pytest.raises(RejectedMessage, match=f"a site cannot answer a {name}"):
        Site(ROWS).answer(encode(request_))


def test_rubbish_is_refused():
    with pytest.raises(CodecError):
        Site(ROWS).answer(b"rubbish")


@pytest.mark.parametrize(
    "change",
    [
        {"method": "magic"},
        {"options": "{"},
        {"options": "[1]"},
        {"options": '{"colour": 1}'},
        {"options": '{"min_cell": "many"}'},
        {"options": '{"privacy": "magic"}'},
    ],
)
def test_terms_that_cannot_be_met_are_refused(change):
    with pytest.raises(RejectedMessage, match="these terms cannot be met"):
        asked(AskHello(replace(TERMS, **change)))


def test_extremes_of_groups_are_no_rows():
    rows = np.random.default_rng(0).normal(size=(57, 3))
    said = asked(AskRanges("run", True, group=5), Site(rows))
    exact = asked(AskRanges("run", True), Site(rows))
    assert said.n_rows == 57
    assert np.all(said.low > exact.low)
    assert np.all(said.high < exact.high)
    assert not np.isin(said.low, rows).any()


def test_groups_reach_about_as_far_as_their_rows():
    rows = np.array([[0.0], [2.0], [10.0], [12.0], [50.0], [50.001]])
    shown = np.sort(shown_rows(rows, 2)[:, 0])
    np.testing.assert_allclose(shown[:6], [0.0, 1.0, 2.0, 10.0, 11.0, 12.0], atol=1e-5)


def test_groups_of_a_few_steps_do_not_tell_how_far_they_reach():
    """Steps of 2, a reach of 12: variances are multiples of (2 x 1.5)^2, that is 16."""
    shown = shown_rows(np.array([[0.0], [2.0], [10.0], [12.0]]), 2)
    assert sorted(shown[:, 0].tolist()) == [1.0, 1.0, 1.0, 11.0, 11.0, 11.0]
    rows = np.zeros((0, 2))
    assert shown_rows(rows, 5) is rows


def private(options):
    return replace(TERMS, options=options)


def test_noise_and_keys_come_from_the_sites_own_secret():
    for level in ("dp(4)", "secure"):
        terms = private(f'{{"privacy": "{level}"}}')
        said = [
            Site(ROWS, secret=secret).answer(encode(AskHello(terms)))
            for secret in (b"one" * 10, b"two" * 10, b"one" * 10, None, None)
        ]
        assert said[0] == said[2] != said[1]
        assert said[3] == said[4]


def test_noise_is_another_one_under_other_terms_and_no_function_of_the_rows():
    """Who shifts the box must not learn from equal bytes that no row lies between."""
    low, span = ROWS.min(axis=0) - 1, np.ptp(ROWS, axis=0) + 2
    boxes = [Box(low, span), Box(low - 1e-9, span), Box(low, span + 1e-9)]
    for level in ("dp(4)", "dp-rounds(4)"):
        terms = private(f'{{"privacy": "{level}"}}')
        said = [
            Site(ROWS, secret=b"mine").answer(encode(AskHello(replace(terms, box=box))))
            for box in (*boxes, boxes[0])
        ]
        assert said[0] == said[3]
        assert len(set(said)) == 3
        # Far away and all in one place: nothing but noise is left to differ.
        far = [replace(terms, box=Box(low - 1e6 - i, span)) for i in range(2)]
        ones = [Site(ROWS, secret=b"mine").answer(encode(AskHello(t))) for t in far]
        assert ones[0] != ones[1]


@pytest.mark.parametrize("first", ["hello", "step"])
def test_what_costs_is_charged_when_it_is_made_whoever_asks_for_it(first):
    """A step is not free because no hello was asked for before."""
    paid = []
    terms = private('{"privacy": "dp(4)"}')

    def keep(what, make, cost=0.0):
        paid.append((what, cost))
        return make()

    site = Site(ROWS, keep=keep)
    requests = [AskHello(terms), AskStep(terms, 1, 1, PLAN)]
    for request in requests if first == "hello" else requests[::-1]:
        asked(request, site)
    assert paid == [("synopsis dp(4) of cells of 5 rows", mu_of(4, 1e-5))]


def test_who_cannot_pay_says_nothing():
    def refuse(what, make, cost=0.0):
        raise RejectedMessage("spent")

    terms = private('{"privacy": "dp-rounds(4)"}')
    site = Site(ROWS, keep=refuse)
    for request in (AskHello(terms), AskStep(terms, 1, 1, PLAN)):
        with pytest.raises(RejectedMessage, match="spent"):
            asked(request, site)
    assert site.memory is None
