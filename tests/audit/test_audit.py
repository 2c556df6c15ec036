# SPDX-License-Identifier: Apache-2.0
"""The audit tells levels that keep their promise from ones that do not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import afcl.privacy
from afcl.audit import audit, default_levels
from afcl.audit.findings import measure_attacks
from afcl.audit.promises import uniform
from afcl.audit.wire import TappedSite, tapped
from afcl.core import client as clients_of_core
from afcl.core.cells import cells_of
from afcl.core.messages import Update
from afcl.core.params import DefaultParams
from afcl.core.rows import as_rows
from afcl.core.tasks import COUNT, PRESENCE, SCORE, SUM
from afcl.core.terms import AskStep
from afcl.exceptions import InputError
from afcl.privacy import dp, grouped, masks, synopsis
from afcl.privacy.attacks import Released
from afcl.privacy.grouped import Grouped
from afcl.privacy.grouping import group_rows
from afcl.privacy.secure import Secure
from afcl.runtime.site import Site

pytest.importorskip("cryptography")

BOUNDS = (np.full(2, -1.0), np.full(2, 4.0))
SPOTS = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])


def tables(seed, rows=45, sites=3):
    """Return three clusters, unevenly spread over the sites."""
    rng = np.random.default_rng(seed)
    drawn = []
    for site in range(sites):
        shares = rng.dirichlet(np.ones(3))
        spots = SPOTS[rng.choice(3, rows + site, p=shares)]
        drawn.append(np.clip(rng.normal(spots, 0.3), *BOUNDS))
    return drawn


def only(level, seed, **options):
    """Audit one level; return what was found of it."""
    options = {"rounds": 8, "canary_trials": 60, "lies": False, "runs": 1, **options}
    (found,) = audit(tables(seed), [level], seed=seed, **options).levels
    return found


def test_what_is_audited_where_nobody_chooses():
    open_to_all = ["exact", "affine", "summary", "grouped(5)"]
    assert default_levels(2, bounded=False) == open_to_all
    summed = ["secure+summary", "secure+grouped(5)"]
    assert default_levels(3, bounded=False) == [*open_to_all, *summed]
    assert default_levels(3, bounded=True) == [*open_to_all, *summed, "dp(8)"]
    assert default_levels(2, bounded=True) == [*open_to_all, "dp(8)"]


def test_the_ladder(seed):
    found = audit(
        tables(seed), rounds=12, seed=seed, scale=BOUNDS, canary_trials=40, lies=False
    )
    by_name = {level.level: level for level in found.levels}
    assert list(by_name) == default_levels(3, bounded=True)
    assert not found.broken
    assert by_name["exact"].recovered == 1
    assert by_name["exact"].precision == 1
    assert by_name["exact"].nearest == pytest.approx(0, abs=1e-9)
    assert 0 < by_name["affine"].recovered < 1
    assert by_name["summary"].recovered < 1
    assert by_name["summary"].smallest == 5
    assert (by_name["summary"].ari, by_name["summary"].messages) == (1, 9)
    for name in ("grouped(5)", "secure+summary", "secure+grouped(5)", "dp(8)"):
        assert by_name[name].recovered == 0
        assert (by_name[name].nearest or 0) > 0.1
        assert by_name[name].bytes > 0
    assert by_name["dp(8)"].claimed == 8
    assert by_name["dp(8)"].measured is not None
    assert by_name["dp(8)"].measured <= 8
    assert by_name["grouped(5)"].measured is None
    again = json.loads(json.dumps(found.to_dict()))
    assert again["broken"] is False
    assert again["levels"][0]["attacks"][0]["name"] == "inversion"


def test_the_audit_is_where_the_package_says():
    assert afcl.privacy.audit is audit


def test_extremes_are_noted_where_they_are_told(seed):
    first, *_ = only("summary", seed).notes
    assert first.startswith("12 column extremes of sites were told exactly, and")
    assert first.endswith("between machines the medians too")
    assert not any("extremes" in note for note in only("grouped(5)", seed).notes)


def test_values_that_many_rows_share_are_known_but_nobody_is_singled_out(seed):
    made = tables(seed)
    made[0][:20] = made[0][0]
    (found,) = audit(made, ["grouped(5)"], rounds=3, seed=seed, lies=False).levels
    assert found.recovered == 0
    assert found.shared >= 5 / sum(len(table) for table in made)
    assert not found.broken


# ------------------------------------------------------------------ steps and runs


def whole_numbers(seed, columns=1, rows=60):
    """Return ages of three sites, no two ages far apart."""
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(50, 15, (rows, columns))) for _ in range(3)]


def test_one_column_of_whole_numbers_is_not_enumerated(seed, monkeypatch):
    (found,) = audit(
        whole_numbers(seed), ["grouped(5)"], rounds=2, runs=1, lies=False
    ).levels
    assert (found.enumerated, found.broken) == (0, False)
    monkeypatch.setattr(grouped, "coarse_cells", lambda cells, units: cells)
    (found,) = audit(
        whole_numbers(seed), ["grouped(5)"], rounds=2, runs=1, lies=False
    ).levels
    assert found.enumerated > 0.2
    assert found.broken
    assert any("enumeration" in reason for reason in found.reasons)
    assert any("few steps" in note for note in found.notes)


def test_summary_does_not_promise_what_steps_give_away(seed):
    (found,) = audit(
        whole_numbers(seed), ["summary"], rounds=2, runs=1, lies=False
    ).levels
    assert found.enumerated > 0.1
    assert not found.broken


@pytest.mark.no_cover
def test_what_several_runs_tell_together(seed):
    (found,) = audit(
        mixed(seed, 2), ["summary"], rounds=2, runs=3, seed=seed, lies=False
    ).levels
    told = [each.reseeded for each in found.across]
    assert [each.runs for each in found.across] == [1, 2, 3]
    assert told == sorted(told)
    assert 0 < told[0] < told[2]
    assert any("3 runs with other seeds" in note for note in found.notes)
    (found,) = audit(
        mixed(seed, 2), ["grouped(5)"], rounds=2, runs=5, seed=seed, lies=False
    ).levels
    assert [each.runs for each in found.across] == [1, 2, 3, 5]
    assert [each.reseeded for each in found.across] == [0, 0, 0, 0]
    assert found.across[0].after_leaving == 0
    assert found.across[-1].after_leaving > 0
    assert any("no level but dp hides who has left" in note for note in found.notes)
    assert not found.broken


def test_sums_of_several_runs_are_compared_too(seed):
    """Sums around other seeds differ by rows; that no run tells is not promised."""
    found = only("secure", seed, runs=2)
    assert [each.runs for each in found.across] == [1, 2]
    assert found.across[0].reseeded == 0
    assert not found.broken


def test_noise_is_not_compared(seed):
    assert only("dp(8)", seed, scale=BOUNDS, canary_trials=4, runs=2).across == ()


def test_groups_drawn_by_the_seed_are_caught_by_several_runs(seed, monkeypatch):
    """Each run alone shows whole groups; two of them differ by rows."""
    drawn = iter(range(10_000))

    def regrouped(X, smallest):
        noise = np.random.default_rng(next(drawn)).normal(0, 0.02, X.shape)
        return group_rows(X + noise, smallest)

    monkeypatch.setattr(grouped, "group_rows", regrouped)
    found = only("grouped(5)", seed, runs=5)
    assert found.across[-1].reseeded > 0
    assert found.broken
    assert any("5 runs with other seeds" in reason for reason in found.reasons)


# ------------------------------------------------------------------ levels that cheat


def test_groups_that_are_none_are_caught(seed, monkeypatch):
    monkeypatch.setattr(Grouped, "view", lambda self, X, *_: as_rows(X).table())
    found = only("grouped(5)", seed, rounds=30)
    assert found.broken
    assert "of the rows were recovered" in found.reasons[0]


def kept_nowhere(site, what, make, cost=0.0):
    """Make everything anew, every time."""
    site.charged[what] = cost
    return make()


def test_groups_formed_anew_are_caught(seed, monkeypatch):
    """Groups are drawn a little differently at every contact: rows change groups."""
    rng = np.random.default_rng(seed)

    def regrouped(X, smallest):
        return group_rows(X + rng.normal(0, 0.05, X.shape), smallest)

    keep = Site._working

    def forgetful(self, *arguments):
        self._view = None
        return keep(self, *arguments)

    monkeypatch.setattr(grouped, "group_rows", regrouped)
    monkeypatch.setattr(Site, "_working", forgetful)
    monkeypatch.setattr(TappedSite, "_once", kept_nowhere)
    found = only("grouped(5)", seed)
    assert found.broken
    assert any("formed anew" in reason for reason in found.reasons)


def test_small_cells_are_caught(seed, monkeypatch):
    keep = clients_of_core.reply

    def careless(X, plan, params):
        return keep(X, plan, replace(params, min_cell=1))

    monkeypatch.setattr(clients_of_core, "reply", careless)
    found = only("summary", seed)
    assert found.broken
    assert "fewer than 5" in found.reasons[0]


def test_masks_that_are_none_are_caught(seed, monkeypatch):
    monkeypatch.setattr(
        masks, "mask", lambda *arguments: np.zeros(arguments[-1], dtype=np.int64)
    )
    found = only("secure", seed)
    assert found.broken
    assert any("unhidden" in reason for reason in found.reasons)
    assert any("not uniform" in reason for reason in found.reasons)


def test_encryption_keeps_its_promise_and_is_caught_if_it_is_none(seed, monkeypatch):
    ckks = pytest.importorskip("afcl.privacy.ckks")
    pytest.importorskip("tenseal")
    found = only("secure(he)", seed, rounds=12)
    assert (found.level, found.broken) == ("secure(he)+grouped(5)", False)
    assert (found.recovered, found.smallest) == (0, 5)

    def plain(public, numbers):
        return ckks.pack([numbers.tobytes()])

    monkeypatch.setattr(ckks, "encrypt", plain)
    found = only("secure(he)", seed, rounds=4)
    assert any("unhidden" in reason for reason in found.reasons)


def test_answers_in_the_clear_are_caught(seed, monkeypatch):
    def in_the_clear(self, payload, view, memory, keep):
        rows = as_rows(view.rows).table()
        return Update(cells_of(rows, np.zeros(len(rows), dtype=np.int64), 1)), memory

    monkeypatch.setattr(Secure, "step", in_the_clear)
    found = only("secure", seed)
    assert found.broken
    assert any("in the clear" in reason for reason in found.reasons)


def test_cells_without_noise_are_caught(seed, monkeypatch):
    def exact(X, epsilon, delta, smallest, rng):
        params = DefaultParams(min_cell=smallest)
        return clients_of_core.condense(X, params, rng)

    monkeypatch.setattr(synopsis, "release", exact)
    found = only("dp(8)", seed, scale=BOUNDS, canary_trials=100)
    assert found.broken
    assert any("canary" in reason for reason in found.reasons)


def test_noise_that_is_drawn_again_is_caught(seed, monkeypatch):
    keep = Site._working
    drawn = iter(range(10_000))

    def forgetful(self, *arguments):
        self._view, self._secret = None, next(drawn).to_bytes(32, "little")
        return keep(self, *arguments)

    monkeypatch.setattr(Site, "_working", forgetful)
    monkeypatch.setattr(TappedSite, "_once", kept_nowhere)
    found = only("dp(8)", seed, scale=BOUNDS, canary_trials=4)
    assert any("new noise" in reason for reason in found.reasons)


def test_what_is_not_accounted_for_is_caught(seed, monkeypatch):
    monkeypatch.setattr(dp, "mu_of", lambda epsilon, delta: 0.0)
    found = only("dp(8)", seed, scale=BOUNDS, canary_trials=4)
    assert any("nothing into its account" in reason for reason in found.reasons)
    monkeypatch.setattr(dp, "mu_of", lambda epsilon, delta: 3.0)
    found = only("dp(8)", seed, scale=BOUNDS, canary_trials=4)
    assert any("spent an epsilon" in reason for reason in found.reasons)


# ------------------------------------------------------------------ parts


def test_a_curious_server_asks_everybody_every_round():
    run = tapped(
        "summary",
        tables(0),
        seed=0,
        scale="minmax",
        rounds=7,
        options={"contacts": 8},
        curious=True,
    )
    # The agreement, the hello and seven answers of each.
    assert [len(site.wire) for site in run.sites] == [9, 9, 9]


def test_a_client_at_secure_answers_seven_questions_and_no_more():
    run = tapped(
        "secure",
        tables(0),
        seed=0,
        scale="minmax",
        rounds=12,
        options={"cohort": 3},
        curious=True,
    )
    for client in range(3):
        asked = [
            one.request.payload.own.question
            for one in run.exchanges
            if one.client == client and isinstance(one.request, AskStep)
        ]
        shapes = [(each.kind, len(each.partitions)) for each in asked]
        kinds = (COUNT, PRESENCE, SUM)
        assert shapes == [(k, n) for n in (1, 2) for k in kinds] + [(SCORE, 0)]


def mixed(seed, d, sites=5, rows=40):
    """Return three clusters of which every site has some rows."""
    rng = np.random.default_rng(seed)
    spots = rng.uniform(0, 4, (3, d))
    return [rng.normal(spots[rng.integers(0, 3, rows)], 0.3) for _ in range(sites)]


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [1, 2, 4])
def test_nested_sums_of_mixed_sites_show_no_row(seed, d):
    """Coarse sums less finer ones are sums of whole groups again."""
    levels = ["secure+summary", "secure"]
    for found in audit(
        mixed(seed, d), levels, rounds=10, seed=seed, runs=1, lies=False
    ).levels:
        assert not found.broken, found.reasons
        assert found.recovered == 0
        assert found.smallest == 5
        assert not {a.name for a in found.attacks} & {"differences", "unions"}
        assert "no cell of fewer than 5 rows" in found.promise
        assert "on a grid of 1/64" in found.promise


def test_sums_in_the_clear_keep_no_promise(seed):
    found = only("secure(plain)+summary", seed)
    assert found.broken
    assert any("unhidden" in reason for reason in found.reasons)


def test_an_attack_that_mostly_guesses_recovers_nothing():
    """One of three cells of one row is where it says: the server cannot know which."""
    rows = np.array([[0.1, 0.1], [0.2, 0.2], [0.9, 0.9], [0.4, 0.8]])
    said = rows[:3] + np.array([[0.0], [0.01], [0.01]])
    released = [Released((0,), cells_of(said, np.arange(3), 3))]
    found = measure_attacks([], released, rows)
    assert [(a.candidates, a.right, a.counts) for a in found.attacks] == [(3, 1, False)]
    assert (found.recovered, found.precision) == (0, None)
    found = measure_attacks([], [Released((0,), cells_of(rows, np.arange(4), 4))], rows)
    assert (found.recovered, found.precision, found.nearest) == (1, 1, 0)


def test_uniform_bytes(seed):
    drawn = np.random.default_rng(seed).bytes(20_000)
    assert uniform(drawn) > 1e-6
    assert uniform(bytes(1000) + drawn) < 1e-9


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"tables": []}, "at least one table"),
        ({"tables": [np.full((9, 2), np.nan)]}, "finite"),
        ({"levels": ["grouped(1)"]}, "at least 2"),
        ({"levels": ["dp(8)"]}, "public bounds"),
        ({"levels": ["secure"], "tables": tables(0, sites=2)}, "cohorts of 3"),
        ({"rounds": 0}, "rounds is 0"),
        ({"canary_trials": 3}, "at least 4"),
    ],
)
def test_bad_input_is_one_line(change, text):
    arguments = {"tables": tables(0), "levels": ["summary"], **change}
    with pytest.raises(InputError, match=text) as caught:
        audit(**arguments)
    assert "\n" not in str(caught.value)
