# SPDX-License-Identifier: Apache-2.0
"""Columns that split the clusters by themselves are named from the answer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from afcl import AFCL
from afcl.cli import main
from afcl.estimators.storage import result_of
from afcl.exceptions import SuspicionWarning
from afcl.reliance import SPLITS
from afcl.runtime.splitting import splitting_columns

pytestmark = pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
COIN = {"name": "coin", "levels": ["heads", "tails"]}


def answer(centers, spreads=0.1, sizes=None, features=(COIN,), **more):
    """Return what a result has of clusters in x, y and the levels of a coin."""
    k = len(centers)
    return {
        "n_clusters": k,
        "columns": ["x", "y", "coin=heads", "coin=tails"],
        "centers": [[float(value) for value in center] for center in centers],
        "sizes": sizes or [50] * k,
        "profiles": [{"spreads": [spreads] * 4} for _ in range(k)],
        "scale": {"span": [10.0, 10.0, 5.7, 5.7]},
        "features": list(features),
        **more,
    }


PAIRS = [(x, y, up, 1 - up) for x, y in ((0, 0), (9, 0), (0, 9)) for up in (0, 1)]


def test_pairs_that_differ_in_one_column_are_named():
    (found,) = splitting_columns(answer(PAIRS))
    assert (found.column, found.kind, found.is_serious) == ("coin", SPLITS, True)
    assert found.text == (
        "'coin' splits the clusters by itself: of 6 clusters most have a twin that "
        "differs in it alone, and without it there are probably 3; compare with --drop "
        "coin"
    )


def test_of_two_clusters_none_is_left():
    (found,) = splitting_columns(answer(PAIRS[:2]))
    assert "without it there are probably none" in found.text


def test_what_is_no_split():
    # Twins that differ elsewhere too, clusters with a level each, too few twins.
    apart = [(x + 0.3 * up, y, up, down) for x, y, up, down in PAIRS]
    assert splitting_columns(answer(apart)) == []
    assert splitting_columns(answer(PAIRS[::2])) == []
    few = [*PAIRS[:2], (9, 0, 1, 0), (0, 9, 0, 1), (9, 9, 1, 0)]
    assert splitting_columns(answer(few)) == []
    # Shares that hardly differ, no spreads, no centres, one cluster, an order.
    mild = [(x, y, 0.3 + up / 4, 0.7 - up / 4) for x, y, up, _ in PAIRS]
    assert splitting_columns(answer(mild)) == []
    assert splitting_columns(answer(PAIRS, profiles=[])) == []
    assert splitting_columns({**answer(PAIRS), "centers": None}) == []
    assert splitting_columns(answer(PAIRS[:1])) == []
    order = {"name": "x", "levels": ["a", "b"], "ordered": True}
    assert splitting_columns(answer(PAIRS, features=[order])) == []


def test_chance_has_its_room():
    # With ten rows each, centres of twins are a spread apart now and then.
    shaken = [(x + 0.1 * up, y, up, down) for x, y, up, down in PAIRS]
    assert splitting_columns(answer(shaken, spreads=0.3)) != []
    shaken = [(x + 0.3 * up, y, up, down) for x, y, up, down in PAIRS]
    assert splitting_columns(answer(shaken, spreads=0.3)) == []
    assert splitting_columns(answer(shaken, spreads=0.3, sizes=[10] * 6)) != []


def test_a_category_alone_has_nothing_to_be_compared_with():
    result = answer([(0, 0, 1, 0), (0, 0, 0, 1)])
    result["columns"] = ["coin=heads", "coin=tails"]
    result["centers"] = [[1.0, 0.0], [0.0, 1.0]]
    result["profiles"] = [{"spreads": [0.1, 0.1]}] * 2
    result["scale"] = {"span": [5.7, 5.7]}
    assert splitting_columns(result) == []


def test_a_number_with_two_values_is_judged_too():
    two = [{"kind": "two values", "column": "y"}]
    pairs = [(x, y, 0, 1) for x in (0, 4, 9) for y in (0, 1)]
    (found,) = splitting_columns(answer(pairs, suspicions=two))
    assert found.column == "y"
    same = [(x, 0, 0, 1) for x in (0, 4, 9)]
    assert splitting_columns(answer(same, suspicions=two)) == []


def spots(seed, n=200):
    """Five tight clusters, and a coin that has nothing to do with them."""
    rng = np.random.default_rng(seed)
    places = np.array([[0, 0], [9, 1], [1, 9], [8, 8], [4, 5]])
    rows = places[rng.integers(0, 5, n)] + rng.normal(0, 0.15, (n, 2))
    coin = np.array(["heads", "tails"])[rng.integers(0, 2, n)]
    return pl.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "coin": coin})


def test_a_fit_warns_of_it():
    with pytest.warns(SuspicionWarning, match="'coin' splits the clusters by itself"):
        model = AFCL(random_state=0).fit_clients([spots(seed) for seed in range(3)])
    assert model.n_clusters_ == 10
    (told,) = result_of(model)["suspicions"]
    assert told["text"].endswith("there are probably 5; compare with an answer without")


def test_a_run_says_it_and_keeps_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("abc"):
        spots(seed).write_csv(f"{name}.csv")
    with pytest.raises(SystemExit) as ended:
        main(["run", "a.csv", "b.csv", "c.csv", "--out", "o"])
    assert ended.value.code == 0
    said = "note: 'coin' splits the clusters by itself: of 10 clusters most have a twin"
    assert said in capsys.readouterr().err
    result = json.loads(Path("o/result.json").read_text())
    assert [each["kind"] for each in result["suspicions"]] == [SPLITS]
    page = Path("o/report.html").read_text()
    assert "splits the clusters by itself" in page
    assert "Perhaps 10 clusters" in page
    assert "One column decides it." in page
    assert "relied on" not in page
