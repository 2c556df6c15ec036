# SPDX-License-Identifier: Apache-2.0
"""Tables and figures from frames made by hand: what is counted, and how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl.exceptions import InputError
from afcl_bench import blocks_honest, blocks_more, blocks_paper
from afcl_bench.blocks_more import arrivals
from afcl_bench.blocks_paper import plain, published, selected
from afcl_bench.counting import SIX, contenders, counted, ranked, score_table, seven
from afcl_bench.figures import Figure
from afcl_bench.frame import frame_of, kinds, parts, row_of, values
from afcl_bench.measures import MEASURES
from afcl_bench.report import BLOCKS
from afcl_bench.spec import Cell, find_spec, spec_names
from afcl_bench.store import CAPPED, DONE, FAILED
from afcl_bench.tables import NONE, Table

Row = dict[str, Any]
UNKNOWN, KNOWN, LEARNED = "unknown k", "given k*", "given AFCL's k'"


def cell(dataset: str = "SD1", method: str = "afcl", **changes) -> Cell:
    base: dict[str, Any] = {
        "group": "",
        "options": (),
        "split": "kmeans:5",
        "participation": "random",
        "seed": 0,
    }
    return Cell(dataset=dataset, method=method, **{**base, **changes})


def done(
    where: Cell, sc: float = 0.5, k: int = 4, k_true: int = 4, trace=None, **found
) -> Row:
    """An answer; every score is `sc` unless it is given."""
    facts = {
        "rounds": 3,
        "bytes": 1000,
        "messages": 9,
        "most_messages": 3,
        "seconds": 2.0,
        "cpu_seconds": 1.0,
    }
    given = {**facts, **dict.fromkeys(MEASURES, sc), **found}
    return row_of(where, DONE, reason="", k=k, k_true=k_true, trace=trace, **given)


def collapsed(where: Cell, **found) -> Row:
    """One cluster, as the measures score it."""
    nothing = {"sc": -1.0, "sc2": -1.0, "ch": None, "db": None, "ari": 0.0, "nmi": 0.0}
    return done(where, k=1, **{**nothing, **found})


def lost(where: Cell, status: str = CAPPED, reason: str = "stopped after 60 s") -> Row:
    return row_of(where, status, reason=reason, k_true=0)


def frame(*rows: Row) -> pl.DataFrame:
    return frame_of(rows)


def only(found: Iterator[Any]) -> Table:
    (table,) = found
    assert isinstance(table, Table)
    return table


def called(name: str, found: Iterator[Any]) -> Table:
    (table,) = [t for t in found if t.name == name]
    assert isinstance(table, Table)
    return table


# ------------------------------------------------------------------ frames


def test_a_row_has_facts_scores_and_options():
    row = frame(done(cell(options=(("n_seeds", "n/64"), ("max_rounds", 8))), ch=None))
    assert row.select("k", "sc", "ch").row(0) == (4.0, 0.5, None)
    assert row.select("n_seeds", "max_rounds", "privacy").row(0) == ("n/64", "8", None)
    assert row["options"].item() == "n_seeds = n/64, max_rounds = 8"


def test_rows_are_grouped_in_their_order():
    rows = frame(
        done(cell("B", "m")),
        done(cell("A", "n", seed=1)),
        done(cell("B", "n", group="g")),
    )
    assert kinds(rows, "dataset") == ["B", "A"]
    assert kinds(rows, "method") == ["m", "n"]
    groups = parts(rows, "dataset")
    assert list(groups) == ["B", "A"]
    assert groups["B"]["method"].to_list() == ["m", "n"]
    assert parts(frame(), "dataset") == {}


def test_a_column_has_nan_where_there_is_nothing():
    rows = frame(done(cell(), sc=0.5), lost(cell(seed=1)), collapsed(cell(seed=2)))
    np.testing.assert_equal(values(rows, "sc"), [0.5, np.nan, -1.0])
    np.testing.assert_equal(values(rows, "ch"), [0.5, np.nan, np.nan])
    assert values(frame(), "sc").shape == (0,)


# ------------------------------------------------------------------ the paper's figures


def test_the_papers_two_tables():
    figures = published()
    assert len(figures) == 182 == 13 * 7 * 2
    assert len({name for name, _, _ in figures}) == 13
    assert {method for _, method, _ in figures} == {*SIX, "afcl-matlab"}
    assert {measure for *_, measure in figures} == {"sc", "ch"}
    assert figures["IR", "afcl-matlab", "sc"] == (0.6386, 0.06)
    assert figures["SD1", "afcl-matlab", "sc"] == (0.9714, 0.00)
    assert figures["SD1", "dk++", "sc"] == (0.5986, 0.18)
    assert figures["SE", "ffcm-avg1", "sc"] == (0.4323, 0.05)
    sc = [mean for (_, _, m), (mean, _) in figures.items() if m == "sc"]
    assert all(-1 <= mean <= 1 for mean in sc)
    ch = [mean for (_, _, m), (mean, _) in figures.items() if m == "ch"]
    assert all(mean > 0 for mean in ch)
    assert all(np.isnan(std) or std >= 0 for _, std in figures.values())


def test_the_papers_sets_are_those_of_the_spec():
    names = {plain(entry.dataset) for entry in find_spec("paper-tables").cells}
    assert {name for name, _, _ in published()} == names


def test_readings_have_the_figures_of_their_set():
    assert (plain("CC:paper"), plain("CC")) == ("CC", "CC")


# ------------------------------------------------------------------ what is counted


def test_all_runs_count_a_collapsed_one_as_the_worst():
    rows = frame(
        done(cell(), sc=0.5, ch=100.0), collapsed(cell(seed=1)), lost(cell(seed=2))
    )
    np.testing.assert_equal(counted(rows, "sc"), [0.5, -1.0, np.nan])
    np.testing.assert_equal(counted(rows, "sc2"), [0.5, -1.0, np.nan])
    np.testing.assert_equal(counted(rows, "ch"), [100.0, 0.0, np.nan])
    np.testing.assert_equal(counted(rows, "k"), [4.0, 1.0, np.nan])


def test_the_printed_table_counts_runs_with_the_right_k():
    exact = [done(cell(seed=s), k=4) for s in (0, 1)]
    others = [done(cell(seed=2), k=5), collapsed(cell(seed=3)), lost(cell(seed=4))]
    assert selected(frame(*exact, *others))["seed"].to_list() == [0, 1]


def test_where_no_run_has_it_those_above_one_count():
    rows = [done(cell(), k=5), done(cell(seed=1), k=2), collapsed(cell(seed=2))]
    assert selected(frame(*rows, lost(cell(seed=3))))["seed"].to_list() == [0, 1]
    assert selected(frame(collapsed(cell()))).height == 0


def test_afcl_as_printed_beside_ours():
    where = {"group": "as printed", "method": "afcl-matlab"}
    rows = frame(
        done(cell("IR", **where), k=3, k_true=3, sc=0.1, sc2=0.6, ch=300.0),
        done(cell("IR", **where, seed=1), k=3, k_true=3, sc=0.3, sc2=0.8, ch=500.0),
        done(cell("IR", **where, seed=2), k=2, k_true=3, sc=0.5, sc2=0.9, ch=900.0),
        collapsed(cell("IR", **where, seed=3), k_true=3),
        done(cell("CC:paper", **where), k=5, k_true=2, sc=0.2, sc2=0.4, ch=50.0),
        done(cell("IR", "afcl", group="unknown k"), sc=0.99),
    )
    table = called("printed", blocks_paper.printed(rows))
    assert table.header[:5] == (
        "data",
        "SC² printed",
        "SC² ours",
        "CH printed",
        "CH ours",
    )
    first, second = table.rows
    assert first == (
        "IR",
        "0.639 ± 0.06",
        "0.700 ± 0.10",
        "310.7",
        "400.0 ± 100.0",
        "2 of 4",
        "-0.025 ± 0.58",
    )
    assert second[0] == "CC:paper"
    assert second[2] == "0.400 ± 0.00"
    assert second[5] == "0 of 1"


def test_what_became_of_all_runs_of_the_published_code():
    where = {"group": "as printed, sixty seeds", "method": "afcl-matlab"}
    kept = {"started_from": 3, "k": 3, "k_true": 3}
    rows = frame(
        done(cell("IR", **where), **kept, sc=0.1, sc2=0.6, ch=300.0),
        done(cell("IR", **where, seed=1), **kept, sc=0.3, sc2=0.8, ch=500.0),
        done(cell("IR", **where, seed=2), k=2, k_true=3, started_from=5, sc=0.8),
        collapsed(cell("IR", **where, seed=3), k_true=3, started_from=4),
        done(cell("IR", "afcl-matlab", group="as printed"), sc=0.99),
    )
    assert only(blocks_paper.printed_shares(rows)).rows == (
        (
            "IR",
            "2 of 4",
            "1 of 4",
            "2 of 4",
            "0.700 ± 0.10",
            "400.0 ± 100.0",
            "0.400 ± 0.29",
        ),
    )


def test_the_rivals_as_printed_beside_ours():
    rows = [done(cell("IR", method, group=KNOWN), sc=0.25) for method in SIX[:-1]]
    rows.append(done(cell("IR", "dk++", group=KNOWN, seed=1), sc=0.75))
    table = called("printed-rivals", blocks_paper.printed(frame(*rows)))
    assert table.header == ("data", *SIX)
    (line,) = table.rows
    printed = published()["IR", "dk++", "sc"][0]
    assert line[:2] == ("IR", f"{printed:.3f} / 0.500")
    assert line[-1].endswith(f" / {NONE}")


def test_the_default_alone():
    rows = frame(
        done(cell("IR"), k=3, k_true=3, sc=0.5, ch=100.0),
        done(cell("IR", seed=1), k=2, k_true=3, sc=0.3, ch=300.0),
        collapsed(cell("IR", seed=2), k_true=3),
        done(cell("IR", "dk++", group=KNOWN), sc=0.9),
    )
    (line,) = only(blocks_paper.default_alone(rows)).rows
    assert line[0] == "IR"
    assert line[1].startswith("-0.067 ± ")  # (0.5 + 0.3 - 1) / 3
    assert line[3].startswith("133.3 ± ")  # (100 + 300 + 0) / 3
    assert line[6:] == ("1-3", "1 of 3", "1 of 3")


def test_the_default_beside_the_printed_figures():
    sc, ch = (published()["IR", "afcl-matlab", m][0] for m in ("sc", "ch"))
    rows = frame(
        done(cell("IR"), sc2=sc, ch=ch / 2, k=3),
        done(cell("IR", seed=1), sc2=sc, ch=ch, k=2),
        done(cell("SD1"), sc2=2.0, ch=1e9),
        done(cell("CC:paper"), sc2=2.0, ch=1e9),
    )
    table = only(blocks_paper.default_squared(rows))
    assert [row[0] for row in table.rows] == ["IR", "SD1", "CC:paper", "holds"]
    assert (table.rows[0][3], table.rows[0][6]) == ("yes", "**no**")
    assert (table.rows[0][7], table.rows[1][7]) == ("2-3", "4")
    # A second reading of a set is no further set.
    assert table.rows[-1] == ("holds", "", "", "2 of 2", "", "", "1 of 2", "")


# ------------------------------------------------------------------ ranks


def test_ranks_by_hand():
    table = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.2]])
    assert ranked(table).tolist() == [(1 + 2.5) / 2, (2 + 1) / 2, (3 + 2.5) / 2]


def test_no_answer_is_the_last_rank():
    """Also where the others are as bad as can be."""
    table = np.array([[0.9, np.nan, -1.0], [-1.0, -1.0, np.nan]])
    assert ranked(table).tolist() == [(1 + 1.5) / 2, (3 + 1.5) / 2, (2 + 3) / 2]
    both = np.array([[0.5, np.nan, np.nan]])
    assert ranked(both).tolist() == [1.0, 2.5, 2.5]
    assert ranked(np.full((2, 2), np.nan)).tolist() == [1.5, 1.5]
    many = np.array([[np.nan, 9999.0, 3.0]])
    assert ranked(many).tolist() == [3.0, 1.0, 2.0]


def test_who_is_ranked():
    rows = frame(
        done(cell(method="afcl", group=UNKNOWN)),
        done(cell(method="pooled-kmeans-sweep", group=UNKNOWN)),
        done(cell(method="dk++", group=KNOWN)),
        done(cell(method="pooled-kmeans", group=KNOWN)),
        done(cell(method="fkm", group=KNOWN)),
        done(cell(method="dk++", group=LEARNED)),
        done(cell(method="any-k:dk++", group="any-k")),
        done(cell(method="afcl-matlab", group="as printed")),
    )
    assert contenders(rows)["method"].to_list() == ["afcl", "dk++", "fkm"]
    assert seven(rows)["method"].to_list() == ["afcl", "dk++"]


def two_by_three() -> pl.DataFrame:
    return frame(
        done(cell("A", "afcl", group=UNKNOWN), sc=0.8, ch=50.0, k=4),
        done(cell("A", "afcl", group=UNKNOWN, seed=1), sc=0.6, ch=70.0, k=5),
        done(cell("A", "dk++", group=KNOWN), sc=0.9),
        collapsed(cell("A", "dk++", group=KNOWN, seed=1)),
        lost(cell("A", "fkm", group=KNOWN)),
        lost(cell("A", "fkm", group=KNOWN, seed=1), FAILED),
        done(cell("B", "afcl", group=UNKNOWN), sc=0.3),
        done(cell("B", "dk++", group=KNOWN), sc=0.4),
        done(cell("B", "fkm", group=KNOWN), sc=0.5),
        lost(cell("B", "fkm", group=KNOWN, seed=1)),
        done(cell("A", "pooled-kmeans", group=KNOWN), sc=0.95),
        done(cell("A", "pooled-kmeans-sweep", group=UNKNOWN), sc=0.97),
    )


def test_means_are_over_all_runs():
    names, methods, table = score_table(contenders(two_by_three()), "sc")
    assert (names, methods) == (["A", "B"], ["afcl", "dk++", "fkm"])
    np.testing.assert_allclose(table, [[0.7, -0.05, np.nan], [0.3, 0.4, 0.5]])
    _, _, table = score_table(contenders(two_by_three()), "ch")
    np.testing.assert_allclose(table[0], [60.0, 0.45, np.nan])


def test_the_honest_table():
    found = {t.name: t for t in blocks_honest.honest(two_by_three())}
    assert list(found) == [
        f"honest-{m}" for m in ("sc", "sc2", "ch", "ari", "nmi", "k")
    ]
    # Ranks: A 1, 2, 3; B 3, 2, 1.
    assert found["honest-sc"].header == ("method", "A", "B", "rank")
    assert found["honest-sc"].rows == (
        ("afcl", "**0.700**", "0.300", "**2.00**"),
        ("dk++", "-0.050", "0.400", "**2.00**"),
        ("fkm", "cap", "**0.500 (1)**", "**2.00**"),
        ("(pooled-kmeans)", "0.950", NONE, NONE),
        ("(pooled-kmeans-sweep)", "0.970", NONE, NONE),
    )
    assert found["honest-k"].rows == (
        ("afcl", "4.5 · 50 %", "4.0 · 100 %"),
        ("dk++", "2.5 · 50 % · **50 %**", "4.0 · 100 %"),
        ("fkm", f"{NONE} · {NONE}", "4.0 · 100 %"),
    )


def test_the_default_beside_the_pooled_sweep():
    rows = frame(
        done(cell("A", "afcl", group=UNKNOWN), sc=0.5),
        collapsed(cell("A", "afcl", group=UNKNOWN, seed=1)),
        done(cell("A", "pooled-kmeans-sweep", group=UNKNOWN), sc=0.6),
        done(cell("B", "afcl", group=UNKNOWN), sc=0.595),
        done(cell("B", "pooled-kmeans-sweep", group=UNKNOWN), sc=0.6),
    )
    assert only(blocks_honest.pooled_gap(rows)).rows == (
        ("A", "-0.250", "0.600", "-0.850", "**no**"),
        ("B", "0.595", "0.600", "-0.005", "yes"),
    )


def test_a_set_without_a_sweep_has_no_gap():
    rows = frame(done(cell("A", "afcl", group=UNKNOWN), sc=0.5))
    assert only(blocks_honest.pooled_gap(rows)).rows == (
        ("A", "0.500", NONE, NONE, NONE),
    )


def test_three_ways_to_give_a_rival_its_k():
    rows = frame(
        done(cell("A", "afcl", group=UNKNOWN), sc=0.6),
        done(cell("B", "afcl", group=UNKNOWN), sc=0.4),
        done(cell("A", "dk++", group=KNOWN), sc=0.7),
        done(cell("B", "dk++", group=KNOWN), sc=0.4),
        done(cell("A", "dk++", group=LEARNED), sc=0.5),
        done(cell("B", "dk++", group=LEARNED), sc=0.3),
        lost(cell("A", "any-k:dk++", group="any-k")),
        done(cell("B", "any-k:dk++", group="any-k"), sc=0.9),
        done(cell("A", "afcl", group="as in the paper's files"), sc=0.0),
    )
    assert only(blocks_honest.three_ways(rows)).rows == (
        ("afcl", "0.500", *[NONE] * 5),
        (
            *("dk++", "0.550", "1 of 2", "0.400", "2 of 2"),
            *("0.900 (1 sets)", "1 of 2"),
        ),
    )


def test_what_has_no_answer_is_listed_with_its_reason():
    rows = frame(
        done(cell("A", "m", group="g")),
        lost(cell("A", "m", group="g", seed=1), CAPPED, "stopped after 60 s"),
        lost(cell("A", "m", group="g", seed=2), CAPPED, "not started: ..."),
        lost(cell("B", "m", group="g"), FAILED, "no memory"),
        done(cell("B", "n", group="g")),
    )
    table = only(blocks_honest.capped(rows))
    assert table.caption == "Runs without an answer: 3 of 5."
    assert table.rows == (
        ("g", "A", "m", "capped", "2 of 3", "stopped after 60 s"),
        ("g", "B", "m", "failed", "1 of 1", "no memory"),
    )
    assert only(blocks_honest.capped(frame(done(cell())))).rows == ()


def test_significance_of_a_clear_case():
    """The default first everywhere, dk++ last everywhere, on 13 sets."""
    rows = []
    order = ("afcl", *SIX[::-1])
    for name in "abcdefghijklm":
        for place, method in enumerate(order):
            group = UNKNOWN if method == "afcl" else KNOWN
            score = 0.9 - place / 10 + ord(name) / 1e6 * place
            rows.append(done(cell(name, method, group=group), sc=score, ch=score))
    assert rows[6]["method"] == "dk++"
    rows[6] = lost(cell("a", "dk++", group=KNOWN))
    found = {t.name: t for t in blocks_honest.significance(frame(*rows))}
    first = found["significance"].rows[0]
    # Ranks 1 to 7; CD of 7 methods on 13 sets at .05 is 2.235.
    assert (first[0], first[2:5]) == ("silhouette", ("0.05", "2.235", "1.00"))
    assert first[5] == "ffcm-avg2, ffcm-avg1, k-fed, dk++"
    assert first[6] == "fed-sc, fedsc"
    assert [row[0] for row in found["ranks"].rows] == list(order)
    assert [row[1] for row in found["ranks"].rows] == [
        "**1.00**",
        *(f"{rank:.2f}" for rank in range(2, 8)),
    ]
    # 13 of 13 won: p = 2 / 2^13, the smallest of six times 6.
    smallest = f"{6 * 2 / 2**13:.3f}"
    assert {row[:2] for row in found["wilcoxon"].rows} == {(m, smallest) for m in SIX}


def test_rivals_with_k_star_and_with_what_was_learned():
    rows = frame(
        done(cell("A", "afcl", group=UNKNOWN), sc=0.5, ch=10.0, k=3),
        done(cell("A", "afcl", group=UNKNOWN, seed=1), sc=0.7, ch=30.0, k=6),
        done(cell("A", "dk++", group=KNOWN), sc=0.2, ch=1.0),
        done(cell("A", "dk++", group=LEARNED), sc=0.4, ch=2.0),
        lost(cell("A", "dk++", group=LEARNED, seed=1)),
    )
    assert only(blocks_honest.learned_k(rows)).rows == (
        ("A", "afcl (k' 3-6)", "0.600 ± 0.10", "20.000 ± 10.00", NONE, NONE),
        *(
            (
                *("A", "dk++", "0.200 ± 0.00", "1.000 ± 0.00"),
                *("0.400 ± 0.00 (1 runs)", "2.000 ± 0.00 (1 runs)"),
            ),
        ),
    )


# ------------------------------------------------------------------ beyond the paper


def test_scores_of_every_kind_of_run():
    where = cell("A", "m", options=(("n_clusters", "true"),))
    rows = frame(
        done(where, sc=0.4, ch=3.0, bytes=3000),
        collapsed(cell("A", "m", options=where.options, seed=1), bytes=1000),
        lost(cell("A", "m", options=where.options, seed=2)),
        lost(cell("A", "n")),
    )
    table = only(blocks_more.scores(rows))
    assert table.rows[0] == (
        *("A", "m", "n_clusters = true", "kmeans:5", "random", "2 of 3"),
        *("2.500 ± 1.50 (2 runs)", "-0.300 ± 0.70 (2 runs)"),
        *("-0.300 ± 0.70 (2 runs)", "1.500 ± 1.50 (2 runs)"),
        *("0.200 ± 0.20 (2 runs)", "2.0"),
    )
    assert table.rows[1] == ("A", "n", "", "kmeans:5", "random", "0 of 1", *[NONE] * 6)


def events(rounds: int, seeds: int = 6, reason: str = "done") -> list[dict[str, Any]]:
    """A trace as short as can be: the server's thoughts, and the end."""
    thought = [
        {
            "event": "prepare",
            "round": r,
            "seeds": np.linspace(0, 1, 2 * seeds).reshape(seeds, 2).tolist(),
            "objective": 0.1 * r,
        }
        for r in range(rounds)
    ]
    return [*thought, {"event": "end", "reason": reason}]


