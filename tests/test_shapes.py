# SPDX-License-Identifier: Apache-2.0
"""Clusters that are not round, from Python: labels, cuts, files, updates, levels."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from afcl import AFCL, make_method
from afcl._typing import Floats, Ints
from afcl.core import server
from afcl.core.protocol import Trust
from afcl.data.split import kmeans_split
from afcl.data.synthetic import random_mixture
from afcl.estimators import storage
from afcl.exceptions import InputError, PrivacyWarning, TrustWarning
from afcl.kernels import assign
from afcl.metrics import adjusted_rand

pytestmark = pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")


def ring_and_blob(n: int = 240, seed: int = 0) -> tuple[Floats, Ints]:
    """Return rows of a ring, and of a blob inside of it."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 2 * np.pi, 2 * n)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * 10
    ring += rng.normal(0, 0.4, ring.shape)
    rows = np.concatenate([ring, rng.normal(0, 1.2, (n, 2))])
    return rows, np.repeat([0, 1], [2 * n, n])


def moons() -> tuple[Floats, Ints, Ints]:
    """Return rows of two moons, which of them each is of, and owners."""
    rng = np.random.default_rng(0)
    turn = rng.uniform(0, np.pi, 600)
    upper = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    truth = np.arange(600) % 2
    rows = np.where(truth[:, None], upper, [1.0, 0.5] - upper)
    rows += rng.normal(0, 0.05, rows.shape)
    return rows, truth, rng.integers(0, 4, 600)


@pytest.fixture(scope="module")
def sites() -> tuple[Floats, Ints, Ints]:
    """Return rows, clusters and owners."""
    rows, truth = ring_and_blob()
    owners: Ints = np.random.default_rng(2).integers(0, 4, (rows.shape[0],))
    return rows, truth, owners


@pytest.fixture(scope="module")
def model(sites: tuple[Floats, Ints, Ints]) -> AFCL:
    """Return a fitted model of connected clusters."""
    rows, _, owners = sites
    return AFCL(shape="connected", random_state=0).fit(rows, clients=owners)


