# SPDX-License-Identifier: Apache-2.0
"""Reports from stored runs: the files, the same bytes twice, pages renewed in place."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.metrics import adjusted_rand, silhouette
from afcl_bench import measures
from afcl_bench.datasets import load
from afcl_bench.execute import dataset, work
from afcl_bench.figures import Figure
from afcl_bench.frame import FACTS, collect
from afcl_bench.measures import MEASURES, SCORES, Scores
from afcl_bench.plots import panels
from afcl_bench.report import BLOCKS, runs_csv, write_reports
from afcl_bench.runner import resolve
from afcl_bench.settings import scaled
from afcl_bench.spec import find_spec, parse_spec, spec_names
from afcl_bench.store import CAPPED, Record, Store
from afcl_bench.tables import Table

#: AFCL finds 2 clusters in iris, so that the two grids of k-fed share runs; the last
#: one has no answer.
TEXT = """
title = "Tiny"
blocks = ["scores", "capped", "convergence", "convergence-plot"]
runs = 2
split = "iid:2"
participation = "always"
trace = true

[[grid]]
group = "own"
datasets = ["iris", "spots"]
methods = ["afcl"]

[[grid]]
group = "told"
datasets = ["iris"]
methods = ["k-fed"]
options = { n_clusters = [2, "learned"] }

[[grid]]
group = "failing"
datasets = ["iris"]
methods = ["k-fed"]
runs = 1
"""

#: The same without a figure, which takes long to draw.
PLAIN = TEXT.replace(', "convergence-plot"', "")


def write_spots(folder, shift: float = 0.0) -> None:
    folder.mkdir(exist_ok=True)
    rows = np.repeat([[0, 0], [9, 9], [0, 9]], 20, axis=0) + np.arange(60)[:, None] / 99
    lines = [f"{x + shift},{y},{i // 20}" for i, (x, y) in enumerate(rows)]
    (folder / "spots.csv").write_text("\n".join(["x,y,class", *lines]) + "\n")


def make(spec, root, folder) -> None:
    """Make all runs here, without worker processes."""
    store = Store(root)
    (root / "specs").mkdir(parents=True, exist_ok=True)
    (root / "specs" / f"{spec.name}.toml").write_text(spec.text)
    for cell in spec.cells:
        run = resolve(cell, store, folder)
        assert run is not None
        if not store.has(run):
            work(root, run, folder, cell.trace, 900.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with runs, and the folder with its data."""
    dataset.cache_clear()
    folder = tmp_path_factory.mktemp("data")
    write_spots(folder)
    root = tmp_path_factory.mktemp("runs")
    make(parse_spec("tiny", TEXT), root, folder)
    return root, folder


@pytest.fixture
def runs(made, tmp_path):
    """A copy to be changed, of which no figure is drawn."""
    root, folder = made
    shutil.copytree(root, tmp_path / "runs")
    (tmp_path / "runs" / "specs" / "tiny.toml").write_text(PLAIN)
    return tmp_path / "runs", folder


@pytest.fixture(scope="module")
def reported(made, tmp_path_factory):
    """A report of everything, and what was said."""
    out = tmp_path_factory.mktemp("report")
    root, folder = made
    return out, report(root, folder, out)


def report(root, folder, out, **options) -> list[str]:
    return list(write_reports(root, folder, out, **options))


# ------------------------------------------------------------------ files


def test_every_table_and_figure_is_written(reported):
    out, said = reported
    assert said == [f"tiny: 9 of 9 runs, in {out / 'tiny'}"]
    assert sorted(p.name for p in (out / "tiny").iterdir()) == [
        "capped.csv",
        "capped.tex",
        "convergence-plot.pdf",
        "convergence-plot.png",
        "convergence-plot.svg",
        "convergence.csv",
        "convergence.tex",
        "report.md",
        "runs.csv",
        "scores.csv",
        "scores.tex",
    ]
    page = (out / "tiny" / "report.md").read_text()
    assert page.startswith("# Tiny\n\nAll runs: ")
    assert "| iris | afcl |  | iid:2 | always | 2 of 2 | 2.000 ± 0.00 |" in page
    assert "![convergence-plot](convergence-plot.png)" in page
    assert "Runs without an answer: 1 of 9." in page
    png = (out / "tiny" / "convergence-plot.png").read_bytes()
    assert png.startswith(b"\x89PNG")