def test_trajectories_start_from_so_many_seeds():
    rows = frame(
        done(cell(method="afcl"), sc=0.9, trace=events(3, seeds=16)),
        done(cell(method="afcl", seed=1), sc=0.8, k=5, rounds=7, trace=events(2)),
    )
    assert only(blocks_more.trajectories(rows)).rows == (
        ("afcl", "0", "16", "4", "3", "0.900"),
        ("afcl", "1", "6", "5", "7", "0.800"),
    )


def test_rounds_until_the_end():
    rows = frame(
        done(cell(), rounds=10, most_messages=3, trace=events(2)),
        done(cell(seed=1), rounds=20, trace=events(2)),
        done(cell(seed=2), rounds=100, trace=events(2, reason="max_rounds")),
        lost(cell(seed=3)),
    )
    (line,) = only(blocks_more.convergence(rows)).rows
    assert line == (
        *("SD1", "afcl", "43.3 ± 40.28 (3 runs)", "100.0", "50 %"),
        "3.0 ± 0.00 (3 runs)",
    )


def test_runs_without_their_trace_are_not_said_to_go_on():
    """Whether they stopped by themselves is not known."""
    rows = frame(done(cell(), rounds=10), done(cell(seed=1), rounds=20))
    (line,) = only(blocks_more.convergence(rows)).rows
    assert line[4] == NONE


