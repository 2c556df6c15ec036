# SPDX-License-Identifier: Apache-2.0
"""What a lying coordinator learns: nothing of sites as they are, much of careless ones.

Every defence is taken away in turn, and the attack that it stops must say so.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.robustness.adversary.victims import iris_like

from afcl.audit import audit
from afcl.audit.lies import LIES, lies_at
from afcl.audit.scene import MOST_ROWS, MOST_SITES, drawn
from afcl.core import client
from afcl.privacy import ledger
from afcl.privacy.ledger import Ledger
from afcl.privacy.levels import parse_level
from afcl.runtime.live import introduction, member

pytest.importorskip("cryptography")

OPEN = ("summary", "grouped(5)")
MASKED = ("secure+summary", "secure+grouped(5)")


def tables(seed, sites=3):
    """Return sites of forty rows in tenths."""
    return [iris_like(seed + 10 * site) for site in range(sites)]


def told(level, seed, only=(), **options):
    """Return the attempts at a level by name, and whether the level is broken."""
    rows = np.concatenate(tables(seed))
    scale = (rows.min(axis=0), rows.max(axis=0))
    options = {"rounds": 2, "runs": 3, "canary_trials": 4, "scale": scale, **options}
    (found,) = audit(tables(seed), [level], seed=seed, **options).levels
    return {each.name: each for each in found.lies}, found


@pytest.fixture
def only(monkeypatch, no_cover):
    """Tell some lies and no others; what tells them is covered where all are told."""

    def choose(*names):
        some = tuple(lie for lie in LIES if lie.name in names)
        assert len(some) == len(names)
        monkeypatch.setattr("afcl.audit.lies.LIES", some)

    return choose


@pytest.mark.parametrize("level", [*OPEN, *MASKED, "dp(1)"])
def test_sites_as_they_are_tell_a_liar_nothing_that_is_promised(seed, level):
    lies, found = told(level, seed)
    assert list(lies) == [lie.name for lie in lies_at(parse_level(level))]
    for each in lies.values():
        assert not each.broken, each
        assert each.requests > 0
        assert each.rows in (40, 80, 120)
        if each.promise:
            assert each.learned == 0
    assert not any("coordinator that" in reason for reason in found.reasons)
    assert "the same to a coordinator that lies" in found.promise


@pytest.mark.parametrize("name", ["two puppets", "a puppet that lies"])
def test_puppets_are_a_figure_and_no_failure(seed, only, name):
    only(name)
    lies, found = told("secure+summary", seed)
    assert lies[name].learned > 0
    assert not found.broken
    assert any(name in note for note in found.notes)


def test_terms_that_are_not_pinned_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(member, "_pinned", lambda site, asked, request: site)
    only("other terms", "more steps")
    lies, found = told("summary", seed)
    assert all(each.broken for each in lies.values()), lies
    assert lies["more steps"].what == "answers"
    assert found.broken
    assert sum("a coordinator that" in reason for reason in found.reasons) == 2


def test_plans_that_nobody_checks_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(client, "check_plan", lambda plan, n_features, params: None)
    only("thousands of levels")
    lies, _ = told("summary", seed)
    assert lies["thousands of levels"].share > 0.2


def test_terms_without_limits_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(member, "_check_amounts", lambda site, told: None)
    only("thousands agreed")
    lies, _ = told("summary", seed)
    assert lies["thousands agreed"].share > 0.2
    assert lies["thousands agreed"].broken


def test_groups_for_whoever_asks_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(member, "_pinned", lambda site, asked, request: site)
    monkeypatch.setattr(ledger, "_check_groups", lambda account, release: None)
    only("other groups")
    lies, _ = told("grouped(5)", seed)
    assert lies["other groups"].share > 0.05


def test_groups_of_every_size_in_the_agreement_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(ledger, "_check_way", lambda account, release: None)
    monkeypatch.setattr(ledger, "_check_groups", lambda account, release: None)
    only("other sizes")
    for level in ("grouped(5)", "secure+grouped(5)"):
        lies, _ = told(level, seed)
        assert lies["other sizes"].share > 0.5
        assert lies["other sizes"].what == "answers"
        assert lies["other sizes"].broken


def test_an_agreement_of_other_groups_is_caught(seed, only, monkeypatch):
    monkeypatch.setattr(ledger, "_check_groups", lambda account, release: None)
    only("agreed otherwise")
    for level in ("grouped(5)", "secure+grouped(5)"):
        lies, found = told(level, seed)
        assert lies["agreed otherwise"].share >= 0.5
        assert lies["agreed otherwise"].broken
        assert found.broken


def test_levels_that_nobody_checks_are_caught(seed, only, monkeypatch):
    monkeypatch.setattr(member, "check_terms", lambda site, terms: None)
    only("a weaker level")
    for level in ("summary", "grouped(5)", "secure+summary"):
        lies, _ = told(level, seed)
        assert lies["a weaker level"].broken


def test_runs_that_nobody_counts_are_caught(seed, only, monkeypatch):
    keep = Ledger.__init__

    def generous(self, path, budget=None, runs=1):
        keep(self, path, budget, runs=100)

    monkeypatch.setattr(Ledger, "__init__", generous)
    only("further runs")
    lies, _ = told("summary", seed)
    assert lies["further runs"].broken


def test_a_small_cohort_that_nobody_minds_is_caught(seed, only, monkeypatch):
    monkeypatch.setattr(member, "_in_cohort", lambda site, asked: site)
    only("a cohort of two")
    lies, _ = told("secure+summary", seed)
    assert lies["a cohort of two"].refused < lies["a cohort of two"].requests


def test_extremes_at_dp_are_caught(seed, only, monkeypatch):
    open_to_all = parse_level("summary")
    for module in (member, introduction):
        monkeypatch.setattr(module, "parse_level", lambda text: open_to_all)
    only("extremes")
    lies, _ = told("dp(1)", seed)
    assert (lies["extremes"].learned, lies["extremes"].of) == (36, 36)
    assert lies["extremes"].broken


def test_noise_for_nothing_is_caught(seed, only, monkeypatch):
    monkeypatch.setattr(Ledger, "times", lambda self, *rest: 0)
    monkeypatch.setattr(Ledger, "again", lambda self, *rest: None)
    only("a spent ledger", "rows sorted anew")
    lies, _ = told("dp(1)", seed)
    assert all(each.what == "synopses" for each in lies.values())
    assert all(each.broken for each in lies.values()), lies


def test_few_sites_and_not_too_many_rows_are_lied_to(seed):
    rng = np.random.default_rng(seed)
    large = [rng.normal(size=(n, 2)) for n in (700, 20, 20, 20, 20, 20)]
    some = drawn(large, seed)
    assert [len(rows) for rows in some] == [MOST_ROWS, *[20] * (MOST_SITES - 1)]
    assert set(map(tuple, some[0])) <= set(map(tuple, large[0]))


def test_levels_without_cells_are_not_lied_to():
    assert lies_at(parse_level("exact")) == []
    assert lies_at(parse_level("secure(he)")) == []
    assert lies_at(parse_level("secure(plain)+summary")) == []