def test_the_same_runs_are_the_same_bytes(made, reported, tmp_path):
    root, folder = made
    report(root, folder, tmp_path)
    one, two = (
        {p.name: p.read_bytes() for p in (out / "tiny").iterdir()}
        for out in (reported[0], tmp_path)
    )
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_every_run_is_listed_with_its_scores(reported):
    with (reported[0] / "tiny" / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    assert set(rows[0]) == {
        *("group", "dataset", "method", "options", "split", "participation", "seed"),
        *("status", "k_true", *FACTS, *MEASURES),
    }
    (own,) = [r for r in rows if (r["dataset"], r["seed"]) == ("spots", "1")]
    assert (own["k"], own["k_true"], own["status"]) == ("3", "3", "done")
    assert float(own["ari"]) == 1.0
    (lost,) = [r for r in rows if r["status"] == "failed"]
    assert (lost["sc"], lost["k"], lost["seconds"]) == ("", "", "")
    told = [r for r in rows if r["group"] == "told"]
    assert {r["options"] for r in told} == {"n_clusters = 2", "n_clusters = learned"}
    # What was learned is what was told: one run, listed for both cells.
    assert [r["sc"] for r in told[:2]] == [r["sc"] for r in told[2:]]


def test_scores_are_those_of_the_stored_labels(made):
    root, folder = made
    spec = parse_spec("tiny", TEXT)
    rows = collect(spec, root, folder)
    where = [(cell.dataset, cell.method, cell.seed) for cell in spec.cells]
    assert rows.select("dataset", "method", "seed").rows() == where
    data, first = load("iris"), rows.row(0, named=True)
    run = resolve(spec.cells[0], Store(root), folder)
    assert run is not None
    record = Store(root).read(run)
    assert record is not None
    assert record.labels is not None
    assert first["sc"] == pytest.approx(silhouette(scaled(data.X), record.labels))
    assert first["ari"] == adjusted_rand(data.y, record.labels)
    assert all(first[name] == record.facts[name] for name in FACTS)
    assert first["trace"] == record.trace
    assert np.array_equal(first["centers"], record.arrays["centers"])
    assert (first["k_true"], first["status"], first["reason"]) == (3, "done", "")


def test_a_second_report_measures_nothing(runs, tmp_path, monkeypatch):
    root, folder = runs
    report(root, folder, tmp_path / "out")
    known = (root / SCORES).read_text()

    def refuse(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(measures, "_measured", refuse)
    report(root, folder, tmp_path / "again")
    assert (root / SCORES).read_text() == known
    # Two runs of a set that found the same have one line.
    keys = [json.loads(line)["key"] for line in known.splitlines()]
    assert len(set(keys)) == len(keys) < 8


def test_drawn_sets_are_scored_seed_by_seed(tmp_path):
    text = 'runs = 2\nsplit = "iid:2"\n[[grid]]\ndatasets = ["gaussians:90:2:3"]\n'
    spec = parse_spec("drawn", text + 'methods = ["afcl"]\n')
    make(spec, tmp_path, None)
    rows = collect(spec, tmp_path, None)
    assert rows["seed"].to_list() == [0, 1]
    assert len(Scores(tmp_path).known) == 2


# ------------------------------------------------------------------ unfinished


def test_an_unfinished_grid_is_reported_as_far_as_it_is(runs, tmp_path):
    root, folder = runs
    shutil.rmtree(root / "runs" / "iris" / "afcl")
    (root / "runs" / "spots" / "afcl" / "as-is" / "iid~2" / "always" / "0.npz").unlink()
    # Without AFCL's runs, what learned from them is not known either.
    (said,) = report(root, folder, tmp_path / "out")
    assert said.startswith("tiny: 4 of 9 runs")


def test_a_run_that_met_its_cap_is_a_row_without_scores(runs, tmp_path):
    root, folder = runs
    spec = parse_spec("tiny", TEXT)
    run = resolve(spec.cells[0], Store(root), folder)
    assert run is not None
    Store(root).write(Record(run, CAPPED, {"reason": "stopped after 1 s", "cap": 1.0}))
    rows = collect(spec, root, folder)
    first = rows.row(0, named=True)
    assert (first["status"], first["reason"]) == (CAPPED, "stopped after 1 s")
    assert {first[name] for name in MEASURES} == {None}
    assert ",capped," in runs_csv(rows)


def test_changed_data_are_refused(runs, tmp_path):
    root, _ = runs
    write_spots(tmp_path / "changed", shift=0.5)
    dataset.cache_clear()
    with pytest.raises(InputError) as caught:
        report(root, tmp_path / "changed", tmp_path / "out")
    message = str(caught.value)
    assert message.startswith("spots is not what the stored runs were made on")
    assert "\n" not in message
    dataset.cache_clear()


def test_data_that_are_gone_are_said(runs, tmp_path):
    root, _ = runs
    dataset.cache_clear()
    with pytest.raises(InputError, match="unknown dataset 'spots'"):
        report(root, None, tmp_path / "out")


def test_a_damaged_run_is_named(runs, tmp_path):
    root, folder = runs
    path = next((root / "runs" / "spots").rglob("1.npz"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="1.npz is damaged"):
        report(root, folder, tmp_path / "out")


# ------------------------------------------------------------------ which specs


def test_a_folder_without_a_benchmark_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="holds no benchmark: make one with"):
            report(folder, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_spec_without_a_run_is_refused(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "tiny.toml").write_text(TEXT)
    with pytest.raises(InputError, match="holds no run of tiny"):
        report(tmp_path, None, tmp_path / "out")


def test_one_spec_or_all_of_them(runs, tmp_path):
    root, folder = runs
    text = PLAIN.replace('["scores", "capped", "convergence"]', "[]")
    (root / "specs" / "bare.toml").write_text(text)
    said = report(root, folder, tmp_path / "out")
    assert [line.split(":")[0] for line in said] == ["bare", "tiny"]
    (line,) = report(root, folder, tmp_path / "one", only="bare")
    assert line.startswith("bare: 9 of 9 runs")
    files = sorted(p.name for p in (tmp_path / "one" / "bare").iterdir())
    assert files == ["report.md", "runs.csv"]
    with pytest.raises(InputError, match="holds no runs of 'other'; .* bare, tiny"):
        report(root, folder, tmp_path / "out", only="other")


def test_a_spec_that_has_no_run_yet_does_not_hide_the_others(runs, tmp_path):
    """The benchmark was interrupted before the first run of a second spec."""
    root, folder = runs
    other = PLAIN.replace('"iris", "spots"', '"wine"').replace('"iris"', '"wine"')
    (root / "specs" / "another.toml").write_text(other)
    (root / "specs" / "zero.toml").write_text(other)
    said = report(root, folder, tmp_path / "out")
    assert any(line.startswith("tiny: 9 of 9 runs") for line in said)
    assert (tmp_path / "out" / "tiny" / "report.md").is_file()
    with pytest.raises(InputError, match="holds no run of zero"):
        report(root, folder, tmp_path / "out", only="zero")


def test_an_unknown_block_is_refused_with_those_there_are(runs, tmp_path):
    root, folder = runs
    text = PLAIN.replace('"scores", "capped"', '"scorse", "caped"')
    (root / "specs" / "tiny.toml").write_text(text)
    with pytest.raises(InputError, match="unknown blocks scorse, caped; .*asynchrony"):
        report(root, folder, tmp_path / "out")


# ------------------------------------------------------------------ pages

PAGE = """# Words stay

<!-- bench: scores -->
old
<!-- /bench -->
In between, <!-- bench: other --> stays.

<!-- bench: convergence-plot -->
<!-- /bench -->

The end, with \\1 and \\g<0>.
"""


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures that take no time."""

    def write(figure, folder):
        (folder / f"{figure.name}.png").write_text(f"a picture of {figure.name}")

    monkeypatch.setattr(Figure, "write", write)


@pytest.mark.usefixtures("undrawn")
def test_pages_are_renewed_between_their_marks(made, tmp_path):
    root, folder = made
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "tiny.md").write_text(PAGE)
    (pages / "other.md").write_text(PAGE)
    (said,) = report(root, folder, tmp_path / "out", pages=pages)
    assert said.endswith(
        f" and {pages / 'tiny.md'} (no place there for capped, convergence)"
    )
    text = (pages / "tiny.md").read_text()
    report_text = (tmp_path / "out" / "tiny" / "report.md").read_text()
    table = report_text.split("\n\nRuns without")[0].split("# Tiny\n\n")[1]
    head, rest = text.split("<!-- bench: scores -->\n")
    assert head == "# Words stay\n\n"
    inside, rest = rest.split("<!-- /bench -->", 1)
    assert inside.strip() == table.strip()
    assert rest.startswith("\nIn between, <!-- bench: other --> stays.\n")
    assert "![convergence-plot](convergence-plot.png)" in text
    assert text.endswith(PAGE[PAGE.index("The end") :])
    assert (pages / "other.md").read_text() == PAGE
    drawn = (pages / "convergence-plot.png").read_text()
    assert drawn == "a picture of convergence-plot"
    # Once more: nothing changes.
    report(root, folder, tmp_path / "out", pages=pages)
    assert (pages / "tiny.md").read_text() == text


@pytest.mark.usefixtures("undrawn")
def test_a_page_gets_the_pictures_it_shows_and_no_others(made, tmp_path):
    root, folder = made
    (tmp_path / "tiny.md").write_text("<!-- bench: scores -->\n<!-- /bench -->\n")
    report(root, folder, tmp_path / "out", pages=tmp_path)
    assert list(tmp_path.glob("*.png")) == []


def test_without_its_page_nothing_is_renewed(runs, tmp_path):
    (tmp_path / "pages").mkdir()
    root, folder = runs
    (said,) = report(root, folder, tmp_path / "out", pages=tmp_path / "pages")
    assert " and " not in said
    assert list((tmp_path / "pages").iterdir()) == []


# ------------------------------------------------------------------ figures


def test_a_figure_is_written_in_three_forms(tmp_path):
    def draw():
        figure, places = panels(2, 1)
        places[0][1].plot([1, 2], [3, 4], label="a")
        return figure

    paths = Figure("lines", "Two lines.", draw).write(tmp_path)
    assert [p.name for p in paths] == ["lines.png", "lines.svg", "lines.pdf"]
    first = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in Figure("lines", "", draw).write(tmp_path)] == first
    assert b"<svg" in first[1]
    assert first[2].startswith(b"%PDF")


def test_every_block_is_asked_for_by_a_spec_that_ships():
    asked = {block for name in spec_names() for block in find_spec(name).blocks}
    assert set(BLOCKS) - asked == {"scores"}


def test_tables_can_be_read_back(made, reported):
    root, folder = made
    path = reported[0] / "tiny" / "scores.csv"
    with path.open() as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["data", "method"]
    assert {len(row) for row in rows} == {len(header)}
    rows_of = collect(parse_spec("tiny", TEXT), root, folder)
    (table,) = BLOCKS["scores"](rows_of)
    assert isinstance(table, Table)
    assert table.csv() == path.read_text()