def test_steps_of_the_ablation():
    rows = frame(
        done(cell("A", "ablation:path"), sc=0.2, ari=0.1, k=2),
        collapsed(cell("A", "ablation:path", seed=1)),
        done(cell("B", "ablation:path"), sc=0.4, ari=0.3, k=3),
        done(cell("A", "afcl"), sc=0.8, ari=1.0),
        done(cell("B", "afcl"), sc=0.6, ari=0.8),
    )
    sc, ari = blocks_more.ablation(rows)
    assert sc.header == ("step", "A", "B", "all")
    assert sc.rows == (
        ("+ path", "-0.400 (1.5) 50 %", "0.400 (3.0)", "-0.133"),
        ("afcl", "0.800 (4.0)", "0.600 (4.0)", "0.700"),
    )
    assert ari.rows[0] == ("+ path", "0.050 (1.5) 50 %", "0.300 (3.0)", "0.133")


def test_steps_of_the_ablation_keep_their_columns():
    """A set that a step has no run on, or no answer, is a gap and not a shift."""
    rows = frame(
        done(cell("A", "afcl"), sc=0.8),
        done(cell("B", "afcl"), sc=0.6),
        done(cell("B", "afcl-w"), sc=0.4),
        lost(cell("B", "afcl-w", seed=1)),
        lost(cell("A", "ablation:path")),
        done(cell("B", "ablation:path"), sc=0.3),
    )
    sc, _ = blocks_more.ablation(rows)
    assert sc.rows == (
        ("afcl", "0.800 (4.0)", "0.600 (4.0)", "0.700"),
        ("afcl-w", NONE, "0.400 (4.0) (1)", "0.400"),
        ("+ path", "cap", "0.300 (4.0)", "0.300"),
    )


