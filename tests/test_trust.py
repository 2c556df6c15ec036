# SPDX-License-Identifier: Apache-2.0
"""What a fitted model says of how far it can be believed, and when it warns.

The answers are real ones with a trust that was made up by hand.
"""

import copy
import inspect
import json
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from afcl import AFCL, make_method
from afcl.core.protocol import Trust
from afcl.data.split import kmeans_split
from afcl.data.synthetic import random_mixture
from afcl.exceptions import SmallClientsWarning, TrustWarning
from afcl.methods.afcl import Afcl
from afcl.methods.presets import resolve
from afcl.reliance import DOUBTFUL

#: Sure of three clusters; their stabilities in the server's order.
SURE = Trust(
    "clusters", 0.4, 0.93, ((2, 0.05), (3, 0.93), (4, 0.02)), (0.9, 0.8, 0.7), (2, 3)
)
NOTHING = Trust("none", -0.01, 0.97, ((1, 0.97), (2, 0.03)), (1.0,), (1,))


@pytest.fixture(scope="module")
def spots():
    """Three far spots of 60, 70 and 80 rows, and three owners."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [0.0, 50.0], [50.0, 0.0]])
    X = rng.normal(np.repeat(centers, (60, 70, 80), axis=0), 1)
    return X, np.arange(X.shape[0]) % 3


@pytest.fixture
def told(monkeypatch):
    """Have every answer of the default preset come with this trust."""
    own = Afcl.result

    def tell(trust, **changes):
        def result(self, state):
            return replace(own(self, state), trust=trust, **changes)

        monkeypatch.setattr(Afcl, "result", result)

    return tell


@pytest.fixture
def sure(told, spots):
    told(SURE)
    X, owner = spots
    return AFCL(random_state=0).fit(X, clients=owner)


class TestAttributes:
    def test_tell_the_trust(self, sure):
        assert sure.n_clusters_ == 3
        assert sure.structure_ == {"verdict": "clusters", "gain": 0.4}
        assert sure.k_confidence_ == 0.93
        assert sure.k_confidences_ == {2: 0.05, 3: 0.93, 4: 0.02}
        assert sure.levels_.tolist() == [2, 3]

    def test_stabilities_are_in_the_order_of_the_clusters(self, sure):
        assert sure.cluster_sizes_.tolist() == [80, 70, 60]
        raw = np.array(SURE.stabilities)
        ranked = np.empty(3)
        ranked[sure._rank] = raw
        assert sure.cluster_stability_.tolist() == ranked.tolist()

    def test_are_none_or_empty_where_nothing_is_known(self, told, spots):
        told(None)
        X, owner = spots
        model = AFCL(random_state=0).fit(X, clients=owner)
        self.check_empty(model)
        self.check_empty(make_method("k-fed", n_clusters=3).fit(X))

    def check_empty(self, model):
        assert model.structure_ is None
        assert model.k_confidence_ is None
        assert model.k_confidences_ == {}
        assert model.cluster_stability_.shape == (0,)
        assert model.levels_.shape == (0,)

    def check_same(self, model, other):
        for name in ("structure_", "k_confidence_", "k_confidences_"):
            assert getattr(other, name) == getattr(model, name)
        for name in ("cluster_stability_", "levels_"):
            assert getattr(other, name).tolist() == getattr(model, name).tolist()

    def test_are_saved(self, sure, tmp_path):
        sure.save(tmp_path)
        self.check_same(sure, AFCL.load(tmp_path))

    def test_an_older_file_loads_without(self, sure, tmp_path):
        sure.save(tmp_path)
        written = json.loads((tmp_path / "model.json").read_text())
        del written["clustering"]["trust"], written["raw"]["trust"]
        del written["params"]["allow_one"], written["params"]["granularity"]
        (tmp_path / "model.json").write_text(json.dumps(written))
        loaded = AFCL.load(tmp_path)
        self.check_empty(loaded)
        assert (loaded.allow_one, loaded.granularity) == (True, "auto")

    def test_are_pickled(self, sure):
        self.check_same(sure, pickle.loads(pickle.dumps(sure)))

    def test_an_older_pickle_loads_without(self, sure, spots):
        before = copy.deepcopy(vars(sure))
        for name in (
            "structure_",
            "k_confidence_",
            "k_confidences_",
            "cluster_stability_",
            "levels_",
        ):
            del before[name]
        for name in ("_clustering", "_raw"):
            object.__delattr__(before[name], "trust")
        old = AFCL.__new__(AFCL)
        old.__setstate__(before)
        again = pickle.loads(pickle.dumps(old))
        self.check_empty(again)
        assert np.array_equal(again.predict(spots[0]), sure.labels_)

    def test_of_an_unfitted_model_there_are_none(self):
        assert not hasattr(pickle.loads(pickle.dumps(AFCL())), "structure_")


class TestOneCluster:
    def test_is_an_answer(self, told, spots, tmp_path):
        X, owner = spots
        told(
            NOTHING,
            sizes=np.array([210.0]),
            centers=np.array([[0.3, 0.3]]),
            scores={"silhouette": None},
        )
        model = AFCL(random_state=0)
        with pytest.warns(TrustWarning, match="no clusters found"):
            model.fit(X, clients=owner)
        assert model.n_clusters_ == 1
        assert set(model.labels_) == {0}
        assert set(model.predict(X)) == {0}
        assert model.cluster_sizes_.tolist() == [210]
        assert model.cluster_stability_.tolist() == [1.0]
        assert model.path_.k[0] == 2
        assert set(model.cut(3)) == {0, 1, 2}
        model.save(tmp_path)
        assert set(AFCL.load(tmp_path).predict(X)) == {0}


class TestWarning:
    def warned(self, spots, **arguments):
        X, owner = spots
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            AFCL(random_state=0, **arguments).fit(X, clients=owner)
        assert all(item.filename == __file__ for item in caught)
        assert all("\n" not in str(item.message) for item in caught)
        return [(item.category, str(item.message)) for item in caught]

    def test_there_is_none_for_a_sure_answer(self, told, spots):
        told(SURE)
        assert self.warned(spots) == []
        told(replace(SURE, confidence=DOUBTFUL))
        assert self.warned(spots) == []

    def test_names_the_doubtful_k_and_its_rival(self, told, spots):
        shares = ((2, 0.2), (3, 0.31), (5, 0.49))
        told(replace(SURE, confidence=0.31, shares=shares))
        assert self.warned(spots) == [
            (
                TrustWarning,
                "k = 3 came out of 31% of the resamples only, k = 5 of 49%: look at "
                "path_ and at other k with cut(k) before you rely on it "
                "(see docs/errors.md#trustwarning)",
            )
        ]

    def test_of_equal_rivals_the_smaller_is_named(self, told, spots):
        shares = ((2, 0.35), (3, 0.3), (5, 0.35))
        told(replace(SURE, confidence=0.3, shares=shares))
        ((_, text),) = self.warned(spots)
        assert "only, k = 2 of 35%: look" in text

    def test_rivals_may_not_be_known(self, told, spots):
        told(replace(SURE, confidence=0.3, shares=()))
        ((_, text),) = self.warned(spots)
        assert text.startswith("k = 3 came out of 30% of the resamples only: look at")

    def test_is_the_gravest_one(self, told, spots):
        told(replace(SURE, verdict="unclear", confidence=0.1))
        ((kind, text),) = self.warned(spots)
        assert kind is TrustWarning
        assert text.startswith("cannot tell whether there are clusters, k = 3 is a")

    def test_clusters_that_were_insisted_on(self, told, spots):
        told(replace(NOTHING, stabilities=(0.1, 0.1, 0.1), confidence=0.0))
        ((kind, text),) = self.warned(spots, allow_one=False)
        assert kind is TrustWarning
        assert "the 3 clusters are pieces of one cloud" in text

    def test_begins_where_the_words_end(self, told, spots):
        told(replace(SURE, confidence=0.496, shares=((3, 0.496),)))
        assert self.warned(spots) == []
        told(replace(SURE, confidence=0.494, shares=((3, 0.494),)))
        ((_, text),) = self.warned(spots)
        assert text.startswith("k = 3 came out of 49% of the resamples only")

    def test_clusters_that_were_wished_for(self, told, spots):
        told(replace(SURE, confidence=0.3))
        ((_, text),) = self.warned(spots)
        assert text.startswith("the clusters of k = 3 all came back in 30% of the")
        assert "only: look at path_" in text

    def test_more_clusters_than_cells_can_show(self, told, spots):
        told(SURE)
        X, owner = spots
        assert self.warned((X, owner), privacy="summary") == [
            (
                SmallClientsWarning,
                "sites hold about 70 rows for 3 clusters: cells of 5 rows mix clusters "
                "there; let privacy=None choose sums over sites (three sites or more), "
                "or secure+summary (see docs/errors.md#smallclientswarning)",
            )
        ]
        assert self.warned((X, owner), privacy="summary", min_cell=4) == []
        assert self.warned((X, owner % 2), privacy="summary") == []
        assert self.warned((X, owner)) == []


class TestSmallSites:
    @pytest.mark.parametrize(("min_cell", "verdict"), [(1, "clusters"), (2, "unclear")])
    def test_only_cells_of_several_rows_can_mix_them(self, min_cell, verdict):
        rng = np.random.default_rng(0)
        spots = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
        owner = np.repeat(np.arange(60), 8)
        X = spots[rng.integers(0, 4, owner.size)] + rng.normal(size=(owner.size, 2))
        model = AFCL(privacy="summary", min_cell=min_cell, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, clients=owner)
        assert model.structure_ is not None
        assert model.structure_["verdict"] == verdict


class TestOptions:
    def test_reach_the_method(self):
        arguments: dict[str, Any] = {"allow_one": False, "granularity": "fine"}
        _, options, _ = resolve(AFCL(**arguments).get_params())
        assert {name: options[name] for name in arguments} == arguments
        _, options, _ = resolve(AFCL(preset="paper", **arguments).get_params())
        assert not arguments.keys() & options.keys()

    @pytest.mark.parametrize(
        ("name", "default"), [("allow_one", True), ("granularity", "auto")]
    )
    def test_are_keyword_only_and_have_defaults(self, name, default):
        option = inspect.signature(AFCL).parameters[name]
        assert option.kind is option.KEYWORD_ONLY
        assert option.default == default


@pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
def test_an_answer_that_was_searched_for_comes_back():
    """No path of Ward's has these eleven clusters; so none of a resample's had."""
    rows, truth = random_mixture(15302)
    unit = (rows - rows.min(axis=0)) / np.ptp(rows, axis=0)
    owners = kmeans_split(unit, 5, random_state=15302, min_rows=5)
    model = AFCL(random_state=15302, shape="convex").fit(rows, clients=owners)
    assert model.n_clusters_ == np.unique(truth).shape[0]
    assert model.k_confidence_ is not None
    assert model.k_confidence_ >= 0.5
    assert model.cluster_stability_ is not None
    assert model.cluster_stability_.min() > 0.5


def test_the_largest_k_that_was_looked_at_is_warned_of():
    """Thirty spots in 450 rows: the path ends at the root of that."""
    rng = np.random.default_rng(1)
    spots = rng.uniform(0, 100, (30, 2))
    X = np.concatenate([rng.normal(spot, 0.8, (15, 2)) for spot in spots])
    owners = np.arange(len(X)) % 3
    with pytest.warns(TrustWarning, match="k = 21 is the largest number") as caught:
        model = AFCL(random_state=0).fit(X, clients=owners)
    assert len(caught) == 1
    assert model.n_clusters_ == max(model.path_.k) == 21
    # Who says how many there may be knows that there may be more.
    AFCL(random_state=0, max_clusters=21).fit(X, clients=owners)
