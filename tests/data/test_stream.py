# SPDX-License-Identifier: Apache-2.0
"""Streamed files: the same rows, errors and hashes as in memory, wherever cuts fall."""

import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afcl.data import Table, parquet, read_sites, stream, texts
from afcl.data import sites as sites_module
from afcl.data.sites import open_sites
from afcl.data.stream import StreamedTable
from afcl.exceptions import InputError

from .written import ROWS, write

WORDS = ["1", "-2.5", "3e2", " 4 ", "+1", '"5"', '"6\n"', "", "NA", "Nan", "nULL"]
WORDS += ["1_0", "0x1", "1e400", ".5", "1.", "true", "Ann", "inf", "1d5", "٣", "1 2"]


def streamed(*paths, **options):
    """Return the only site of these, streamed."""
    (source,) = open_sites(paths, stream=True, **options).tables
    assert isinstance(source, StreamedTable)
    return source


def rows_of(source, size=3, places=None):
    parts = [part.copy() for part in source.parts(size, places)]
    assert all(len(part) == size for part in parts[:-1])
    return np.concatenate(parts)


def outcome(call):
    """Return what a call gives, or the line with which it is refused."""
    try:
        return call()
    except InputError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    return message


def in_memory(path, missing):
    sites = read_sites([path], missing=missing)
    (table,), (kept,) = sites.tables, sites.kept
    return table.values.tolist(), kept.tolist(), table.fingerprint(), sites.notes


def in_parts(path, missing):
    sites = open_sites([path], missing=missing, stream=True)
    (source,) = sites.tables
    assert isinstance(source, StreamedTable)
    values = rows_of(source)
    labels = np.arange(len(values))
    spread = list(source.in_input_order(np.array_split(labels, 2)))
    kept = (np.concatenate(spread) >= 0).tolist()
    np.testing.assert_array_equal(source.ranges().low, values.min(axis=0))
    np.testing.assert_array_equal(source.ranges().high, values.max(axis=0))
    assert source.shape == values.shape
    return values.tolist(), kept, source.fingerprint(), sites.notes


# --------------------------------------------------------------- the same as in memory


@pytest.mark.no_cover
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.sampled_from(WORDS), min_size=0, max_size=2), max_size=8),
    ends=st.sampled_from(["\n", "\r\n"]),
    tail=st.integers(0, 3),
    block=st.integers(7, 40),
    missing=st.sampled_from(["error", "drop"]),
)
def test_text_is_the_same_wherever_it_is_cut(folder, rows, ends, tail, block, missing):
    lines = ["x,y", *(",".join(row) for row in rows)]
    path = write("a.csv", "\n" + ends.join(lines) + ends * tail)
    whole = outcome(lambda: in_memory(path, missing))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "BLOCK_BYTES", block)
        found = outcome(lambda: in_parts(path, missing))
        patch.setattr(texts, "_numbers", lambda *block: None)
        slowly = outcome(lambda: in_parts(path, missing))
    assert found == slowly
    # Of several faults, the first in a column or the first in the file may be told.
    assert found == whole or (isinstance(found, str) and isinstance(whole, str))


@pytest.mark.parametrize("cell", WORDS)
def test_a_cell_is_read_quickly_as_it_is_read_with_care(folder, monkeypatch, cell):
    path = write("a.csv", f"x,y,z\n1,2,3\n4,{cell},6\n7,8,9\n")
    quickly = outcome(lambda: in_memory(path, "drop"))
    monkeypatch.setattr(texts, "_numbers", lambda *block: None)
    assert outcome(lambda: in_memory(path, "drop")) == quickly


FAULTS = {
    "text": "Ann",
    "infinite": "-inf",
    "missing": "NA",
    "too many": "7,8",
}