def test_quality_by_the_number_of_seeds():
    def seeded(n, seed=0) -> Cell:
        return cell("A", "afcl", options=(("n_seeds", n),), seed=seed)

    rows = frame(
        done(seeded("n/4"), sc=0.5, k=4),
        collapsed(seeded("n/4", 1)),
        done(cell("A", "afcl"), sc=0.7, k=3),
        done(cell("A", "afcl-paper", options=(("n_seeds", "n/4"),)), sc=0.1, k=2),
        lost(cell("B", "afcl", options=(("n_seeds", "n/4"),))),
    )
    table = only(blocks_more.seeds(rows))
    assert table.header == ("data", "method", "n/4", "auto")
    assert table.rows == (
        ("A", "afcl", "-0.250 (2.5)", "0.700 (3.0)"),
        ("A", "afcl-paper", "0.100 (2.0)", NONE),
        ("B", "afcl", "cap", NONE),
    )


def test_asynchrony_by_how_uneven_participation_is():
    def skewed(level: str, seed: int = 0, method: str = "afcl") -> Cell:
        return cell("A", method, group="skew", participation=level, seed=seed)

    rows = frame(
        done(skewed("skew:0"), sc=0.8, ari=0.9),
        done(skewed("skew:0.6"), sc=0.4, ari=0.5),
        collapsed(skewed("skew:0.6", 1)),
        done(skewed("skew:0", method="fkm"), sc=0.2, ari=0.1),
        lost(skewed("skew:0", 1, method="fkm")),
        lost(skewed("skew:0.6", method="fkm")),
        done(cell("A", group="one-shot", participation="one-shot:1"), ari=0.3),
    )
    found = {t.name: t for t in blocks_more.asynchrony(rows)}
    assert list(found) == [
        f"asynchrony-{group}-{measure}"
        for group in ("skew", "one-shot")
        for measure in ("sc", "ari")
    ]
    assert found["asynchrony-skew-sc"].header[2:] == ("skew:0", "skew:0.6")
    assert found["asynchrony-skew-sc"].rows == (
        ("A", "afcl", "0.800", "-0.300"),
        ("A", "fkm", "0.200 (1)", "cap"),
    )
    assert found["asynchrony-skew-ari"].rows[0] == ("A", "afcl", "0.900", "0.250")
    assert found["asynchrony-one-shot-ari"].rows == (("A", "afcl", "0.300"),)


