# SPDX-License-Identifier: Apache-2.0
"""Tables with gaps in a run: who speaks, who is labelled, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import AFCL
from afcl.core.terms import AskHello, AskRanges, Terms
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.metrics import adjusted_rand
from afcl.runtime.agreement import check_ranges
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.schedule import Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.site import NO_GAPS, Site
from afcl.runtime.spec import Spec
from afcl.scale import Ranges, given_box, ranges_of, supported_box

NAN = np.nan
LEVELS = ["secure(plain)+summary", "summary", "grouped(5)", "secure(plain)+grouped(5)"]


def spots(seed, n=60, d=6, sites=3):
    """Rows of three far spots at three sites, and where each belongs."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, sites * n)
    X = 4.0 * np.eye(3, d)[y] + rng.normal(0, 0.3, (sites * n, d))
    return X, y, np.arange(sites * n) % sites


def with_gaps(X, rate, seed):
    G = X.copy()
    G[np.random.default_rng([seed, 1]).random(X.shape) < rate] = NAN
    return G


def run(tables, level="summary", seed=0, **spec):
    return simulate(Spec(get_method("afcl"), {"privacy": level}, seed, **spec), tables)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("missing", ["impute", "available"])
def test_gaps_change_neither_k_nor_who_belongs_together(level, missing, seed):
    X, y, owner = spots(seed)
    G = with_gaps(X, 0.05, seed)
    outcome = run([G[owner == g] for g in range(3)], level, seed, missing=missing)
    assert outcome.clustering.k == 3
    labels = np.empty(len(y), dtype=int)
    for g in range(3):
        labels[owner == g] = outcome.labels[g]
    assert adjusted_rand(labels, y) > 0.95
    incomplete = np.isnan(G).any(axis=1)
    asides = [int(incomplete[owner == g].sum()) for g in range(3)]
    if missing == "available":
        assert list(outcome.set_aside) == asides
    else:
        assert all(a <= b for a, b in zip(outcome.set_aside, asides, strict=True))
    told = [tally.rows for tally in outcome.finished.tallies.values()]
    assert told == [60 - aside for aside in outcome.set_aside]


def test_a_column_that_one_site_lacks_altogether(seed):
    X, y, owner = spots(seed, d=12)
    X[owner == 1, 7] = NAN
    tables = [X[owner == g] for g in range(3)]
    outcome = run(tables, LEVELS[0], seed)
    box = outcome.finished.terms.box
    assert box.typical is not None
    others = [np.median(X[owner == g, 7]) for g in (0, 2)]
    assert box.typical[7] == pytest.approx(np.median(others))
    assert outcome.clustering.k == 3
    assert outcome.set_aside == (0, 0, 0)
    assert not outcome.finished.rejected


def test_a_column_without_any_value_is_refused():
    X, _, owner = spots(0)
    X[:, 2] = NAN
    with pytest.raises(InputError, match="column 3 has no value anywhere: leave it"):
        run([X[owner == g] for g in range(3)])


def test_a_site_that_lacks_half_of_its_columns_takes_no_part(seed):
    X, y, owner = spots(seed, d=2)
    X[owner == 1, 1] = NAN
    outcome = run([X[owner == g] for g in range(3)], "summary", seed)
    assert outcome.clustering.k == 3
    assert sorted(outcome.finished.tallies) == [0, 2]
    (note,) = [event["text"] for event in outcome.finished.trace.of("note")]
    assert note.startswith("client 1 has 0 rows whose gaps can be filled, fewer than 5")
    assert outcome.labels[1].shape == (60,)


def test_nobody_can_fill_its_gaps(seed):
    X, _, owner = spots(seed, d=3)
    X[np.arange(len(X)), np.arange(len(X)) % 3] = NAN
    with pytest.raises(
        InputError, match="no client has 5 rows whose gaps can be filled"
    ):
        run([X[owner == g] for g in range(3)], missing="available")


def test_noise_does_not_cover_what_other_rows_say_of_a_gap():
    X, _, owner = spots(0, n=400)
    bounds = (np.full(6, -3.0), np.full(6, 7.0))
    G = with_gaps(X, 0.02, 0)
    with pytest.raises(InputError, match=r"at dp a gap cannot be filled"):
        run([G[owner == g] for g in range(3)], "dp(8)", scale=bounds)
    # A site does not believe that nobody asks.
    options = '{"privacy": "dp(8)"}'
    terms = Terms("run", "afcl", options, 0, 0, given_box(*bounds), 1200)
    with pytest.raises(RejectedMessage) as refused:
        Site(G[owner == 0]).answer(encode(AskHello(terms)))
    assert str(refused.value) == NO_GAPS


