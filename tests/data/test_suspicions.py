# SPDX-License-Identifier: Apache-2.0
"""What would spoil an answer is named; what is ordinary is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.data.column_sample import LOOKED_AT
from afcl.data.features import Feature
from afcl.data.sites import Sites, open_sites
from afcl.data.suspicion import (
    EXTREME,
    FEW_VALUES,
    IDS,
    MOSTLY_EMPTY,
    REPEATED,
    SAME_ROWS,
    SENTINEL,
    TWO_VALUES,
    UNIT,
    ZERO,
)
from afcl.data.suspicions import find_suspicions, shown
from afcl.data.synthetic import random_mixture
from afcl.data.tables import Table

NAMES = ("north", "south", "east", "west", "coast")


def sites_of(*tables, columns=None, features=()):
    """Return sites that hold these arrays; one of a single column may be flat."""
    arrays = [np.asarray(t, dtype=float) for t in tables]
    arrays = [a[:, None] if a.ndim == 1 else a for a in arrays]
    named = columns or tuple("xyzuvw"[: arrays[0].shape[1]])
    return Sites(
        tuple(Table(n, a, named, None) for n, a in zip(NAMES, arrays, strict=False)),
        (),
        features,
    )


def kinds(*tables, **options):
    return [f.kind for f in find_suspicions(sites_of(*tables), **options)]


def only(*tables, **options):
    """Return the one finding."""
    (found,) = find_suspicions(sites_of(*tables), **options)
    return found


def heights(n=60, seed=0):
    return np.random.default_rng(seed).normal(170, 8, n).round(1)


# ------------------------------------------------------------------ ids


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(40),  # a row number
        np.random.default_rng(0).permutation(40) + 1001,  # shuffled
        np.random.default_rng(0).permutation(80)[:40],  # every other one is lacking
        np.arange(40) * 8 + 300_000,  # with a check digit
        np.cumsum(np.array([8, 8, 25, 9] * 10)),  # half of the steps are 8
        np.concatenate([np.arange(200), [7, 8]]),  # two came twice: 1 % of 202 rows
    ],
)
def test_ids(ids):
    found = only(ids)
    assert (found.kind, found.column, found.site) == (IDS, "x", None)
    assert found.text.endswith("use --drop x, or --id x")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(29),  # too few rows to tell
        np.arange(40) + 0.5,  # not whole
        np.arange(40) ** 2 * 997 % 10_007,  # all different, but neither dense nor even
        np.concatenate([np.arange(40), np.arange(40)]),  # every one twice
        np.sort(np.rint(np.random.default_rng(0).gamma(3, 1e5, 300))),  # an amount
        np.random.default_rng(0).integers(0, 10**6, 150),  # even, but too few to tell
    ],
)
def test_what_is_no_id(values):
    assert IDS not in kinds(values)


def test_ids_that_are_dense_over_all_sites_only():
    order = np.random.default_rng(1).permutation(200)
    assert kinds(*np.split(order, 5)) == [IDS]


def test_an_id_is_one_although_a_small_site_cannot_tell():
    assert kinds(np.arange(1001, 1101), np.arange(2001, 2004)) == [IDS]


@pytest.mark.parametrize("seed", range(30))
def test_whole_amounts_are_no_ids(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 2000))
    rows = [
        rng.normal(50, 15, n).round(),
        rng.lognormal(10, 0.5, n).round(),
        np.sort(rng.lognormal(10, 0.5, n).round()),
        rng.integers(0, 2 * n, n),
        rng.poisson(100, n),
    ]
    assert kinds(np.column_stack(rows)) == []


# ------------------------------------------------------------------ sentinels and zeros


@pytest.mark.parametrize("mark", [-999, -99, -9, 999, 9999, 99999, -9999])
def test_a_sentinel_that_occurs_several_times(mark):
    found = only(heights(), [*heights(57, 1), mark, mark, mark])
    assert (found.kind, found.site) == (SENTINEL, "south")
    assert f"has {mark} in 3 cells of south" in found.text
    assert found.text.endswith(f"use --null {mark}")


def test_a_sentinel_that_occurs_once_must_be_farther_than_the_values_reach():
    # 150 to 190 reach 40: 99 is 51 below, 105 would be 45 but is no sentinel.
    values = 150 + np.linspace(0, 40, 60)
    assert kinds([*values, 99]) == [SENTINEL]
    assert kinds([*values, 105]) == []
    # They reach 80 here, and 99 is 51 below.
    assert kinds([*(150 + np.linspace(0, 80, 60)), 99]) == []


def test_two_sentinels_in_one_column():
    found = find_suspicions(sites_of([*heights(), -99, -99, -99, -999, -999, -999]))
    assert [f.text.partition(" in ")[0] for f in found] == [
        "'x' has -999",
        "'x' has -99",
    ]


def test_a_nine_among_neighbours_is_none():
    # -9 °C is the coldest of many days, 99 the largest of many shares.
    rng = np.random.default_rng(0)
    assert kinds(np.column_stack([rng.integers(-9, 30, 500)])) == []
    assert kinds(np.column_stack([rng.integers(0, 100, 500)])) == []


def test_an_unknown_code_among_codes():
    values = np.array([0, 1] * 20 + [99] * 4)
    assert kinds(values) == [SENTINEL]


def test_zeros_far_below_everything_else():
    chol = np.random.default_rng(0).normal(240, 40, 90).round()
    found = only(chol, np.zeros(40))
    assert (found.kind, found.site) == (ZERO, "south")
    assert "has 0 in 40 cells of south" in found.text
    assert found.text.endswith("use --null x=0")


def test_a_single_zero_must_be_farther():
    # The quartiles of 0.5 to 40.5 are 10.5 and 30.5: 100.5 is 5 of these ranges from
    # zero, 40.5 is 2.
    values = np.arange(41) + 0.5
    assert kinds([*(values + 100), 0]) == [ZERO]
    assert kinds([*(values + 40), 0]) == []
    assert kinds([*(values + 40), 0, 0, 0]) == [ZERO]


def test_zeros_that_are_values():
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(300) < 0.7, 0, rng.lognormal(0, 1, 300))
    counts = rng.poisson(2, 300)
    grades = rng.choice([0, 50, 51, 52], 300)
    signed = np.where(rng.random(300) < 0.1, 0, rng.choice([-1, 1], 300) * 100.5)
    table = np.column_stack([rain, counts, grades, signed])
    # Grades are few, and may be codes.
    assert kinds(table) == [FEW_VALUES]


# ------------------------------------------------------------------ wild values


def test_one_value_fills_the_range():
    found = only(heights(), [*heights(60, 1), 1780])
    assert (found.kind, found.site, found.column) == (EXTREME, "south", "x")
    assert "has 1780 of south" in found.text
    assert "it fills the range" in found.text


def test_three_values_fill_the_range_but_four_are_a_group():
    assert kinds([*heights(), -17000, -17010, -17020]) == [EXTREME]
    assert kinds([*heights(), -1700, -1710, -1720, -1730]) == []


def test_a_range_that_grows_less_than_tenfold_is_left_alone():
    # Without 480 they reach 40 of 330, an eighth; without 600 of 450, an eleventh.
    values = 150 + np.linspace(0, 40, 60)
    assert kinds([*values, 480]) == []
    assert kinds([*values, 600]) == [EXTREME]


def test_a_sentinel_is_not_told_twice():
    assert kinds([*heights(), -99999]) == [SENTINEL]


DRAWS = {
    "gaussian": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "long log-normal": lambda rng, n: rng.lognormal(0, 2, n),
    "rounded log-normal": lambda rng, n: rng.lognormal(4, 1, n).round(),
    "student": lambda rng, n: rng.standard_t(3, n),
    "gamma": lambda rng, n: rng.gamma(0.2, size=n),
    "counts": lambda rng, n: rng.poisson(3, n),
    "with zeros": lambda rng, n: np.where(
        rng.random(n) < 0.3, 0, rng.lognormal(size=n)
    ),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(40))
def test_ordinary_columns_are_left_alone(seed):
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(np.log(90), np.log(3000))))
    rows = np.column_stack([draw(rng, n) for draw in DRAWS.values()])
    columns = tuple(DRAWS)
    assert find_suspicions(sites_of(rows, columns=columns)) == ()
    parts = (rows[0::3], rows[1::3], rows[2::3])
    assert find_suspicions(sites_of(*parts, columns=columns)) == ()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(30, 300),
)
def test_where_a_cloud_lies_and_how_wide_it_is_does_not_matter(seed, where, wide, n):
    rows = np.random.default_rng(seed).normal(where, wide, (n, 2))
    assert kinds(rows) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([-999.0, 9999.0, 1e5]))
def test_a_value_far_off_is_found_wherever_it_stands(seed, value):
    rng = np.random.default_rng(seed)
    rows = rng.normal(50, 3, 80)
    rows[rng.integers(80)] = value
    assert len(kinds(rows)) == 1


# ------------------------------------------------------------------ codes


def test_two_values():
    found = only(np.arange(40) % 2)
    assert found.kind == TWO_VALUES
    assert "(0 and 1) and weighs 16 times as much as a category" in found.text
    assert found.text.endswith("use --category x")
    assert found.is_serious


def test_few_values_are_told_and_not_serious():
    found = only(np.arange(60) % 5 + 1)
    assert (found.kind, found.is_serious) == (FEW_VALUES, False)
    assert "has 5 values only (1, 2, 3, 4, 5)" in found.text
    assert found.text.endswith("if they are codes, use --category x, or --drop x")
    assert kinds(np.arange(60) % 7) == []
    assert kinds(np.arange(60) % 5 / 4) == []


def test_names_are_quoted_as_one_would_type_them():
    table = sites_of(np.arange(40) % 2, columns=("smokes, ever",))
    (found,) = find_suspicions(table)
    assert found.text.endswith("""use --category '"smokes, ever"'""")
    table = sites_of(np.arange(40) % 2, columns=("a\nb\x1b[31m",))
    (found,) = find_suspicions(table)
    assert found.text.isprintable()


def test_categories_and_dates_are_not_judged():
    rows = np.column_stack([np.arange(40) % 2, np.arange(40)])
    columns, features = ("sex=male", "day"), (Feature("sex", ("male",)),)
    table = sites_of(rows, columns=columns, features=features)
    assert find_suspicions(table, dates=("day",)) == ()


# ------------------------------------------------------------------ units


def weights(seed, n=400):
    return np.random.default_rng(seed).normal(75, 10, n)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2.2046, "kg and lb"),
        (1000.0, "kg and g"),
        (0.001, "kg and g"),
        (1 / 7.50062, "kPa and mmHg"),
        (1 / 18.016, "mmol/l and mg/dl of glucose"),
        (1 / 38.67, "mmol/l and mg/dl of cholesterol"),
        (
            1 / 88.57,
            "mg/dl and µmol/l of creatinine, mmol/l and mg/dl of triglycerides",
        ),
    ],
)
def test_a_site_in_other_units(factor, said, seed):
    parts = [weights(10 * seed + i) for i in range(4)]
    parts[2] = parts[2] * factor
    found = [f for f in find_suspicions(sites_of(*parts)) if f.kind == UNIT]
    assert [(f.site, f.column) for f in found] == [("east", "x")]
    assert f"looks like another unit ({said}); convert it there" in found[0].text


def test_temperatures_in_fahrenheit():
    rng = np.random.default_rng(0)
    parts = [rng.normal(37, 0.5, 80) for _ in range(4)]
    parts[0] = parts[0] * 1.8 + 32
    assert [(f.site, f.kind) for f in find_suspicions(sites_of(*parts))] == [
        ("north", UNIT)
    ]


def test_of_two_sites_nobody_knows_which_one_is_odd():
    assert kinds(weights(0), weights(1) * 1000) == []


def test_two_sorts_of_sites_are_no_units():
    # Two of five are 18 times the others, as oils of the south are.
    parts = [weights(i) * (18 if i in (1, 3) else 1) for i in range(5)]
    assert kinds(*parts) == []


# ------------------------------------------------------------------ rows


def rows_of(n, seed=0):
    return np.random.default_rng(seed).normal(50, 10, (n, 3)).round(2)


def test_rows_that_are_there_twice():
    rows = rows_of(60)
    # 40 of 80 rows are copies of each other: half is not more than half; 42 of 81 is.
    assert kinds(np.vstack([rows, rows[:20]])) == []
    found = only(np.vstack([rows, rows[:21]]), rows_of(60, 1))
    assert (found.kind, found.site, found.column) == (REPEATED, "north", None)
    assert found.text.startswith("52% of the rows of north")


def test_the_same_file_twice_in_another_order():
    rows = rows_of(60)
    found = only(rows, rows_of(60, 1), rows[::-1])
    assert (found.kind, found.site) == (SAME_ROWS, "east")
    assert found.text.startswith("east holds the same rows as north:")


def test_nearly_the_same_file_twice():
    rows = rows_of(60)
    found = only(rows, np.vstack([rows[:58], rows_of(2, 1)]))
    assert "97% of the rows of north" in found.text
    # 50 of 60 are fewer than nine in ten.
    assert kinds(rows, np.vstack([rows[:50], rows_of(10, 1)])) == []


def test_rows_with_gaps_are_compared_too():
    rows = rows_of(60)
    rows[::7, 1] = np.nan
    assert kinds(rows, rows) == [SAME_ROWS]


@pytest.mark.parametrize("seed", range(20))
def test_few_valued_rows_are_equal_by_chance(seed):
    rng = np.random.default_rng(seed)
    answers = rng.integers(1, 8, (1000, 3))
    prices = rng.normal(300, 50, 1000).round()
    taxed = np.column_stack([prices, prices * 1.19])
    assert kinds(answers, answers[::-1]) == []
    assert kinds(taxed) == []
    assert kinds(prices) == []


# ------------------------------------------------------------------ many rows


def test_a_wild_value_among_many_rows_is_found():
    values = np.random.default_rng(0).normal(170, 8, 3 * LOOKED_AT)
    values[1] = 17_800.0
    found = only(values)
    assert found.kind == EXTREME
    assert "17800" in found.text


def test_of_many_rows_the_copies_are_found_wherever_they_are():
    rows = np.random.default_rng(0).normal(size=(2 * LOOKED_AT, 2))
    assert kinds(np.vstack([rows, rows])) == [REPEATED]
    assert kinds(rows, rows[::-1]) == [SAME_ROWS]


def test_ids_of_many_rows():
    assert kinds(np.random.default_rng(0).permutation(3 * LOOKED_AT)) == [IDS]
    drawn = np.random.default_rng(0).integers(0, 6 * LOOKED_AT, 3 * LOOKED_AT)
    assert kinds(drawn) == []


def test_sentinels_of_many_rows_are_counted_at_least():
    values = np.random.default_rng(0).normal(170, 8, 3 * LOOKED_AT)
    values[::3] = -999
    found = only(values)
    # A third of the rows that are looked at, about.
    times = int(found.text.partition(" in at least ")[2].partition(" cells")[0])
    assert times == pytest.approx(LOOKED_AT / 3, rel=0.05)


def test_streamed_rows(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{i},{-999 if i % 9 == 0 else 170 + i % 13 / 7}" for i in range(200)]
    path.write_text("\n".join(["id,height", *rows]))
    found = find_suspicions(open_sites([path], stream=True))
    assert [f.kind for f in found] == [IDS, SENTINEL]


# ------------------------------------------------------------------ no false alarms


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(200))
def test_drawn_mixtures_are_left_alone(seed):
    X, y = random_mixture(seed)
    columns = tuple(f"c{i}" for i in range(X.shape[1]))
    # At random, or every site with clusters of its own.
    at_random = np.random.default_rng(seed).integers(0, 5, len(y))
    for owners in (at_random, y % 5):
        parts = [X[owners == i] for i in range(5)]
        parts = [part for part in parts if len(part)]
        found = find_suspicions(sites_of(*parts, columns=columns))
        assert found == ()


def test_small_and_empty_sites_say_nothing():
    assert kinds(np.empty((0, 2)), np.arange(8).reshape(4, 2)) == []
    assert kinds(np.full((40, 1), np.nan)) == []
    assert kinds(np.ones(50)) == []


# ------------------------------------------------------------------ lines


def test_of_many_alike_some_are_shown():
    flags = np.random.default_rng(0).integers(0, 2, (50, 6))
    lines = shown(find_suspicions(sites_of(flags)), most=2)
    assert len(lines) == 3
    assert lines[2] == "two values also: 'z', 'u', 'v', 'w'; 'afcl check' tells all"


# ------------------------------------------------------------------ empty columns


def with_gaps(values, share):
    """Empty this share of the values, from the first on."""
    gaps = values.copy()
    gaps[: round(share * values.size)] = np.nan
    return gaps


def test_a_column_that_is_empty_in_most_rows_is_named():
    # 40 + 40 rows, gaps in 38 + 6 of them: 44 of 80 are 55 %.
    south = np.column_stack([heights(40), with_gaps(heights(40, 1), 0.95)])
    north = np.column_stack([heights(40, 2), with_gaps(heights(40, 3), 0.15)])
    found = only(south, north)
    assert (found.kind, found.site, found.column) == (MOSTLY_EMPTY, None, "y")
    assert found.is_serious
    assert found.text.startswith("'y' (55%) is empty in most rows")
    assert found.text.endswith("--drop y")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
def test_a_column_that_half_of_the_rows_have_is_not(share):
    assert kinds(np.column_stack([heights(), with_gaps(heights(60, 1), share)])) == []


def test_all_empty_columns_are_in_one_line_and_a_category_is_one():
    gap = with_gaps(np.ones(60), 0.7)
    rows = np.column_stack(
        [heights(), gap, np.where(gap == 1, 0, gap), gap * heights()]
    )
    colour = Feature("colour", ("blue", "red"))
    columns = ("height", *colour.columns, "weight")
    (found,) = find_suspicions(sites_of(rows, columns=columns, features=(colour,)))
    assert found.column is None
    assert "'colour' (70%), 'weight' (70%) are empty" in found.text
    assert "--drop colour,weight" in found.text


def test_of_very_many_empty_columns_no_command_is_cut_in_two():
    gaps = [with_gaps(heights(60, seed), 0.7) for seed in range(90)]
    rows = np.column_stack([heights(), *gaps])
    columns = ("height", *(f"measurement of day {day}" for day in range(90)))
    (found,) = find_suspicions(sites_of(rows, columns=columns))
    assert found.text.endswith("compare with a --drop of these")
    assert "(90 in all)" in found.text


# ------------------------------------------------------------------ even ids


@pytest.mark.parametrize("seed", range(5))
def test_random_ids_are_named(seed):
    rng = np.random.default_rng(seed)
    found = only(rng.integers(0, 10**9, 300))
    assert found.kind == IDS
    assert "looks like ids (" in found.text
    assert "nearly all different and spread evenly): use --drop x, or --id x" in (
        found.text
    )


def test_random_ids_may_have_a_range_for_every_site():
    rng = np.random.default_rng(0)
    parts = [1e9 * i + rng.integers(0, 10**6, 250) for i in (1, 7, 50)]
    assert kinds(*parts) == [IDS]
    # Amounts at sites are spread in no such way.
    assert kinds(*(np.rint(rng.gamma(4, 1e6, 250)) for _ in range(3))) == []


# ------------------------------------------------------------------ several far rows


@pytest.mark.parametrize("value", [1e300, 1.7e308, -1e12])
def test_several_rows_that_fill_the_range_are_named(value):
    found = only([*heights(), *[value] * 5])
    assert found.kind == EXTREME
    assert " in 5 cells, and else " in found.text
    assert "they fill the range" in found.text
    two_ends = [*heights(), *[1.7e308] * 3, *[-1.7e308] * 3]
    assert kinds(two_ends) == []  # no rule for both ends, and no overflow


def test_many_different_far_values_are_shortened():
    found = only([*heights(), *(1e9 + np.arange(6))])
    assert "1000000000, 1000000001, 1000000002, … in 6 cells" in found.text