def test_who_joins_late():
    def joining(habit: str, seed: int = 0, method: str = "afcl") -> Cell:
        return cell("A", method, group="late", participation=habit, seed=seed)

    rows = frame(
        done(joining("always"), ari=1.0),
        done(joining("always", 1), ari=0.8, k=3),
        done(joining("late:1:4"), ari=0.6),
        lost(joining("late:1:4", 1)),
        lost(joining("always", method="k-fed")),
    )
    table = only(blocks_more.late(rows))
    assert table.header == (
        "data",
        "method",
        "ARI, always",
        "k' = k*, always",
        "ARI, late:1:4",
        "k' = k*, late:1:4",
    )
    assert table.rows == (
        ("A", "afcl", "0.900", "50 %", "0.600 (1)", "50 %"),
        ("A", "k-fed", "cap", "0 %", NONE, NONE),
    )


# ------------------------------------------------------------------ cost


def steps(*values: tuple[int, float], method: str = "afcl", seed: int = 0) -> list[Row]:
    """Runs stopped after so many rounds, with so much silhouette; 1 kB a round."""
    found = []
    for rounds, sc in values:
        where = cell("A", method, options=(("max_rounds", rounds),), seed=seed)
        facts = {"bytes": 1000 * rounds, "most_messages": rounds + 1}
        answer = done(where, sc) if sc > -1.0 else collapsed(where)
        found.append({**answer, **facts})
    return found