def test_extremes_are_those_of_what_is_there():
    X = np.array([[1.0, NAN, 5.0], [3.0, NAN, NAN]])
    ranges = ranges_of(X)
    assert ranges.low.tolist()[::2] == [1.0, 5.0]
    assert ranges.high.tolist()[::2] == [3.0, 5.0]
    assert np.isnan(ranges.low[1])
    assert np.isnan(ranges.high[1])
    assert check_ranges(ranges, True) is ranges


@pytest.mark.parametrize(("low", "high"), [(NAN, 1.0), (0.0, NAN), (0.0, np.inf)])
def test_half_a_range_is_none(low, high):
    with pytest.raises(RejectedMessage):
        check_ranges(Ranges(5, 1, np.array([low]), np.array([high])), True)


def test_a_site_that_says_it_has_no_values_is_refused_where_nobody_lacks_any(seed):
    """Of such a one nothing could be checked against what it announced."""
    X, _, owner = spots(seed)
    nothing = np.full(6, NAN)

    class Liar(Site):
        def answer(self, request):
            if isinstance(decode(request), AskRanges):
                return encode(Ranges(60, 6, nothing, nothing))
            return super().answer(request)

    sites = [(Liar if g == 1 else Site)(X[owner == g]) for g in range(3)]
    spec = Spec(get_method("afcl"), {"privacy": "summary"}, seed)
    finished = Coordinator(spec, InProcess(sites, Schedule().bind(3, seed))).run()
    (said,) = finished.trace.of("rejected")
    assert said["client"] == 1
    assert said["reason"] == "a column has no value, where nobody lacks one"


def test_who_has_no_value_has_no_say_in_the_box():
    lows = np.array([[0.0, 1.0], [NAN, 2.0], [0.5, 0.0]])
    highs = np.array([[1.0, 3.0], [NAN, 4.0], [2.0, 3.0]])
    box, found = supported_box(lows, highs)
    assert found == []
    assert box.low.tolist() == [0.0, 0.0]
    assert box.span.tolist() == [2.0, 4.0]


def test_groups_tell_extremes_of_filled_rows():
    X, _, _ = spots(0)
    G = with_gaps(X, 0.05, 0)
    G[:, 4] = NAN
    said = decode(Site(G).answer(encode(AskRanges("run", True, 5))))
    assert np.isnan(said.low[4])
    there = [0, 1, 2, 3, 5]
    assert (said.low[there] >= X.min(axis=0)[there] - 1).all()
    assert (said.high[there] > said.low[there]).all()


class TestEstimator:
    @pytest.mark.parametrize("missing", ["impute", "available"])
    def test_every_row_with_a_value_gets_a_label(self, missing, seed):
        X, y, owner = spots(seed)
        G = with_gaps(X, 0.05, seed)
        G[5] = NAN
        model = AFCL(missing=missing, random_state=seed).fit(G, clients=owner)
        assert model.n_clusters_ == 3
        assert model.labels_[5] == -1
        others = np.arange(len(y)) != 5
        assert (model.labels_[others] >= 0).all()
        assert adjusted_rand(model.labels_[others], y[others]) > 0.95
        assert np.array_equal(model.predict(G), model.labels_)
        assert np.array_equal(model.cut(3, G), model.labels_)
        assert np.array_equal(model.cut(3), model.labels_)

    def test_tables_by_client(self, seed):
        X, _, owner = spots(seed)
        G = with_gaps(X, 0.05, seed)
        tables = [G[owner == g] for g in range(3)]
        model = AFCL(missing="impute", random_state=seed).fit_clients(tables)
        pooled = AFCL(missing="impute", random_state=seed).fit(G, clients=owner)
        assert model.n_clusters_ == pooled.n_clusters_ == 3
        for g in range(3):
            assert np.array_equal(model.client_labels_[g], pooled.labels_[owner == g])

    def test_an_unknown_way_is_refused(self):
        with pytest.raises(InputError, match="'drop', 'impute' or 'available'"):
            AFCL(missing="guess").fit(np.eye(4))  # type: ignore[arg-type]
