# SPDX-License-Identifier: Apache-2.0
"""A site of a live run whose rows are where its own program says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import ListEngine, no_waiting, plan, write_sites

from afcl.exceptions import InputError
from afcl.runtime.live.membership import Membership, keep_membership, open_membership
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result

pytest.importorskip("dask.dataframe")
assert no_waiting  # a fixture for every test here

PROGRAM = """
from pathlib import Path

import dask.dataframe as dd

from afcl.runtime.cluster import ClusterTable


def rows():
    path = Path(__file__).with_name("rows.csv")
    return ClusterTable(dd.read_csv(path, blocksize=4000))
"""


def write(folder, text):
    path = folder / "rows.py"
    path.write_text(text)
    return path


def test_a_run_is_the_same_with_a_site_that_is_a_program(tmp_path):
    found = {}
    for kind in ("tables", "program"):
        here = tmp_path / kind
        here.mkdir()
        _, folders = write_sites(here)
        for each in folders.values():
            keep_membership(each, replace(open_membership(each), runs=2))
        if kind == "program":
            home = folders[101]
            told = open_membership(home)
            keep_membership(home, replace(told, data=str(write(home, PROGRAM))))
        folder = plan(here / "run")
        serve_run(ListEngine(folders), folder)
        own = read_result(folders[101])
        labels = pl.read_csv(folders[101] / "labels.csv")["cluster"].to_numpy()
        found[kind] = read_result(folder), own["site"], labels
    (result, site, labels), (known, known_site, known_labels) = (
        found["program"],
        found["tables"],
    )
    assert result["n_clusters"] == known["n_clusters"] == 4
    assert np.allclose(result["centers"], known["centers"], rtol=0, atol=1e-9)
    assert site == known_site
    assert np.array_equal(labels, known_labels)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must return a ClusterTable"),
        ("rows = 3", "must return a ClusterTable"),
        ("def rows(): return [[1.0]]", "must return a ClusterTable"),
        ("def rows(): return 1 / 0", "rows.py failed: ZeroDivisionError: division"),
        ("1 +", "rows.py failed: SyntaxError"),
        (
            "from afcl.exceptions import InputError\n"
            "def rows(): raise InputError('no rows today')",
            "rows.py: no rows today",
        ),
        (
            "import dask.array as da\nfrom afcl.runtime.cluster import ClusterTable\n"
            "def rows(): return ClusterTable(da.ones((3, 2)))",
            "with named columns",
        ),
    ],
)
def test_a_program_that_gives_no_rows_is_refused(tmp_path, text, words):
    told = Membership(str(write(tmp_path, text)), "site")
    with pytest.raises(InputError, match=words) as caught:
        told.open()
    assert "\n" not in str(caught.value)


def test_no_program(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        Membership(str(tmp_path / "rows.py"), "site").open()


def test_options_that_are_for_tables(tmp_path):
    told = Membership(str(write(tmp_path, PROGRAM)), "site")
    with pytest.raises(InputError, match="program, let it choose"):
        replace(told, columns=("a",)).open()
    with pytest.raises(InputError, match="privacy level secure needs all rows"):
        replace(told, privacy="secure").open()