@pytest.mark.parametrize(
    ("values", "arrival"),
    [
        # 99 % of .8 is .792; from round 2 on.
        ([(0, 0.2), (1, 0.7), (2, 0.795), (4, 0.81), (8, 0.8)], (2.0, 3.0, 0.8)),
        # It had been there, and fell below again.
        ([(1, 0.8), (2, 0.5), (4, 0.8), (8, 0.8)], (4.0, 5.0, 0.8)),
        # From the start, and better than in the end.
        ([(0, 0.9), (1, 0.8), (100, 0.8)], (0.0, 1.0, 0.8)),
        # Only in the end.
        ([(1, 0.1), (2, 0.2), (4, 0.3)], (4.0, 5.0, 0.3)),
        # A negative end: 1 % of its size below it is enough.
        ([(1, -0.202), (2, -0.2), (4, -0.2)], (1.0, 2.0, -0.2)),
        ([(1, -0.203), (2, -0.2)], (2.0, 3.0, -0.2)),
        # Collapsed in the end: never.
        ([(1, 0.8), (2, -1.0)], (np.nan, np.nan, -1.0)),
        # Collapsed on the way.
        ([(1, -1.0), (2, 0.5)], (2.0, 3.0, 0.5)),
    ],
)
def test_arrival_by_hand(values, arrival):
    found = arrivals(frame(*steps(*values)))
    np.testing.assert_equal(found, {("A", "afcl"): [arrival]})


