# SPDX-License-Identifier: Apache-2.0
"""Runs published beside the pages: they stand in for what was not made here."""

from __future__ import annotations

import shutil
from functools import partial

import polars as pl
import pytest

from afcl.exceptions import InputError
from afcl_bench.frame import SCHEMA, frame_of, row_of
from afcl_bench.kept import keep, with_kept
from afcl_bench.published import KEPT, not_kept
from afcl_bench.report import keep_runs, renew, write_reports
from afcl_bench.spec import parse_spec
from afcl_bench.store import CAPPED, DONE
from afcl_bench.tables import Table

TEXT = """
title = "Tiny"
blocks = ["scores", "capped"]
runs = 2

[[grid]]
group = "own"
datasets = ["iris"]
methods = ["afcl"]

[[grid]]
group = "told, twice"
datasets = ["iris"]
methods = ["k-fed"]
options = { n_clusters = 2, max_rounds = [3, 7] }
"""
SPEC = parse_spec("tiny", TEXT)
FACTS = ("k", "rounds", "bytes", "messages", "most_messages", "seconds", "cpu_seconds")
SCALARS = [name for name, kind in SCHEMA.items() if kind != pl.Object]


def row(cell, sc=0.123456789, **given):
    numbers = dict.fromkeys(FACTS, 2.0)
    return row_of(
        cell, DONE, reason="", k_true=3, sc=sc, ari=0.5, clients=5, **numbers, **given
    )


def made(*positions, sc=0.123456789):
    return frame_of(row(SPEC.cells[i], sc) for i in positions)


def same(one, other):
    return one.select(SCALARS).equals(other.select(SCALARS))


def test_what_was_kept_comes_back(tmp_path):
    capped = row_of(SPEC.cells[5], CAPPED, reason='its time, "60", was up', k_true=0)
    frame = frame_of([*(row(cell, 0.5) for cell in SPEC.cells[:5]), capped])
    keep(SPEC, frame, tmp_path)
    back = with_kept(SPEC, frame_of([]), tmp_path)
    assert same(back, frame)
    assert back.schema == frame.schema
    assert back["labels"].to_list() == [None] * 6


def test_the_same_runs_are_the_same_bytes_and_rounded(tmp_path):
    keep(SPEC, made(0, 1), tmp_path)
    path = tmp_path / "runs" / "tiny.csv.gz"
    before = path.read_bytes()
    keep(SPEC, made(0, 1, sc=0.1234568), tmp_path)
    assert path.read_bytes() == before
    assert with_kept(SPEC, frame_of([]), tmp_path)["sc"].to_list() == [0.123457] * 2


def test_a_run_made_here_counts_and_the_order_is_the_specs(tmp_path):
    keep(SPEC, made(0, 3, 5, sc=0.1), tmp_path)
    whole = with_kept(SPEC, made(5, 1, sc=0.9), tmp_path)
    assert whole["sc"].to_list() == [0.1, 0.9, 0.1, 0.9]
    seeds = [SPEC.cells[i].seed for i in (0, 1, 3, 5)]
    assert whole["seed"].to_list() == seeds


def test_what_the_spec_does_not_have_any_more_is_left_out(tmp_path):
    keep(SPEC, made(*range(6)), tmp_path)
    fewer = parse_spec("tiny", TEXT.replace("[3, 7]", "7"))
    assert with_kept(fewer, frame_of([]), tmp_path).height == 4


def test_tables_that_need_arrays_are_not_made_of_what_is_kept(tmp_path):
    keep(SPEC, made(0, 1), tmp_path)
    needs = parse_spec("tiny", TEXT.replace('"capped"', '"sites"'))
    assert with_kept(needs, frame_of([]), tmp_path).height == 0
    keep(needs, made(0), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_nothing_kept_changes_nothing(tmp_path):
    frame = made(0)
    assert with_kept(SPEC, frame, tmp_path) is frame


def test_a_damaged_file_is_named(tmp_path):
    keep(SPEC, made(0), tmp_path)
    path = tmp_path / "runs" / "tiny.csv.gz"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"tiny\.csv\.gz is damaged .*: restore it"):
        with_kept(SPEC, frame_of([]), tmp_path)


def test_a_report_fills_in_and_keeps(tmp_path, monkeypatch):
    """Half of the runs here, the other half beside the pages: the page has all."""
    root, pages = tmp_path / "runs", tmp_path / "pages"
    (root / "specs").mkdir(parents=True)
    (root / "specs" / "tiny.toml").write_text(TEXT)
    pages.mkdir()
    (pages / "tiny.md").write_text("<!-- bench: scores -->\n<!-- /bench -->\n")
    own = {"frame": made(*range(6))}
    monkeypatch.setattr("afcl_bench.report.collect", lambda *_: own["frame"])

    def report():
        (said,) = write_reports(root, None, tmp_path / "out", pages=pages)
        assert said.startswith("tiny: 6 of 6 runs")
        return (pages / "tiny.md").read_text()

    whole = report()
    own["frame"] = made(0, 1)
    assert report() == whole
    shutil.rmtree(pages / KEPT)
    own["frame"] = made(0, 1)
    assert "2 of 6" in next(write_reports(root, None, tmp_path / "out", pages=pages))