@pytest.mark.parametrize("row", [0, 1, 4, 9])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_the_same_words(folder, monkeypatch, fault, row):
    cells = [f"{i},{i}" for i in range(10)]
    cells[row] = f"1,{FAULTS[fault]}"
    path = write("a.csv", "\n".join(["x,y", *cells]) + "\n")
    whole = outcome(lambda: in_memory(path, "error"))
    monkeypatch.setattr(texts, "BLOCK_BYTES", 8)
    assert outcome(lambda: in_parts(path, "error")) == whole
    assert ("row" if fault == "too many" else f"row {row + 1} ") in whole


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ROWS.replace("\n", "\r")),
        ("a.csv", "\ufeff" + ROWS),
        ("a.csv", "\n\n\n\n\n\n\n\n\n" + ROWS + "\n\n\n\n\n\n\n\n\n\n"),
        ("a.csv", '"x\nx","y\n"\n1,2\n"3",4'),
        ("a.csv.gz", ROWS),
        ("a.tsv", ROWS.replace(",", "\t")),
        ("a.csv", ",x,y\n0,1,2\n1,3,4\n"),
    ],
    ids=["old", "bom", "blank", "names", "gz", "tsv", "unnamed"],
)
def test_kinds_of_text(folder, monkeypatch, name, content):
    path = write(name, content)
    whole = in_memory(path, "error")
    assert whole[0] == [[1, 2], [3, 4]]
    monkeypatch.setattr(texts, "BLOCK_BYTES", 8)
    assert in_parts(path, "error") == whole


@pytest.mark.parametrize("content", ["", "\n\n \n", "x,y\n", "x,y"])
def test_nothing_to_stream(folder, monkeypatch, content):
    path = write("a.csv", content)
    whole = outcome(lambda: in_memory(path, "error"))
    monkeypatch.setattr(texts, "BLOCK_BYTES", 2)
    assert outcome(lambda: in_parts(path, "error")) == whole
    assert isinstance(whole, str)


def test_a_quotation_mark_that_is_never_closed(folder, monkeypatch):
    path = write("a.csv", 'x,y\n1,2\n"3,4\n' + "5,6\n" * 100)
    monkeypatch.setattr(texts, "BLOCK_BYTES", 16)
    monkeypatch.setattr(texts, "LONGEST", 1 << 6)
    assert outcome(lambda: streamed(path)) == (
        "a.csv: a row is longer than 0 MB; close the quotation mark that is open there"
    )