def test_the_order_of_the_rows_does_not_matter_and_seeds_are_apart():
    rows = steps((1, 0.1), (2, 0.5), (12, 0.5)) + steps((1, 0.3), (2, 0.3), seed=1)
    ((_, found),) = arrivals(frame(*rows[::-1])).items()
    assert sorted(found) == [(1.0, 2.0, 0.3), (2.0, 3.0, 0.5)]


def test_rounds_without_an_answer_are_not_looked_at():
    rows = steps((1, 0.5), (2, 0.5))
    rows.append(lost(cell("A", options=(("max_rounds", 40),))))
    assert arrivals(frame(*rows)) == {("A", "afcl"): [(1.0, 2.0, 0.5)]}
    nothing = arrivals(frame(rows[-1]))
    np.testing.assert_equal(nothing, {("A", "afcl"): [(np.nan, np.nan, np.nan)]})


def test_cost_of_arriving():
    rows = [
        *steps((1, 0.1), (2, 0.5)),
        *steps((1, 0.7), (2, 0.7), seed=1),
        *steps((1, 0.5), (2, -1.0), method="bad"),
        lost(cell("A", "slow", options=(("max_rounds", 1),))),
    ]
    table = only(blocks_more.cost(frame(*rows)))
    assert table.header == ("method", "A")
    assert table.rows == (
        ("afcl", "1.5 kB, 2.5 → 0.600"),
        ("bad", "collapsed"),
        ("slow", "cap"),
    )


