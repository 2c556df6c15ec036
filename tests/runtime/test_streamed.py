# SPDX-License-Identifier: Apache-2.0
"""Sites whose rows stay in their files: the same bits as in memory, to the labels."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.runtime import test_federation as live

from afcl import kernels
from afcl import parts as parts_of_rows
from afcl.core.client import condense, reply
from afcl.core.messages import Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.rows import TableRows
from afcl.core.terms import AskAnnouncement, AskRanges
from afcl.data import parquet, texts
from afcl.data.sites import open_sites
from afcl.data.stream import StreamedRows, StreamedTable
from afcl.data.tables import Table
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import Membership, keep_membership, open_membership
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result, write_labels
from afcl.runtime.simulate import LabelParts, simulate
from afcl.runtime.site import Site
from afcl.runtime.spec import Spec
from afcl.scale import minmax_box, no_box, ranges_of

#: Admission does not wait.
no_waiting = live.no_waiting


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of one block, batches and blocks of text that fit nothing else."""
    monkeypatch.setattr(parts_of_rows, "PART", 1)
    monkeypatch.setattr(parts_of_rows, "CACHED", 1)
    monkeypatch.setattr(parquet, "BATCH", 3000)
    monkeypatch.setattr(texts, "BLOCK_BYTES", 50_000)


def mixture(n_rows, seed):
    rng = np.random.default_rng(seed)
    spots = np.random.default_rng(0).uniform(0, 30, (5, 3))
    return rng.normal(spots[rng.integers(5, size=n_rows)], 1.0)


def opened(path, **options):
    (source,) = open_sites([path], **options).tables
    return source


@pytest.fixture
def site(tmp_path, seed):
    X = mixture(10_000, seed)
    pl.DataFrame(X, schema=["a", "b", "c"]).write_parquet(tmp_path / "s.parquet")
    return X, opened(tmp_path / "s.parquet", stream=True)


@pytest.mark.parametrize("places", [None, np.array([2, 0])])
def test_parts_and_samples_have_the_bits_of_a_table(site, places, seed):
    X, source = site
    assert (source.streamed, source.shape) == (True, X.shape)
    used = X if places is None else X[:, places]
    box = minmax_box([ranges_of(used)])
    rows = source.within(box, places)
    held = TableRows(X, box, places)
    assert rows.shape == held.shape
    pairs = zip(rows.map(np.copy), held.parts(4096), strict=True)
    sizes = []
    for part, other in pairs:
        np.testing.assert_array_equal(part, other)
        sizes.append(part.shape[0])
    assert sizes == [4096, 4096, 1808]
    index = np.sort(np.random.default_rng(seed).choice(10_000, 99, replace=False))
    np.testing.assert_array_equal(rows.take(index), held.take(index))


def test_ranges(site):
    X, source = site
    for extremes in (True, False):
        said, held = source.ranges(extremes), ranges_of(X, extremes)
        assert (said.n_rows, said.n_features) == (held.n_rows, held.n_features)
        np.testing.assert_array_equal(said.low, held.low)
        np.testing.assert_array_equal(said.high, held.high)


def test_all_rows_at_once_are_refused(site):
    _, source = site
    with pytest.raises(InputError, match="needs all rows in memory: use --no-stream"):
        source.within(no_box(3)).table()
    with pytest.raises(InputError, match="leave out --stream"):
        Site(source).answer(encode(AskRanges("run", True, 5)))