class TestAnswer:
    def test_ring_and_blob_are_told_apart(
        self, model: AFCL, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        rows, truth, owners = sites
        assert model.n_clusters_ == 2
        assert adjusted_rand(truth, model.labels_) == 1
        assert model.shape_ is not None
        assert model.shape_["name"] == "connected"
        assert model.shape_["reason"] == "connected clusters were asked for"
        convex = AFCL(random_state=0, shape="convex").fit(rows, clients=owners)
        assert adjusted_rand(truth, convex.labels_) < 0.9

    def test_moons_are_seen_to_be_connected(self) -> None:
        rows, truth, owners = moons()
        model = AFCL(shape="auto", random_state=0).fit(rows, clients=owners)
        assert adjusted_rand(truth, model.labels_) == 1
        assert model.shape_ is not None
        assert "hang together" in model.shape_["reason"]

    def test_what_no_resample_gives_is_left_unless_it_was_asked_for(self) -> None:
        def believed(trust: Trust, *_: object) -> Trust:
            return replace(trust, confidence=0.0, stabilities=(0.0, 0.0))

        rows, _, owners = moons()
        with patch.object(server, "believed", believed):
            seen = AFCL(shape="auto", random_state=0).fit(rows, clients=owners)
            asked = AFCL(shape="connected", random_state=0).fit(rows, clients=owners)
        names = [model.shape_ and model.shape_["name"] for model in (seen, asked)]
        assert names == ["convex", "connected"]

    def test_cells_are_in_the_units_of_the_data(
        self, model: AFCL, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        rows, truth, _ = sites
        assert model.cells_ is not None
        means, counts = model.cells_["means"], model.cells_["rows"]
        assert counts.sum() == rows.shape[0]
        assert np.abs(means).max() <= 1.1 * np.abs(rows).max()
        radii = np.hypot(*means.T)
        assert model.cell_labels_ is not None
        np.testing.assert_array_equal(model.cell_labels_ == 0, radii > 6)
        assert model.cell_sparse_.dtype == bool
        assert model.cell_sparse_.shape == counts.shape

    def test_centers_are_means_of_all_rows(
        self, model: AFCL, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        rows, truth, _ = sites
        for cluster in range(2):
            mean = rows[truth == cluster].mean(axis=0)
            np.testing.assert_allclose(model.cluster_centers_[cluster], mean, atol=0.05)
        assert model.cluster_sizes_.tolist() == [480, 240]

    def test_rows_have_the_label_of_the_nearest_place(
        self, model: AFCL, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        rows, *_ = sites
        np.testing.assert_array_equal(model.predict(rows), model.labels_)
        assert model.predict([[0.0, 0.0], [10.0, 0.0], [0.0, -10.0]]).tolist() == [
            1,
            0,
            0,
        ]
        np.testing.assert_array_equal(
            np.concatenate(model.client_labels_),
            np.concatenate([model.labels_[sites[2] == g] for g in range(4)]),
        )

    def test_path_and_cuts(self, model: AFCL, sites: tuple[Floats, Ints, Ints]) -> None:
        rows, *_ = sites
        assert model.path_.k[0] == 2
        assert {"connected", "silhouette", "ch"} <= set(model.path_.scores)
        np.testing.assert_array_equal(model.cut(2), model.labels_)
        fine = model.cut(5)
        assert set(np.unique(fine)) <= set(range(5))
        assert len(np.unique(fine)) == 5
        # Levels are nested: a finer cluster lies in one of the answer's.
        for cluster in range(5):
            assert len(np.unique(model.labels_[fine == cluster])) == 1
        with pytest.raises(InputError, match="not on the path"):
            model.cut(10_000)

    def test_trust_has_the_verdict_of_the_cells(self, model: AFCL) -> None:
        assert model.structure_ is not None
        assert model.structure_["verdict"] in ("clusters", "none")
        assert model.k_confidence_ is not None
        assert 0 <= model.k_confidence_ <= 1
        assert model.cluster_stability_.shape == (2,)

    def test_rows_with_gaps_take_the_nearest_place(
        self, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        rows, truth, owners = sites
        gaps = rows.copy()
        gaps[5, 0] = np.nan
        model = AFCL(shape="connected", missing="impute", random_state=0)
        model.fit(gaps, clients=owners)
        assert model.labels_[5] in (0, 1)
        assert model.predict(np.array([[np.nan, 10.0]])).tolist() == [0]

    def test_no_clusters_come_before_the_shape(self) -> None:
        rows = np.random.default_rng(0).uniform(0, 1, (600, 2))
        owners = np.arange(600) % 3
        with pytest.warns(TrustWarning, match="no clusters"):
            model = AFCL(shape="auto", random_state=0).fit(rows, clients=owners)
        assert model.n_clusters_ == 1
        assert model.shape_ == {"name": "convex", "reason": "nothing parts the rows"}
        assert model.cell_labels_ is None

    @pytest.mark.parametrize("seed", [15132, 15302])
    def test_many_round_clusters_of_which_some_touch_stay_round(
        self, seed: int
    ) -> None:
        """Each of these was put together to fewer: 8 of 9, 10 of 11."""
        rows, truth = random_mixture(seed)
        unit = (rows - rows.min(axis=0)) / np.ptp(rows, axis=0)
        owners = kmeans_split(unit, 5, random_state=seed, min_rows=5)
        model = AFCL(random_state=seed).fit(rows, clients=owners)
        assert model.shape_ is not None
        assert model.shape_["name"] == "convex"
        assert model.n_clusters_ == np.unique(truth).shape[0]

    def test_round_clusters_stay_as_they_were(self) -> None:
        rng = np.random.default_rng(0)
        tables = [rng.normal(s, 0.5, (80, 2)) for s in ((0, 0), (9, 0), (0, 9))]
        auto = AFCL(shape="auto", random_state=0).fit_clients(tables)
        plain = AFCL(shape="convex", random_state=0).fit_clients(tables)
        assert auto.shape_ is not None
        assert auto.shape_["name"] == "convex"
        assert plain.shape_ == {
            "name": "convex",
            "reason": "round clusters were asked for",
        }
        assert plain.cells_ is None
        np.testing.assert_array_equal(auto.labels_, plain.labels_)
        np.testing.assert_array_equal(auto.cluster_centers_, plain.cluster_centers_)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"shape": "round"}, "shape must be one of convex, connected, auto, not"),
            (
                {"preset": "paper", "shape": "connected"},
                "preset paper knows round clusters only",
            ),
            (
                {"preset": "matlab", "shape": "connected"},
                "preset matlab knows round clusters only",
            ),
        ],
    )
    def test_one_line(self, arguments: dict[str, Any], text: str) -> None:
        with pytest.raises(InputError, match=text) as caught:
            AFCL(**arguments).fit(ring_and_blob(40)[0])
        assert "\n" not in str(caught.value)

    def test_other_presets_take_the_default(self) -> None:
        model = AFCL(preset="paper", random_state=0, max_rounds=3)
        with pytest.warns(PrivacyWarning):
            model.fit(ring_and_blob(20)[0])
        assert model.shape_ is None
        assert model.cell_labels_ is None

    def test_too_few_cells(self) -> None:
        rows = np.array([[0.0, 0.0]] * 6 + [[1.0, 1.0]] * 6)
        model = AFCL(shape="connected", random_state=0, allow_one=False).fit(rows)
        assert model.shape_ == {
            "name": "convex",
            "reason": "there are too few cells to see what hangs together",
        }


class TestKeeping:
    def check_same(self, again: AFCL, model: AFCL, rows: Floats) -> None:
        np.testing.assert_array_equal(again.predict(rows), model.labels_)
        np.testing.assert_array_equal(again.cut(4, rows), model.cut(4))
        assert again.shape_ == model.shape_
        assert again.cells_ is not None
        assert model.cells_ is not None
        np.testing.assert_array_equal(again.cells_["means"], model.cells_["means"])
        np.testing.assert_array_equal(again.cell_sparse_, model.cell_sparse_)

    def test_saved_and_loaded(
        self, model: AFCL, sites: tuple[Floats, Ints, Ints], tmp_path: Any
    ) -> None:
        model.save(tmp_path)
        self.check_same(AFCL.load(tmp_path), model, sites[0])
        written = json.loads((tmp_path / "model.json").read_text())
        assert written["format"] == storage.CONNECTED_FORMAT
        written["format"] = 3
        (tmp_path / "model.json").write_text(json.dumps(written))
        with pytest.raises(InputError, match="of format 3, not a AFCL of format 1"):
            AFCL.load(tmp_path)

    def test_pickled(self, model: AFCL, sites: tuple[Floats, Ints, Ints]) -> None:
        self.check_same(pickle.loads(pickle.dumps(model)), model, sites[0])

    def test_pickles_of_before_have_round_clusters(self) -> None:
        rng = np.random.default_rng(0)
        tables = [rng.normal(s, 0.5, (40, 2)) for s in ((0, 0), (9, 0), (0, 9))]
        model = AFCL(random_state=0, shape="convex").fit_clients(tables)
        state = model.__getstate__()
        for name in ("shape_", "cells_", "cell_labels_", "cell_sparse_"):
            del state[name]
        for name in ("_clustering", "_raw"):
            for new in ("connected", "places"):
                object.__delattr__(state[name], new)
        for new in ("places", "place_labels"):
            object.__delattr__(state["_lineage"].last, new)
        again = AFCL()
        again.__setstate__(state)
        assert again.cell_labels_ is None
        assert again.predict(tables[0]).shape == (40,)
        again.update({str(g): table for g, table in enumerate(tables)})
        assert again.cluster_names_ == ["c0", "c1", "c2"]


class TestAnswersInOrder:
    def tables(self, seed: int = 0) -> dict[str, Floats]:
        rows, _ = ring_and_blob(seed=seed)
        owners = np.arange(rows.shape[0]) % 4
        return {str(g): rows[owners == g] for g in range(4)}

    def test_clusters_keep_their_names(self) -> None:
        model = AFCL(shape="connected", random_state=0).fit_clients(self.tables())
        assert model.cluster_names_ == ["c0", "c1"]
        new = self.tables(1)
        far = np.random.default_rng(3).normal(30, 0.5, (200, 2))
        model.update({"0": np.concatenate([new["0"], far])})
        assert model.n_clusters_ == 3
        named = dict(zip(model.cluster_names_, range(3), strict=True))
        labels = model.predict([[0.0, 0.0], [10.0, 0.0], [30.0, 30.0]])
        assert labels.tolist() == [named["c1"], named["c0"], named["c2"]]
        assert [change.kind for change in model.changes_] == ["born"]

    def test_names_stay_when_a_client_is_forgotten(self, tmp_path: Any) -> None:
        model = AFCL(shape="connected", random_state=0).fit_clients(self.tables())
        model.save(tmp_path)
        model.forget("3")
        assert model.cluster_names_ == ["c0", "c1"]
        assert model.changes_ == []
        loaded = AFCL.load(tmp_path)
        loaded.update(self.tables())
        assert loaded.cluster_names_ == ["c0", "c1"]


LEVELS = (
    "summary",
    "grouped(5)",
    "secure(plain)+summary",
    "secure(plain)+grouped(5)",
    "secure+summary",
    "dp(50)",
)


class TestPrivacy:
    @pytest.mark.parametrize("level", LEVELS)
    def test_every_level(self, level: str, sites: tuple[Floats, Ints, Ints]) -> None:
        rows, truth, owners = sites
        bounds = ([-15.0, -15.0], [15.0, 15.0])
        model = AFCL(
            shape="connected",
            privacy=level,
            scale=bounds,
            random_state=0,
            seeded_noise=True,
        ).fit(rows, clients=owners)
        assert model.shape_ is not None
        assert model.shape_["name"] == "connected"
        assert model.cell_labels_ is not None
        np.testing.assert_array_equal(model.predict(rows), model.labels_)
        if not level.startswith("dp"):
            assert adjusted_rand(truth, model.labels_) > 0.9

    def test_places_tell_of_two_sites_or_are_seeds(
        self, sites: tuple[Floats, Ints, Ints]
    ) -> None:
        """At `summary` cells are a site's own: none of their means is told as it is."""
        rows, _, owners = sites
        by_place = (rows[:, 0] > 0).astype(np.int64) + 2 * (rows[:, 1] > 0)
        for whose in (owners, by_place):
            model = make_method(
                "afcl", shape="connected", privacy="summary", random_state=0
            ).fit(rows, clients=whose)
            raw = model._raw
            assert raw.connected is not None
            assert raw.places is not None
            assert raw.seeds is not None
            near = assign(raw.places.means, raw.connected.cells.means)[1]
            seeds = assign(raw.places.means, raw.seeds)[1] == 0
            assert np.all(seeds | (near > 0))
            assert len(raw.places.labels) <= len(raw.connected.cells)

    def test_many_clients(self) -> None:
        rows, truth = ring_and_blob(2000)
        owners = np.random.default_rng(0).permutation(np.arange(len(rows)) // 6)
        for level in ("secure(plain)+summary", "summary"):
            model = make_method(
                "afcl", shape="connected", privacy=level, random_state=0
            ).fit(rows, clients=owners)
            assert model.shape_ is not None
            assert model.shape_["name"] == "connected"
            np.testing.assert_array_equal(model.predict(rows), model.labels_)
        assert len(np.unique(owners)) >= 1000