def nobody(run):
    """Stand for a folder in which nothing has been run."""


def test_what_is_published_need_not_be_made(tmp_path):
    assert not_kept(SPEC, SPEC.cells, tmp_path, nobody) == list(SPEC.cells)
    keep(SPEC, made(0, 3), tmp_path)
    rest = [SPEC.cells[i] for i in (1, 2, 4, 5)]
    assert not_kept(SPEC, SPEC.cells, tmp_path, nobody) == rest
    assert not_kept(SPEC, [SPEC.cells[3]], tmp_path, nobody) == []


def test_what_failed_is_made_again_if_asked(tmp_path):
    lost = row_of(SPEC.cells[1], CAPPED, reason="its time was up", k_true=0)
    keep(SPEC, frame_of([row(SPEC.cells[0]), lost]), tmp_path)
    both = SPEC.cells[:2]
    assert not_kept(SPEC, both, tmp_path, nobody) == []
    assert not_kept(SPEC, both, tmp_path, nobody, retry=True) == [SPEC.cells[1]]


TELLING = parse_spec(
    "telling",
    """
blocks = ["scores"]
runs = 2

[[grid]]
datasets = ["iris"]
methods = ["afcl"]

[[grid]]
group = "told"
datasets = ["iris"]
methods = ["k-fed"]
options = { n_clusters = "learned" }
""",
)


def test_a_rival_that_was_told_another_k_is_run_again(tmp_path):
    """Its run was published beside a k' that is not today's."""
    keep(TELLING, frame_of(map(row, TELLING.cells)), tmp_path)
    ours = frame_of([{**row(TELLING.cells[0]), "k": 3.0}, row(TELLING.cells[1])])
    whole = with_kept(TELLING, ours, tmp_path)
    assert whole.select("method", "seed").rows() == [
        ("afcl", 0), ("afcl", 1), ("k-fed", 1)
    ]  # fmt: skip

    def learned(run):
        return {0: 3, 1: 2}[run.seed]

    assert not_kept(TELLING, TELLING.cells, tmp_path, nobody) == []
    again = not_kept(TELLING, TELLING.cells, tmp_path, learned)
    assert again == [TELLING.cells[2]]
    # Told a k' that nothing published says.
    keep(TELLING, frame_of(map(row, TELLING.cells[2:])), tmp_path)
    assert not_kept(TELLING, TELLING.cells[2:], tmp_path, learned) == [
        *TELLING.cells[2:]
    ]


def test_nothing_is_published_of_nothing_nor_into_nowhere(tmp_path):
    keep(SPEC, frame_of([]), tmp_path)
    assert not list(tmp_path.iterdir())
    for publish in (keep_runs, partial(write_reports, out=tmp_path)):
        with pytest.raises(InputError, match=r"no folder .*nowhere: give the one"):
            list(publish(tmp_path, None, pages=tmp_path / "nowhere"))


def test_a_grid_grows_before_its_page_is_renewed(tmp_path, monkeypatch):
    root, pages = tmp_path / "runs", tmp_path / "pages"
    (root / "specs").mkdir(parents=True)
    (root / "specs" / "tiny.toml").write_text(TEXT)
    (root / "specs" / "whole.toml").write_text(TEXT.replace('"capped"', '"sites"'))
    pages.mkdir()
    (pages / "tiny.md").write_text(PAGE := "<!-- bench: scores -->\n<!-- /bench -->\n")
    for positions, count in (((0, 1), 2), ((1, 4), 3)):
        frame = made(*positions)
        monkeypatch.setattr("afcl_bench.report.collect", lambda *_, f=frame: f)
        tiny, whole = keep_runs(root, None, pages)
        assert tiny == f"tiny: {count} of 6 runs kept"
        assert whole.startswith("whole: its tables need whole runs")
    assert (pages / "tiny.md").read_text() == PAGE
    assert [path.name for path in (pages / "runs").iterdir()] == ["tiny.csv.gz"]


def test_a_place_for_what_is_not_made_is_refused(tmp_path):
    page = tmp_path / "tiny.md"
    page.write_text("<!-- bench: scors -->\n<!-- /bench -->\n")
    tables = [Table("scores", "All.", ("data",), (("iris",),))]
    with pytest.raises(InputError, match=r"a place for scors, .* choose from scores"):
        renew(page, tables, tmp_path)
    page.write_text("No place.\n")
    assert renew(page, tables, tmp_path) == ["scores"]
    assert page.read_text() == "No place.\n"
