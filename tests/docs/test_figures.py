# SPDX-License-Identifier: Apache-2.0
"""Figures quoted in prose are those of the tables they come from (decision 0052)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs import figures
from tests.docs.figures import (
    Grid,
    Stale,
    cells_at,
    check,
    marks,
    numbers,
    table_of,
    unmarked,
)

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", ROOT / "docs" / "paper.md", *sorted(RESULTS.glob("*.md"))]
#: Levels of a test; everything else has a table.
ALLOWED = frozenset({".05", ".1"})


def prose_of(path: Path) -> str:
    """Return the part of a page whose figures must say where they are from.

    The five-minute page as far as its list of pages, and of every page that `bench
    report` renews what it shows.
    """
    text = path.read_text(encoding="utf-8")
    if path == RESULTS / "README.md":
        begin, end = text.index("## In five minutes"), text.index("| page |")
        return text[begin:end]
    shown = re.search(r"^## What it shows\n(.*?)^## ", text, re.S | re.M)
    return shown[1] if shown and "<!-- bench: " in text else ""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_marked_figures_are_those_of_their_tables(path):
    for source, figure in marks(path.read_text(encoding="utf-8")):
        where, row, column = (part.strip() for part in source.split(" :: "))
        name, _, table = where.partition("#")
        page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
        try:
            check(figure, row, column, table_of(page, table))
        except Stale as stale:
            pytest.fail(f"{figure} of {source}: {stale}")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_figures_say_where_they_are_from(path):
    assert unmarked(prose_of(path), ALLOWED) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_would_not_cut_a_cell_of_a_table(path):
    assert not [s for s, _ in marks(path.read_text(encoding="utf-8")) if "|" in s]


def test_figures_are_quoted_at_all():
    # Were the patterns to find nothing, everything above would pass.
    assert len(marks((RESULTS / "README.md").read_text(encoding="utf-8"))) > 10
    assert len([path for path in PAGES if prose_of(path)]) > 10


# ------------------------------------------------------------------ the checker

PAGE = """# Page
## Some figures
| data | method | SC | all of it |
| --- | --- | --- | --- |
| IR | afcl | **0.629** ± 0.01 | yes |
| IR | dk++ | -0.250 (14) | **no** |
| SE | afcl | 1,641 | yes |

<!-- bench: other -->

| method | k |
| --- | --- |
| afcl | 0.88 / 0.93 |

<!-- /bench -->
"""


def test_a_table_is_found_by_block_or_heading():
    assert table_of(PAGE, "other") == Grid(["method", "k"], [["afcl", "0.88 / 0.93"]])
    assert len(table_of(PAGE, "some-figures").rows) == 3
    with pytest.raises(Stale, match="neither a block nor a heading"):
        table_of(PAGE, "third")
    with pytest.raises(Stale, match="no table"):
        table_of("## Empty\n", "empty")


def test_rows_and_columns_by_name():
    grid = table_of(PAGE, "some-figures")
    assert cells_at(grid, "IR, dk++", "SC") == ["-0.250 (14)"]
    assert cells_at(grid, "min", "SC") == ["0.629 ± 0.01", "-0.250 (14)", "1,641"]
    for row, column in (("LI", "SC"), ("IR", "CH")):
        with pytest.raises(Stale, match="there is no"):
            cells_at(grid, row, column)


@pytest.mark.parametrize(
    ("figure", "row", "column"),
    [
        (".629", "IR, afcl", "SC"),
        (".63", "IR, afcl", "SC"),
        ("0.629 ± 0.01", "IR, afcl", "SC"),
        ("−.25", "IR, dk++", "SC"),
        ("1,641", "SE", "SC"),
        ("1641", "max", "SC"),
        ("−.25", "min", "SC"),
        ("2", "count yes", "all of it"),
        ("2 of 3", "count yes", "all of it"),
    ],
)
def test_figures_that_hold(figure, row, column):
    check(figure, row, column, table_of(PAGE, "some-figures"))


@pytest.mark.parametrize(
    ("figure", "row", "column"),
    [
        (".628", "IR, afcl", "SC"),
        (".62", "IR, afcl", "SC"),
        (".25", "IR, dk++", "SC"),
        (".629", "max", "SC"),
        ("1", "count yes", "all of it"),
        ("3 of 3", "count yes", "all of it"),
        ("some", "IR, afcl", "SC"),
        ("", "IR, afcl", "SC"),
    ],
)
def test_figures_that_are_stale(figure, row, column):
    with pytest.raises(Stale):
        check(figure, row, column, table_of(PAGE, "some-figures"))


def test_every_figure_of_a_cell_may_be_quoted():
    grid = table_of(PAGE, "other")
    check(".88", "afcl", "k", grid)
    check(".93", "afcl", "k", grid)


def test_the_mean_of_a_row():
    grid = Grid(["method", "a", "b"], [["afcl", "0.2", "0.4 (3)"]])
    check(".3", "afcl", "mean", grid)


def test_numbers_as_pages_write_them():
    assert numbers("−.91 to 8,402, 20 % and k") == [-0.91, 8402.0, 20.0]


def test_what_has_to_be_marked():
    prose = (
        "From −.25 to 2.19, in 10 of 13; `.5` is code, [a link](a.b), version 1.2.3 "
        "and k = 4 are none. <!-- from: a#b :: c :: d -->.875<!-- /from --> is marked."
    )
    assert unmarked(prose) == ["−.25", "2.19", "10 of 13"]
    assert unmarked(prose, frozenset({"2.19"})) == ["−.25", "10 of 13"]
    assert marks(prose) == [("a#b :: c :: d", ".875")]


def test_the_form_is_the_one_the_docstring_shows():
    source, figure = marks(figures.__doc__ or "")[0]
    assert (source, figure) == ("paper-tables#honest-sc :: afcl :: rank", "2.19")
