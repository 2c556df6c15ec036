# SPDX-License-Identifier: Apache-2.0
"""Live runs whose clusters are not round: what a site is told, and its labels."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import (
    COLUMNS,
    ListEngine,
    in_order,
    no_waiting,
    plan,
    replayed,
)

from afcl.core.messages import Places
from afcl.core.protocol import Clustering
from afcl.core.terms import Answer, AskHello, Finish, Terms
from afcl.exceptions import RejectedMessage
from afcl.methods import get_method
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.live.numbered import _withdraw_newest
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result, write_result

assert no_waiting  # pytest finds it here

LEVELS = ("summary", "grouped(5)", "secure+summary")


def write_rings(tmp_path, n_sites=4):
    """Write a ring and the blob inside of it, dealt out at random."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 400)
    ring = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.concatenate([ring, rng.normal(0, 1, (200, 2))])
    rows += rng.normal(0, 0.3, rows.shape)
    owner = rng.integers(0, n_sites, len(rows))
    tables, folders = [], {}
    for site in range(n_sites):
        tables.append(rows[owner == site])
        folder = tmp_path / f"site-{site}"
        folder.mkdir()
        path = folder / "rows.csv"
        pl.DataFrame(tables[-1], schema=list(COLUMNS)).write_csv(path)
        keep_membership(folder, Membership(str(path), f"site-{site}"))
        folders[100 + site] = folder
    return tables, folders


@pytest.mark.parametrize("level", LEVELS)
def test_sites_label_their_rows_as_the_simulator_does(tmp_path, level):
    tables, folders = write_rings(tmp_path)
    options = {"privacy": level, "shape": "connected"}
    folder = plan(tmp_path / "run", options=options, parameters={"shape": "connected"})
    engine = ListEngine(folders)
    serve_run(engine, folder)
    result = read_result(folder)
    assert result["n_clusters"] >= 2
    assert result["shape"]["name"] == "connected"
    assert (folder / "cells.csv").is_file()
    ordered = in_order(tables, folder)
    outcome = replayed(folder, ordered)
    clustering, box = outcome.finished.clustering, outcome.finished.terms.box
    assert clustering.places is not None
    points = np.array(result["places"]["points"])
    assert np.array_equal(points, box.unscale(clustering.places.means))
    for address, home in folders.items():
        own = read_result(home)
        assert own["places"] == result["places"]
        assert "cells" not in own
        assert "tree" not in own
        labels = pl.read_csv(home / "labels.csv")["cluster"].to_numpy()
        rows = tables[address - 100]
        expected = clustering.places.label(box.scale(rows))
        assert np.array_equal(labels, expected)
        # No cluster has rows of the ring and of the blob.
        assert not set(labels[_outside(rows)]) & set(labels[~_outside(rows)])
    _check_what_was_told(engine, clustering)


def _outside(rows):
    return np.hypot(*rows.T) > 6


def _check_what_was_told(engine, clustering):
    """Nothing that a site is sent counts the rows of cells."""
    found = clustering.connected
    assert found is not None
    ends = [decode(data) for _, data in engine.requests]
    told = [end.answer.places for end in ends if isinstance(end, Finish)]
    assert len(told) == 4
    for places in told:
        assert places is not None
        assert np.array_equal(places.means, clustering.places.means)
        assert len(places.labels) <= len(found.cells)


def test_round_answers_travel_as_before(tmp_path):
    """Without places no field of an answer says that there could be any."""
    centers = np.eye(2)
    answer = Answer.of(Clustering(centers, np.array([3.0, 2.0]), {"ch": 1.0}))
    assert b"places" not in encode(answer)
    assert decode(encode(answer)).clustering().places is None


def test_places_travel():
    places = Places(np.eye(3), np.array([0, 1, 1]))
    centers = np.eye(3)[:2]
    clustering = Clustering(centers, np.array([3.0, 2.0]), {}, places=places)
    again = decode(encode(Answer.of(clustering))).clustering()
    assert np.array_equal(again.places.means, places.means)
    assert again.landmarks is again.places.means
    assert again.places.label(np.eye(3)).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("means", "labels"),
    [
        (np.eye(3)[:, :2], [0, 1]),
        (np.eye(2), [0, 2]),
        (np.eye(2), [0, -1]),
        (np.eye(2), [0.0, 1.0]),
        (np.eye(3), [0, 1, 1]),
        (np.full((2, 2), np.nan), [0, 1]),
        (np.empty((0, 2)), np.empty(0, dtype=np.int64)),
    ],
)
def test_places_that_fit_no_cluster_are_refused(means, labels):
    places = Places(means, np.array(labels))
    said = Answer(np.eye(2), np.ones(2), (), np.empty(0), (), (), (), places)
    with pytest.raises(RejectedMessage, match="places"):
        decode(encode(said)).clustering()


@pytest.mark.parametrize(("shape", "told"), [("convex", False), ("connected", True)])
def test_older_sites_hear_of_shapes_only_where_there_are_some(tmp_path, shape, told):
    _, folders = write_rings(tmp_path)
    options = {"privacy": "summary", "shape": shape}
    engine = ListEngine(folders)
    serve_run(engine, plan(tmp_path / "run", options=options))
    asked = [decode(data) for _, data in engine.requests]
    terms = [each.terms for each in asked if isinstance(each, AskHello)]
    assert [("shape" in json.loads(each.options)) for each in terms] == [told] * 4
    assert all(isinstance(each, Terms) for each in terms)
    assert get_method("afcl").parameters(**json.loads(terms[0].options))


def test_cells_go_when_an_answer_is_withdrawn(tmp_path):
    _, folders = write_rings(tmp_path)
    options = {"privacy": "summary", "shape": "connected"}
    folder = plan(tmp_path / "run", options=options)
    serve_run(ListEngine(folders), folder)
    told = {**read_result(folder), "answer": 1, "cluster_names": ["c0", "c1"]}
    write_result(folder, told, {})
    assert (folder / "cells.csv").is_file()
    _withdraw_newest(folder)
    assert not (folder / "cells.csv").exists()
    assert "cells" not in read_result(folder)


def test_a_convex_answer_after_a_connected_one_leaves_no_cells(tmp_path):
    _, folders = write_rings(tmp_path)
    options = {"privacy": "summary", "shape": "connected"}
    folder = plan(tmp_path / "run", options=options)
    serve_run(ListEngine(folders), folder)
    assert (folder / "cells.csv").is_file()
    result = read_result(folder)
    del result["cells"]
    write_result(folder, result, {})
    assert not (folder / "cells.csv").exists()