def frame(n_rows, seed):
    rng = np.random.default_rng(seed)
    cells = [None if v < 2 else int(v) for v in rng.integers(0, 9, n_rows)]
    return pl.DataFrame(
        {
            "float": rng.normal(size=n_rows),
            "text": [f" {v!r}" for v in rng.normal(size=n_rows).tolist()],
            "holes": pl.Series(cells, dtype=pl.Int32),
            "flag": rng.random(n_rows) < 0.5,
            "word": pl.Series(["true", "5"] * (n_rows // 2), dtype=pl.Categorical),
            "zero": np.where(rng.random(n_rows) < 0.5, 0.0, -0.0),
        }
    )


@pytest.mark.parametrize("group", [1, 7, 100])
def test_parquet_is_the_same_wherever_it_is_cut(folder, monkeypatch, seed, group):
    frame(40, seed).write_parquet("a.parquet", row_group_size=group)
    monkeypatch.setattr(parquet, "BATCH", 3)
    for missing in ("drop", "error"):
        whole = outcome(lambda m=missing: in_memory(Path("a.parquet"), m))
        assert outcome(lambda m=missing: in_parts(Path("a.parquet"), m)) == whole


def test_damaged_parquet(folder):
    pq.write_table(pa.table({"x": np.arange(9.0), "y": np.arange(9.0)}), "a.parquet")
    good = Path("a.parquet").read_bytes()
    Path("a.parquet").write_bytes(good[:4] + bytes(60) + good[64:])
    message = outcome(lambda: streamed("a.parquet"))
    assert message.startswith("a.parquet: cannot be read (")
    assert message.endswith("); check that it is Parquet and save it anew")


def test_parquet_without_the_reader_of_parts(folder, monkeypatch):
    pl.DataFrame({"x": [1.0, 2.0]}).write_parquet("a.parquet")
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    assert outcome(lambda: streamed("a.parquet")) == (
        "a.parquet: reading Parquet in parts needs PyArrow: pip install "
        "'afcl[stream]', or read it at once with --no-stream"
    )
    monkeypatch.setattr(sites_module, "STREAM_ABOVE", 1)
    sites = open_sites(["a.parquet"])
    assert isinstance(sites.tables[0], Table)
    assert sites.notes == (
        "about 0.0 GB are read into memory; to stream them: pip install 'afcl[stream]'",
    )


# ------------------------------------------------------------------- folders of files


@pytest.mark.parametrize("stream_it", [True, False])
def test_a_folder_is_one_site_in_the_order_of_names(folder, stream_it):
    write("north/b.csv", "y,x\n4,3\n")
    write("north/a.csv.gz", "x,y\n1,2\n")
    pl.DataFrame({"x": [5], "y": [6]}).write_parquet("north/c.parquet")
    write("north/README.md", "about")
    write("north/_SUCCESS", "")
    write("north/.hidden.csv", "z\n1\n")
    sites = open_sites(["north"], stream=stream_it)
    (source,) = sites.tables
    assert (source.name, source.columns, source.shape) == ("north", ("x", "y"), (3, 2))
    assert source.streamed is stream_it
    found = source.values if isinstance(source, Table) else rows_of(source)
    assert found.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert sites.notes == (
        "north/README.md left out: not a table",
        "north: 3 files, taken as one site",
    )


def test_folder_and_file_give_the_same(folder, seed):
    X = np.random.default_rng(seed).normal(size=(20, 2))
    pl.DataFrame(X, schema=["x", "y"]).write_csv("all.csv")
    for i in range(4):
        write(f"parts.d/{i}.csv")
        pl.DataFrame(X[5 * i : 5 * i + 5], schema=["x", "y"]).write_csv(
            f"parts.d/{i}.csv"
        )
    one, many = streamed("all.csv"), streamed("parts.d")
    assert (one.name, many.name) == ("all", "parts.d")
    assert one.fingerprint() == many.fingerprint()
    np.testing.assert_array_equal(rows_of(one), rows_of(many))


def test_files_of_a_folder_need_the_same_columns(folder):
    write("s/a.csv", "x,y\n1,2\n")
    write("s/b.csv", "x,z\n1,2\n")
    assert outcome(lambda: streamed("s")) == (
        "s/b.csv: has no column 'y', but s/a.csv has; the files of a folder are one "
        "site and need the same columns"
    )
    write("s/b.csv", "x,a,y\n1,2,3\n")
    assert outcome(lambda: streamed("s")).startswith("s/a.csv: has no column 'a', but")


def test_rows_of_a_folder_are_counted_in_their_file(folder):
    write("s/a.csv", "x\n1\n2\n")
    write("s/b.csv", "x\n1\n\n3\n")
    assert outcome(lambda: streamed("s")).startswith(
        "s/b.csv: column 'x', row 2 has no value (1 row of 3 incomplete); "
    )
    sites = open_sites(["s"], missing="drop", stream=True)
    assert sites.notes == (
        "s: 2 files, taken as one site",
        "s: 1 row of 5 dropped for missing values",
    )


# ------------------------------------------------------------------- what it can say


def test_take_and_columns(folder, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    pl.DataFrame(X, schema=["a", "b", "c"]).write_csv("a.csv")
    monkeypatch.setattr(texts, "BLOCK_BYTES", 256)
    source = streamed("a.csv")
    for size in (0, 1, 7, 50):
        index = np.sort(rng.choice(50, size, replace=False))
        np.testing.assert_array_equal(source.take(index), X[index])
    places = np.array([2, 0])
    np.testing.assert_array_equal(rows_of(source, 4, places), X[:, places])


def test_medians_of_all_rows_or_of_a_sample(folder, monkeypatch, seed):
    X = np.random.default_rng(seed).normal([0, 50], [1, 10], size=(4000, 2))
    pl.DataFrame(X, schema=["a", "b"]).write_parquet("a.parquet")
    source = streamed("a.parquet")
    np.testing.assert_array_equal(source.medians(), np.median(X, axis=0))
    monkeypatch.setattr(stream, "MEDIAN_ROWS", 1000)
    # The standard error of a median of 1000 is 1.25 / sqrt(1000) deviations.
    off = np.abs(source.medians() - np.median(X, axis=0)) / [1, 10]
    assert 0 < off.max() < 5 * 1.25 / np.sqrt(1000)


def test_a_file_that_changes_is_noticed(folder):
    path = write("a.csv")
    source = streamed(path)
    write("a.csv", ROWS + "5,6\n")
    changed = "a.csv: changed while it was read; start again"
    assert outcome(lambda: rows_of(source)) == changed
    assert outcome(lambda: source.take(np.array([0]))) == changed
    # With the times of before, its length still tells; and if not, its rows do.
    source._stamps = stream._stamps(source._site)
    assert outcome(lambda: rows_of(source)) == changed


def test_too_few_rows(folder):
    path = write("a.csv", "x\n1\nNA\n3\n")
    assert outcome(lambda: streamed(path, missing="drop", min_rows=3)) == (
        "a.csv: 2 rows, but a site needs at least 3; add rows, lower --min-cell, or "
        "leave the site out"
    )
    write("b.csv", "x,gone\n1,\n2,\n")
    assert outcome(lambda: streamed("b.csv", missing="drop")) == (
        "b.csv: every row has a missing value, so no row is left; leave the emptiest "
        "column out with --drop gone"
    )


# --------------------------------------------------------------------- when it streams


def test_large_sites_are_streamed_by_themselves(folder, monkeypatch):
    paths = [write("a.csv"), write("b.csv")]
    assert [s.streamed for s in open_sites(paths).tables] == [False, False]
    monkeypatch.setattr(sites_module, "STREAM_ABOVE", 2 * len(ROWS) - 1)
    assert [s.streamed for s in open_sites(paths).tables] == [True, True]
    assert not open_sites(paths, stream=False).tables[0].streamed
    assert not open_sites(paths[:1]).tables[0].streamed


def test_what_needs_all_rows_is_not_streamed(folder, monkeypatch):
    path = write("a.csv")
    monkeypatch.setattr(sites_module, "STREAM_ABOVE", 1)
    sites = open_sites([path], whole="level dp(8)")
    assert not sites.tables[0].streamed
    assert sites.notes == (
        "about 0.0 GB are read into memory: level dp(8) needs all rows there",
    )
    assert outcome(lambda: open_sites([path], stream=True, whole="level dp(8)")) == (
        "--stream: level dp(8) needs all rows in memory; leave --stream out"
    )


def test_sizes(folder):
    pl.DataFrame({"x": [1, 2, 3], "y": [4, 5, 6]}).write_parquet("a.parquet")
    assert sites_module.size_in_memory(Path("a.parquet")) == 3 * 2 * 8
    assert sites_module.size_in_memory(write("a.csv")) == len(ROWS)
    packed = write("a.csv.gz")
    assert sites_module.size_in_memory(packed) == 4 * packed.stat().st_size


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_no_more_than_a_few_parts_are_held(folder, monkeypatch, seed, name):
    X = np.random.default_rng(seed).normal(size=(60_000, 4))
    rows = pl.DataFrame(X, schema=list("abcd"))
    (rows.write_parquet if name == "a.parquet" else rows.write_csv)(name)
    monkeypatch.setattr(parquet, "BATCH", 1 << 12)
    monkeypatch.setattr(texts, "BLOCK_BYTES", 1 << 15)
    source = streamed(name)
    tracemalloc.start()
    total = sum(part.shape[0] for part in source.parts(1024))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 60_000
    assert held < X.nbytes / 4


def test_files_that_take_much_memory_even_in_parts_say_so(folder, monkeypatch):
    table = pa.table({f"x{i}": np.arange(900.0) for i in range(8)})
    pq.write_table(table, "a.parquet")
    assert streamed("a.parquet").notes == ()
    monkeypatch.setattr(stream, "MUCH", 10_000)
    assert streamed("a.parquet").notes == (
        "a.parquet: reading 8 columns side by side may take 0.0 GB; row groups of "
        "8,192 rows would take less",
    )
    assert streamed("a.parquet", columns=["x3"]).notes != ()