# ------------------------------------------------------------------ time


def test_seconds_by_rows_and_by_features():
    def sized(n: int, d: int, group: str, seed: int = 0, method: str = "afcl") -> Cell:
        return cell(f"gaussians:{n}:{d}:8", method, group=group, seed=seed)

    rows = frame(
        done(sized(40000, 2, "rows"), cpu_seconds=2.0),
        done(sized(40000, 2, "rows", 1), cpu_seconds=9.0),
        done(sized(40000, 2, "rows", 2), cpu_seconds=1.0),
        done(sized(80000, 2, "rows"), cpu_seconds=4.0),
        done(sized(40000, 2, "rows", method="fkm"), cpu_seconds=3.0),
        lost(sized(80000, 2, "rows", method="fkm")),
        done(sized(2000, 500, "features"), cpu_seconds=1.0),
        done(sized(2000, 1000, "features"), cpu_seconds=4.0),
    )
    by_rows, by_features = blocks_more.time(rows)
    assert by_rows.name == "time-rows"
    assert by_rows.header == ("method", "40,000", "80,000", "e")
    assert by_rows.rows == (
        ("afcl", "2.00", "4.00", "1.00"),
        ("fkm", "3.00", "cap", NONE),
    )
    assert by_features.name == "time-features"
    assert by_features.rows == (("afcl", "1.00", "4.00", "2.00"),)


# ------------------------------------------------------------------ unfinished grids


def filled(name: str, seed: int, keep: float, ends: str) -> pl.DataFrame:
    """Rows of a shipped spec's first two seeds, with scores drawn.

    `keep` is the share of the cells that have been run, in the order of the runs;
    `ends` says how: "done", "mixed" (also collapsed, capped, failed) or one end.
    """
    rng = np.random.default_rng(seed)
    cells = find_spec(name).select(runs=2)
    rows: dict[Cell, Row] = {}
    for place in cells[: max(1, round(keep * len(cells)))]:
        end = ends
        if ends == "mixed":
            kinds = ["done", "collapsed", "capped", "failed"]
            end = rng.choice(kinds, p=[0.7, 0.1, 0.1, 0.1])
        trace = events(4, reason="done") if place.trace else None
        if end == "done":
            k = int(rng.integers(2, 7))
            score, seconds = float(rng.uniform()), float(rng.uniform(0.1, 3))
            found: dict[str, Any] = {"ch": 99.0, "cpu_seconds": seconds}
            rows[place] = done(place, sc=score, k=k, trace=trace, **found)
        elif end == "collapsed":
            rows[place] = collapsed(place, trace=trace)
        else:
            rows[place] = lost(place, {"capped": CAPPED, "failed": FAILED}[end])
    return frame_of(rows[entry] for entry in find_spec(name).cells if entry in rows)


CASES = [
    (1.0, "done"),
    (1.0, "mixed"),
    (0.3, "done"),
    (0.6, "mixed"),
    (0.07, "mixed"),
    (0.0, "done"),
    (1.0, "capped"),
    (1.0, "collapsed"),
    (0.0, "failed"),
]


@pytest.mark.no_cover
@pytest.mark.parametrize("name", spec_names())
@pytest.mark.parametrize(("keep", "ends"), CASES)
def test_whatever_has_been_run_can_be_shown(name, keep, ends, seed):
    """A report of an unfinished grid: every table in shape, nothing warned of.

    Tests of significance may refuse too few sets or methods, in one line.
    """
    rows = filled(name, seed, keep, ends)
    names = []
    for block in find_spec(name).blocks:
        made: list[Any] = []
        few = block.startswith("significance") and keep < 0.1
        with suppress(InputError) if few else nullcontext():
            made = list(BLOCKS[block](rows))
        for each in made:
            names.append(each.name)
            if isinstance(each, Table):
                widths = {len(row) for row in each.rows}
                assert widths <= {len(each.header)}, each.name
                assert all(isinstance(text, str) for row in each.rows for text in row)
                assert "nan" not in each.markdown().replace("nance", "")
            else:
                assert isinstance(each, Figure)
                if (keep, ends) in ((0.3, "done"), (0.6, "mixed"), (1.0, "capped")):
                    each.draw()
    # A mark on a page means one of them.
    assert len(set(names)) == len(names)