def test_what_a_client_says(site):
    X, source = site
    box = minmax_box([ranges_of(X)])
    params = DefaultParams()
    streamed = source.within(box)
    assert isinstance(streamed, StreamedRows)
    said = [
        condense(rows, params, np.random.default_rng(1))
        for rows in (streamed, TableRows(X, box))
    ]
    for one, other in zip(encoded(said[0]), encoded(said[1]), strict=True):
        np.testing.assert_array_equal(one, other)
    centers = said[0].means[:4]
    level = Level(centers, np.full(4, 0.01), np.full(4, 2500.0), 0)
    plan = Plan(said[0].means, (level,))
    answers = [reply(rows, plan, params) for rows in (streamed, TableRows(X, box))]
    for one, other in zip(
        encoded(answers[0].cells), encoded(answers[1].cells), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    views = [answer_.levels[0] for answer_ in answers]
    assert np.array_equal(views[0].sums, views[1].sums)
    assert np.array_equal(views[0].valleys, views[1].valleys)
    table = TableRows(X, box).table()
    whole = kernels.valleys(table, np.ones(X.shape[0]), centers)
    assert np.array_equal(views[0].valleys, whole)


def encoded(cells):
    return cells.counts, cells.means, cells.scatters


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_whole_run_gives_the_same_bits(tmp_path, seed, ending):
    paths = []
    for g in range(3):
        X = mixture(6000 + 17 * g, seed + g)
        X[:: 500 + g, 1] = np.nan
        frame = pl.DataFrame(X, schema=["a", "b", "c"])
        paths.append(tmp_path / f"s{g}{ending}")
        (frame.write_csv if ending == ".csv" else frame.write_parquet)(paths[-1])
    spec = Spec(get_method("afcl"), {}, seed, run="run")
    runs = []
    for stream in (True, False):
        sites = open_sites(paths, missing="drop", stream=stream)
        outcome = simulate(spec, [source.rows for source in sites.tables])
        runs.append((sites.tables, outcome))
    (files, ours), (held, theirs) = runs
    assert ours.clustering.k == theirs.clustering.k
    assert ours.clustering.centers is not None
    np.testing.assert_array_equal(ours.clustering.centers, theirs.clustering.centers)
    assert ours.clustering.scores == theirs.clustering.scores
    for g in range(3):
        parts, table = ours.labels[g], files[g]
        assert isinstance(parts, LabelParts)
        assert isinstance(table, StreamedTable)
        write_labels(tmp_path / "a.csv", table.in_input_order(parts))
        write_labels(tmp_path / "b.csv", held[g].in_input_order(theirs.labels[g]))
        lines = (tmp_path / "a.csv").read_text().split()
        assert lines == (tmp_path / "b.csv").read_text().split()
        counted = np.bincount(np.array(lines[1:], dtype=int) + 1)
        assert counted[1:].tolist() == parts.sizes.tolist()
        assert counted[0] == -(-(6000 + 17 * g) // (500 + g))


# ---------------------------------------------------------------- a site of a live run


def test_a_streamed_site_takes_part(tmp_path, seed):
    ends = []
    for stream in (None, True):
        home = tmp_path / str(stream)
        home.mkdir()
        _, folders = live.write_sites(home, seed=seed)
        folder = folders[100]
        for each in folders.values():
            keep_membership(each, replace(open_membership(each), runs=2))
        keep_membership(folder, replace(open_membership(folder), stream=stream))
        run = live.plan(home / "run")
        serve_run(live.ListEngine(folders), run)
        own = read_result(folder)
        assert json.loads((folder / "site.json").read_text())["stream"] is stream
        ends.append((read_result(run)["centers"], own["site"], labels_of(folder)))
    assert ends[0] == ends[1]


def labels_of(folder: Path) -> str:
    return (folder / "labels.csv").read_text()


def streaming_member(tmp_path, **told):
    path = tmp_path / "rows.csv"
    pl.DataFrame(mixture(50, 0), schema=["a", "b", "c"]).write_csv(path)
    member = Membership(str(path), "north", stream=True, **told)
    keep_membership(tmp_path / "home", member)
    return tmp_path / "home", member


def test_what_a_streamed_site_says_of_itself(tmp_path):
    folder, member = streaming_member(tmp_path, units={"b": "cm"})
    said = decode(answer(folder, encode(AskAnnouncement("run", True))))
    keep_membership(folder, replace(member, stream=False))
    held = decode(answer(folder, encode(AskAnnouncement("run", True))))
    assert encode(said) == encode(held)
    assert said.n_rows == 50


def test_what_needs_all_rows_is_refused_by_a_streamed_site(tmp_path):
    folder, member = streaming_member(tmp_path)
    with pytest.raises(InputError, match="--stream: a privacy level with groups needs"):
        answer(folder, encode(AskAnnouncement("run", True, 5)))
    for told in ({"method": "k-fed"}, {"privacy": "grouped(5)"}):
        with pytest.raises(
            InputError, match=f"{next(iter(told.values()))[:5]}.* needs"
        ):
            replace(member, **told).open()


def test_a_streamed_site_is_not_read_for_a_picture(tmp_path):
    _, member = streaming_member(tmp_path)
    with pytest.raises(InputError, match="too many to be read at once"):
        member.read()
    held = replace(member, stream=None)
    assert held.read().tables[0].values.shape == (50, 3)
    assert isinstance(held.open().tables[0], Table)
    assert isinstance(member.open().tables[0].rows, StreamedTable)


def test_labels_of_a_site_that_changes_are_not_half_written(tmp_path):
    def labels():
        yield np.array([0, 1])
        raise InputError("changed")

    with pytest.raises(InputError):
        write_labels(tmp_path / "labels.csv", labels())
    assert list(tmp_path.iterdir()) == []
