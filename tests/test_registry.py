# SPDX-License-Identifier: Apache-2.0
"""What is added by one line is known everywhere."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from afcl import AFCL
from afcl.cli import main
from afcl.core import indices
from afcl.exceptions import InputError
from afcl.registry import INDICES, Index, register_index
from afcl.report.words import higher_is_better, index_name


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    spots = [(0, 0), (9, 0), (0, 9)]
    return np.concatenate([rng.normal(spot, 1, (60, 2)) for spot in spots])


@pytest.fixture
def toy():
    """An index that prefers k = 4, and is not defined for k = 3."""

    def distance(partition: indices.Partition) -> float | None:
        k = len(partition.counts)
        return None if k == 3 else abs(k - 4.25)

    index = Index("toy", "a toy", distance, higher_is_better=False)
    register_index(index)
    yield index
    del INDICES["toy"]


def test_a_new_index_is_on_the_path_and_chooses(rows, toy):
    model = AFCL(criterion="toy", max_clusters=6, random_state=0).fit(rows)
    assert model.n_clusters_ == 4
    assert list(model.path_.k) == [2, 3, 4, 5, 6]
    expected = [2.25, np.nan, 0.25, 0.75, 1.75]
    np.testing.assert_allclose(model.path_.scores["toy"], expected)


def test_a_new_index_is_known_to_command_line_files_and_report(rows, toy, tmp_path):
    site, out = tmp_path / "site.csv", tmp_path / "out"
    np.savetxt(site, rows, delimiter=",", header="u,v", comments="")
    arguments = ["run", str(site), "--out", str(out), "--max-clusters", "6"]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--criterion", "toy"])
    with open(out / "path.csv") as file:
        path = list(csv.DictReader(file))
    assert [level["toy"] for level in path] == ["2.25", "", "0.25", "0.75", "1.75"]
    assert json.loads((out / "result.json").read_text())["n_clusters"] == 4
    assert "A toy" in (out / "report.html").read_text()
    assert (index_name("toy"), higher_is_better("toy")) == ("A toy", False)


def test_every_index_has_a_formula():
    known = indices.Partition(*(np.ones(2), np.eye(2), np.ones(2)), 0.5, 0.25)
    assert set(indices.scores_of(known)) == set(INDICES)
    assert [index.name for index in INDICES.values()] == list(INDICES)


def test_names_are_taken_once(toy):
    register_index(toy)
    for name in ("auto", "ch", "toy"):
        with pytest.raises(InputError, match=f"the name '{name}' is taken"):
            register_index(Index(name, "another", lambda partition: 0.0))
