# SPDX-License-Identifier: Apache-2.0
"""Tables of several sites: which rows and columns are read, gaps, classes, runs."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl_bench.datasets import fingerprint, load
from afcl_bench.execute import execute
from afcl_bench.settings import divided
from afcl_bench.site_tables import SITES, SiteColumns, read_sites
from afcl_bench.spec import Run
from afcl_bench.store import DONE

TINY = SiteColumns(("size", "dose"), ("colour",), known="grade", above=0.0)
NORTH = "id,size,dose,colour,grade\n1,2,0,red,0\n2,4,5,,3\n3,?,7,blue,1\n"
SOUTH = "id,grade,colour,dose,size\n4,0,red,NA,8\n5,,red,1,1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setitem(SITES, "tiny", TINY)
    there = tmp_path / "below" / "tiny"
    there.mkdir(parents=True)
    (there / "north.csv").write_text(NORTH)
    (there / "south.csv").write_text(SOUTH)
    return tmp_path


def refusal(*arguments) -> str:
    """The error's message, which must be one line."""
    with pytest.raises(InputError) as caught:
        load(arguments[0], folder=arguments[1])
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_rows_of_all_sites_by_hand(folder):
    table = read_sites("tiny", folder)
    # The last row has no class. Sizes are 2, 4, -, 8, doses 0, 5, 7, -: medians 4, 5.
    assert table.X.tolist() == [[2, 0], [4, 5], [4, 7], [8, 5]]
    assert table.y.tolist() == [0, 1, 1, 0]
    assert (table.k, table.owner.tolist()) == (2, [0, 0, 0, 1])
    assert table.frame["size"].to_list() == [2.0, 4.0, None, 8.0]
    assert table.frame["colour"].to_list() == ["red", None, "blue", "red"]


def test_zeros_that_mean_nothing_are_gaps(folder, monkeypatch):
    marked = SiteColumns(("size", "dose"), never_zero=("dose",))
    monkeypatch.setitem(SITES, "tiny", marked)
    table = read_sites("tiny", folder)
    # Doses are -, 5, 7, -, 1 now, and nobody's class is known.
    assert table.X[:, 1].tolist() == [5, 5, 7, 5, 1]
    assert (table.k, table.y.tolist()) == (0, [0] * 5)
    assert table.frame.columns == ["size", "dose"]


def test_classes_that_are_words(folder, monkeypatch):
    monkeypatch.setitem(SITES, "tiny", SiteColumns(("size",), known="colour"))
    table = read_sites("tiny", folder)
    assert (table.k, table.y.tolist()) == (2, [1, 0, 1, 1])


def test_two_names_of_one_table(folder):
    plain, mixed = (load(n, folder=folder) for n in ("sites:tiny", "sites:tiny:mixed"))
    assert np.array_equal(plain.X, mixed.X)
    assert plain.frame is None
    assert mixed.frame is not None
    assert plain.columns == ("size", "dose")
    assert fingerprint(plain) != fingerprint(mixed)


def test_whose_a_row_is_belongs_to_the_fingerprint(folder):
    before = fingerprint(load("sites:tiny", folder=folder))
    there = folder / "below" / "tiny"
    # The same rows in the same order, but the first three are of two sites now.
    head, *rows = NORTH.splitlines(keepends=True)
    (there / "north.csv").write_text(head + rows[0])
    (there / "north2.csv").write_text(head + "".join(rows[1:]))
    after = load("sites:tiny", folder=folder)
    assert after.owner is not None
    assert after.owner.tolist() == [0, 1, 1, 2]
    assert fingerprint(after) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sites:nowhere", "unknown sites 'nowhere'; choose from airports"),
        ("sites:olive", "sites:olive needs a folder olive with a CSV file per site"),
        ("sites:tiny:all", "write sites:tiny or sites:tiny:mixed"),
    ],
)
def test_what_is_refused(folder, name, text):
    assert text in refusal(name, folder)


def test_without_a_folder_it_says_so():
    assert "no folder was given" in refusal("sites:olive", None)


def test_a_file_without_a_column_is_named(folder):
    (folder / "below" / "tiny" / "south.csv").write_text("size,grade\n1,0\n")
    assert "south.csv: lacks the column 'dose'" in refusal("sites:tiny", folder)


def test_sites_stay_as_small_as_they_are(folder):
    data = load("sites:tiny", folder=folder)
    found = divided("sites", data, 0)
    assert found.owner.tolist() == [0, 0, 0, 1]
    assert (found.redrawn, found.merged) == (0, 0)
    assert divided("pooled", data, 0).owner.tolist() == [0] * 4


# ------------------------------------------------------------------ runs


@pytest.fixture
def groups(tmp_path, monkeypatch, seed):
    """Two groups that differ in a category as much as in a number, at three sites."""
    monkeypatch.setitem(SITES, "groups", SiteColumns(("x", "y"), ("kind",), "group"))
    rng = np.random.default_rng(seed)
    (tmp_path / "groups").mkdir()
    for site in "abc":
        lines = ["group,kind,x,y"]
        for i in range(60):
            x, y = rng.normal(10.0 * (i % 2), 0.3, 2)
            gap = "" if i % 9 == 4 else f"{x:.3f}"
            lines.append(f"{i % 2},{'uv'[i % 2]},{gap},{y:.3f}")
        (tmp_path / "groups" / f"{site}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("split", ["sites", "pooled"])
def test_categories_and_gaps_are_given_as_they_are(groups, split):
    run = Run("sites:groups:mixed", "afcl", (), split, "random", 0)
    record = execute(run, groups)
    assert (record.status, record.k) == (DONE, 2)
    data = load("sites:groups:mixed", folder=groups)
    assert record.labels is not None
    assert len({*zip(data.y.tolist(), record.labels.tolist(), strict=True)}) == 2
    assert record.facts["data"]["clients"] == (3 if split == "sites" else 1)


def test_a_rival_is_given_filled_numbers(groups):
    run = Run("sites:groups", "fkm", (("n_clusters", 2),), "sites", "random", 0)
    assert (execute(run, groups).status, execute(run, groups).k) == (DONE, 2)
