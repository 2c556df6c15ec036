# SPDX-License-Identifier: Apache-2.0
"""Why every cluster is one: what fitted models say of it, at every level."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl import AFCL
from afcl.cli.command_line import command_line, typed
from afcl.estimators.profiles import ClusterProfiles
from afcl.exceptions import InputError
from afcl.report.profile_facts import ClusterProfile

SPOTS = np.array([[0.0, 0.0, 3.0], [0.0, 9.0, 3.0], [9.0, 0.0, 3.0]])
LEVELS = ["summary", "secure+summary", "secure(plain)+summary", "grouped(5)"]


def tables(seed=0, n=80, sites=3):
    """Three clusters; the third column says nothing."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(np.repeat(SPOTS, n, axis=0), 1.0)
    whose = np.arange(len(rows)) % sites
    return [rows[whose == s] for s in range(sites)]


def met(rows, rule, columns):
    found = np.ones(len(rows), dtype=bool)
    for column, at_least, value in rule.conditions:
        values = rows[:, columns.index(column)]
        found &= (values >= value) if at_least else (values < value)
    return found


@pytest.mark.parametrize("level", [*LEVELS, "dp(40)"])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_said_agrees_with_the_rows(level, seed):
    held = tables(seed, 400)
    rows = np.vstack(held)
    scale: Any = "minmax"
    if "dp" in level:
        scale = (np.full(3, -6.0), np.full(3, 15.0))
    model = AFCL(
        random_state=seed, privacy=level, scale=scale, seeded_noise=True
    ).fit_clients(held)
    assert model.n_clusters_ == 3
    profiles = model.cluster_profiles_
    assert [each.cluster for each in profiles] == [0, 1, 2]
    for each in profiles:
        own = rows[model.labels_ == each.cluster]
        assert each.rows == len(own)
        assert np.allclose(each.center, model.cluster_centers_[each.cluster])
        assert np.allclose(each.spreads, own.std(axis=0), rtol=0.25)
        assert "x2" not in [each.columns[j] for j in each.telling]
        assert each.separation is not None
        assert 2.0 < each.separation < 7.0
        assert each.silhouette is not None
        assert 0.4 < each.silhouette < 0.95
        assert each.rule is not None
        holds = met(rows, each.rule, list(each.columns))
        inside = model.labels_ == each.cluster
        assert each.rule.covers == pytest.approx(holds[inside].mean(), abs=0.1)
        assert each.rule.right == pytest.approx(inside[holds].mean(), abs=0.1)
        assert each.sites == 3


def test_frames():
    profiles = AFCL(random_state=0).fit_clients(tables()).cluster_profiles_
    frame = profiles.to_frame()
    assert frame.height == 3
    assert frame["in_words"][0] == profiles[0].in_words
    assert profiles.to_frame("pandas").shape == frame.shape
    by_column = profiles.to_frame(by="column")
    assert by_column.height == 9
    assert by_column.columns[:4] == ["cluster", "column", "center", "spread"]
    with pytest.raises(InputError, match="'cluster' or 'column'"):
        profiles.to_frame(by="row")  # type: ignore[arg-type]
    assert repr(profiles).splitlines()[1] == f"1: {profiles[1].in_words}"
    assert profiles[:2] == tuple(profiles)[:2]


def test_models_that_travel_keep_them(tmp_path):
    model = AFCL(random_state=0).fit_clients(tables())
    model.save(tmp_path / "model")
    for again in (AFCL.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert repr(again.cluster_profiles_) == repr(model.cluster_profiles_)
    model.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<article") == 3


def test_one_cluster():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(UserWarning, match="no clusters"):
        (only,) = AFCL(random_state=0).fit(rows).cluster_profiles_
    assert only.in_words == "300 rows, 100% of all."
    assert np.allclose(only.spreads, rows.std(axis=0), rtol=0.2)


def test_clusters_that_are_not_round():
    rng = np.random.default_rng(0)
    turn = rng.uniform(0, 2 * np.pi, 900)
    ring = np.c_[5 * np.cos(turn), 5 * np.sin(turn)] + rng.normal(0, 0.2, (900, 2))
    rows = np.vstack([ring, rng.normal(0, 0.5, (300, 2))])
    model = AFCL(random_state=0, shape="connected").fit(rows, clients=turn_of(1200))
    first, second = model.cluster_profiles_
    assert not first.is_round
    assert first.apart_words() == "No column by itself sets it apart."
    assert first.rule is None
    assert second.rule is not None
    assert "steps between its own cells" in first.separation_words()


def turn_of(n):
    return np.arange(n) % 4


def test_categories_are_shares():
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(3):
        kind = rng.integers(0, 2, 120)
        frames.append(
            pl.DataFrame(
                {
                    "size": rng.normal(np.where(kind == 1, 4.0, 0.0), 1.0),
                    "colour": np.where(kind == 1, "red", "blue"),
                }
            )
        )
    model = AFCL(random_state=0).fit_clients(frames)
    assert model.n_clusters_ == 2
    said = " ".join(each.in_words for each in model.cluster_profiles_)
    assert "colour=red (" in said
    assert "colour is" in said
    for each in model.cluster_profiles_:
        assert each.rule is not None
        assert each.rule.covers > 0.95


def test_methods_without_cells_have_none():
    model = AFCL(random_state=0, preset="paper", privacy="affine")
    profiles = model.fit_clients(tables()).cluster_profiles_
    assert len(profiles) == 0
    assert repr(profiles) == "ClusterProfiles(empty)"
    assert ClusterProfiles.of(None)[:] == ()


def test_a_profile_is_public():
    assert ClusterProfile.__doc__ is not None


def test_what_was_typed_is_remembered_without_places():
    token = typed.set(("run", "/home/me/north.csv", "--out", "a b", "--missing=x/y"))
    try:
        assert command_line() == "afcl run north.csv --out 'a b' --missing=x/y"
    finally:
        typed.reset(token)
    token = typed.set(())
    assert command_line() == ""
    typed.reset(token)
