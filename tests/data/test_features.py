# SPDX-License-Identifier: Apache-2.0
"""Which texts are categories, which levels are named, and what becomes of rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.data.encoding import indicators
from afcl.data.features import (
    MISMATCH,
    WIDTH,
    Embedding,
    Feature,
    agree,
    texts_of,
)
from afcl.data.mixed import embedding_of, has_texts, rows_of
from afcl.exceptions import InputError

COLOURS = Feature("colour", ("blue", "red"))


def words(**counts):
    return texts_of([level for level, n in counts.items() for _ in range(n)])


def test_levels_are_spelt_in_any_way():
    texts = texts_of(
        ["Red", " red", "RED ", None, "2", "2.0", "dark  blue", "Dark blue"]
    )
    assert dict(texts.levels) == {"Red": 3, "2": 2, "dark  blue": 2}


def test_a_level_is_named_by_whoever_has_enough_rows_of_it():
    north, south = words(red=5, blue=2, green=4), words(blue=9, green=4)
    feature, notes = agree("colour", [north, south], 5)
    assert feature == COLOURS
    assert notes == [
        "column 'colour': 8 cells of a rare level count as none of the others"
    ]
    # Four rows here and four there name nothing: nobody tells of fewer than five.
    assert agree("colour", [words(green=4)] * 3, 5)[0] is None


@pytest.mark.parametrize(
    ("sites", "why"),
    [
        ([texts_of([f"n{i}" for i in range(30)])], "30 different texts in 30 cells"),
        ([words(**{f"w{i}": 5 for i in range(60)})], "60 different texts in 300 cells"),
        (
            [words(**{f"w{i}": 2 for i in range(9)}, red=5)],
            "hardly a text is in 5 rows",
        ),
        ([words(red=5), words(red=7)], "it says the same of all rows"),
    ],
)
def test_what_is_no_category(sites, why):
    feature, notes = agree("colour", sites, 5)
    assert feature is None
    assert notes[0].startswith("column 'colour' left out: ")
    assert why in notes[0]


def test_one_named_level_and_others_are_two_kinds():
    feature, _ = agree("colour", [words(red=9, blue=2, green=2)], 5)
    assert feature == Feature("colour", ("red",))


def test_two_levels_are_a_sixteenth_apart():
    rows = indicators(["red", "blue", "green"], COLOURS)
    low, high = Embedding(("colour",), (COLOURS,)).bounds
    scaled = (rows - low) / (high - low)
    assert ((scaled[0] - scaled[1]) ** 2).sum() == pytest.approx(MISMATCH)
    assert ((scaled[0] - scaled[2]) ** 2).sum() == pytest.approx(MISMATCH / 2)
    assert pytest.approx(32**0.5) == WIDTH


def test_numbers_have_no_bounds_of_their_own():
    embedding = Embedding(("size", "colour"), (COLOURS,))
    assert embedding.names == ("size", "colour=blue", "colour=red")
    low, high = embedding.bounds
    assert np.isnan(low).tolist() == [True, False, False]
    assert np.isnan(high).tolist() == [True, False, False]


@given(st.lists(st.sampled_from(["red", "Blue", "green", None]), max_size=30))
def test_a_row_has_one_level_none_or_no_value(cells):
    rows = indicators(cells, COLOURS)
    assert rows.shape == (len(cells), 2)
    for cell, row in zip(cells, rows, strict=True):
        if cell is None:
            assert np.isnan(row).all()
        else:
            assert row.sum() == (cell != "green")


class TestFrames:
    FRAME = pl.DataFrame(
        {"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", None, "Red"]}
    )

    def test_texts_become_columns(self):
        embedding, notes = embedding_of([self.FRAME], 1)
        assert notes == []
        assert embedding == Embedding(("size", "colour"), (COLOURS,))
        rows = rows_of(self.FRAME, embedding)
        assert rows[:2].tolist() == [[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
        assert np.isnan(rows[2]).tolist() == [False, True, True]

    def test_pandas_and_polars_say_the_same(self):
        pytest.importorskip("pandas")
        frame = self.FRAME.to_pandas()
        embedding, _ = embedding_of([frame], 1)
        ours = rows_of(self.FRAME, embedding_of([self.FRAME], 1)[0])
        assert np.array_equal(rows_of(frame, embedding), ours, equal_nan=True)

    def test_numbers_written_as_texts_are_numbers(self):
        assert not has_texts(pl.DataFrame({"x": ["1", "2.5", "NA"]}))
        assert not has_texts(np.eye(3))
        # Half of them numbers: one of the two is a slip.
        assert not has_texts(pl.DataFrame({"x": ["1", "two"]}))
        assert has_texts(pl.DataFrame({"x": ["one", "two", "3"]}))

    def test_a_type_says_that_codes_are_categories(self):
        pd = pytest.importorskip("pandas")
        codes = ["1", "2", None, "1"]
        numbers = pd.Series([1, 2, None, 1]).astype("Int64").astype("category")
        frames = [
            pl.DataFrame({"c": pl.Series(codes, dtype=pl.Categorical)}),
            pl.DataFrame({"c": pl.Series(codes, dtype=pl.Enum(["1", "2"]))}),
            pd.DataFrame({"c": pd.Series(codes, dtype="category")}),
            pd.DataFrame({"c": numbers}),
        ]
        for frame in frames:
            embedding, _ = embedding_of([frame], 1)
            assert embedding.features == (Feature("c", ("1", "2")),)
            rows = rows_of(frame, embedding)
            assert np.array_equal(rows[[0, 1, 3]], [[1, 0], [0, 1], [1, 0]])
            assert np.isnan(rows[2]).all()

    def test_levels_by_owner(self):
        frame = pl.DataFrame({"c": ["a", "b"] * 4})
        assert embedding_of([frame], 4)[0].features == (Feature("c", ("a", "b")),)
        with pytest.raises(InputError, match="no column is of numbers or categories"):
            embedding_of([frame], 4, owners=np.array([0, 1, 0, 1, 0, 1, 1, 0]))

    def test_a_column_that_is_not_there(self):
        with pytest.raises(InputError, match="table 2 lacks the column colour"):
            rows_of(pl.DataFrame({"size": [1.0]}), Embedding(("colour",), ()), 2)
