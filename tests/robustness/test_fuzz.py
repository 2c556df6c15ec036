# SPDX-License-Identifier: Apache-2.0
"""Damaged messages and requests: refused in words, and nothing changes.

``make fuzz`` throws more than a hundred thousand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from immutables import Map
from tests.robustness.fuzz import (
    CORPUS,
    DAMAGES,
    Harm,
    Live,
    ask,
    begin,
    fuzz,
    fuzz_requests,
    throw,
    write_corpus,
)

from afcl.core.messages import Cells, Hello, Level, LevelReply, Plan, Summary, Update
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.runtime.codec import encode
from afcl.scale import Box

KEPT = sorted(CORPUS.glob("*.bin"))


@pytest.fixture(scope="module")
def live() -> Live:
    return begin()


@pytest.fixture(scope="module")
def unbounded(live: Live) -> Live:
    """The same without an agreed box: only what can overflow is out of bounds."""
    return replace(live, state=replace(live.state, bounded=False, extremes=Map()))


def test_the_corpus_is_small_and_begins_with_real_messages(tmp_path):
    write_corpus(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 14
    assert names <= {path.name for path in KEPT}
    assert len(KEPT) <= 60
    assert sum(path.stat().st_size for path in KEPT) < 200_000


def test_real_messages_are_absorbed(live):
    version = live.state.version
    assert not throw(live, live.answers["hello-0"], 0, 0)
    assert not throw(live, live.answers["update-0-2"], 2, version)
    assert throw(live, live.answers["update-0-2"], 0, version)
    assert throw(live, live.answers["ranges"], 1, version)
    for request in live.requests.values():
        assert not ask(live, request)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_corpus_does_no_harm(path, live, unbounded):
    data = path.read_bytes()
    for contact in range(3):
        for version in range(live.state.version + 1):
            throw(live, data, contact, version)
            throw(unbounded, data, contact, version)
    ask(live, data)


@pytest.mark.no_cover
def test_malformed_messages_are_refused_and_change_nothing(live, seed):
    told = fuzz(4000, seed, live)
    assert all(told[damage.__name__] > 100 for damage in set(DAMAGES))
    assert 0 < told["absorbed"] < 400


@pytest.mark.no_cover
def test_the_same_where_no_box_is_agreed(unbounded, seed):
    fuzz(1000, seed + 1, unbounded)


def test_damaged_requests_are_refused_in_words(live, seed):
    told = fuzz_requests(2500, seed, live)
    assert told["refused"] > 1000
    assert told["answered"] > 10


def test_harm_is_noticed(live, monkeypatch):
    """The fuzzer sees what it is for: a crash now, a crash later, a changed state."""
    sound = live.answers["update-0-2"]

    class Boom(Exception):
        pass

    def crash(*_):
        raise Boom("crash")

    with monkeypatch.context() as patch:
        patch.setattr("afcl.core.server.check_update", crash)
        with pytest.raises(Harm, match="Boom: crash"):
            throw(live, sound, 2, live.state.version)
    with monkeypatch.context() as patch:
        patch.setattr("afcl.core.rebuild.prepare", crash)
        with pytest.raises(Harm, match="later on Boom"):
            throw(live, sound, 2, live.state.version)
    with monkeypatch.context() as patch:
        patch.setattr("afcl.core.client.check_plan", crash)
        with pytest.raises(Harm, match="Boom"):
            ask(live, live.requests["step-1"])

    def spoil(state, _):
        state.memory[0].counts[0] += 1
        raise ValueError

    spoilt = begin()
    monkeypatch.setattr("afcl.core.server.check_update", spoil)
    with pytest.raises(Harm, match="ValueError"):
        throw(spoilt, sound, 2, live.state.version)


# ------------------------------------------------------------------ in the right form

numbers = st.floats(width=64) | st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e120, 1e308])
whole = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 50)


@st.composite
def bags(draw):
    """Draw cells of the right types, and otherwise anything."""
    r, d = draw(st.integers(0, 4)), draw(st.sampled_from([1, 2, 2, 2, 3]))
    return Cells(
        draw(hnp.arrays(np.int64, r, elements=whole)),
        draw(hnp.arrays(np.float64, (r, d), elements=numbers)),
        draw(hnp.arrays(np.float64, r, elements=numbers)),
    )


owners = hnp.arrays(np.int64, st.integers(0, 4), elements=whole)
sums = hnp.arrays(np.float64, st.integers(0, 3), elements=numbers)
valleys = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 4), st.integers(2, 3)), elements=numbers
)
level_replies = st.builds(LevelReply, bags(), owners, sums, valleys, whole)
hellos = st.builds(Hello, whole, bags())
updates = st.builds(
    Update,
    st.builds(Summary, bags(), owners, st.lists(level_replies, max_size=4).map(tuple)),
)
tables = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 4), st.integers(1, 3)), elements=numbers
)
columns = hnp.arrays(np.float64, st.integers(0, 4), elements=numbers)
plans = st.builds(
    Plan,
    tables,
    st.lists(st.builds(Level, tables, columns, columns, whole), max_size=2).map(tuple),
)
thorough = settings(
    max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@thorough
@given(hellos | updates, st.integers(0, 2))
def test_anything_of_the_right_type_does_no_harm(live, unbounded, message, contact):
    for each in (live, unbounded):
        throw(each, encode(message), contact, each.state.version)


@thorough
@given(plans, st.booleans())
def test_any_plan_does_no_harm_to_a_site(live, plan, wrapped):
    terms = Terms("run", "afcl", "{}", 0, 0, Box(np.zeros(2), np.ones(2)), 120)
    ask(live, encode(AskStep(terms, 1, 1, (plan,) if wrapped else plan)))


OPTIONS = (
    *("", "{", "[1]", "5", "null", '"x"', '{"self": 1}', '{"nope": 1}', "[" * 60_000),
    *('{"cells_per_root": 1e999}', '{"cells_per_root": NaN}', '{"min_cell": 1e300}'),
    *('{"min_cell": null}', '{"n_seeds": "x"}', '{"n_seeds": 2.5}', '{"n_seeds": []}'),
    *('{"privacy": 5}', '{"privacy": ["a"]}', '{"privacy": "dp(1e999)"}'),
    *('{"privacy": "dp-rounds(4)"}', '{"privacy": "secure"}', '{"criterion": []}'),
)


@pytest.mark.parametrize("method", ["afcl", "afcl-paper", "k-fed", "", "nope"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[:30])
def test_odd_terms_are_refused_in_words(live, method, options):
    terms = Terms("run", method, options, 0, 0, Box(np.zeros(2), np.ones(2)), 120)
    for payload in (None, (1, "x"), Plan(np.zeros((2, 2)), ())):
        ask(live, encode(AskStep(terms, 1, 1, payload)))
    ask(live, encode(AskHello(terms)))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1},
        {"client": -1},
        {"n_rows": -(2**63)},
        {"columns": ("height",)},
        {"box": Box(np.zeros(3), np.ones(3))},
        {"box": Box(np.zeros(2), np.zeros(2))},
        {"box": Box(np.full(2, np.nan), np.ones(2))},
        {"box": Box(np.zeros(2), np.full(2, 5e-324))},
    ],
    ids=str,
)
def test_terms_that_cannot_be_are_refused(live, change):
    sound = Terms("run", "afcl", "{}", 0, 0, Box(np.zeros(2), np.ones(2)), 120)
    assert not ask(live, encode(AskHello(sound)))
    refused = ask(live, encode(AskHello(replace(sound, **change))))
    assert refused or "n_rows" in change  # the method does not ask for it
