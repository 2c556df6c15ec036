# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from afcl.data import kmeans_split, random_mixture
from afcl.data.unit_check import CONVERSIONS
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.agreement import LARGEST, SHOWN, AgreementRequest, notes_on, select
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import (
    LONGEST,
    MOST_COLUMNS,
    MOST_ROWS,
    Announcement,
    announce,
    check,
)
from afcl.runtime.live.notes import MANY, SiteAgreement
from afcl.runtime.live.settlement import admit, settle
from afcl.scale import Stretch

NONE = np.empty(0)


def site(
    name: str,
    columns: str = "age height",
    n_rows: int = 100,
    extents: Any = None,
    **units: str,
) -> Announcement:
    """Return a site; `extents` maps columns to (low, high, middle)."""
    names = tuple(columns.split())
    table = np.array([(extents or {}).get(c, (0.0, 1.0, 0.5)) for c in names])
    low, high, middle = table.T.astype(np.float64)
    given_units = tuple(units.get(c, "") for c in names)
    said = Announcement(name, n_rows, names, given_units, low, high, middle)
    return check(said, True)


def silent(name: str, columns: str = "age height") -> Announcement:
    """Return a site that tells no extremes."""
    said = replace(site(name, columns), low=NONE, high=NONE, middle=NONE)
    return check(said, False)


def accepted(asked: AgreementRequest, *sites: Announcement):
    """Settle where nobody is refused; return the agreement and the notes.

    Who alone stretches a column is left to its own tests.
    """
    agreement, refusals, notes = settle(asked, sites)
    assert refusals == {}
    assert agreement is not None
    return agreement, [note for note in notes if " alone stretch" not in note]


# ------------------------------------------------------------------ announcing


ROWS = np.array([[1.0, 10.0], [2.0, 40.0], [9.0, 20.0]])


def test_a_site_tells_names_units_rows_and_extents():
    said = announce("north", ["age", "height"], ROWS, {"height": " cm "}, True)

    assert (said.name, said.n_rows) == ("north", 3)
    assert said.columns == ("age", "height")
    assert said.units == ("", "cm")
    assert said.low.tolist() == [1.0, 10.0]
    assert said.high.tolist() == [9.0, 40.0]
    assert said.middle.tolist() == [2.0, 20.0]


def test_with_public_bounds_a_site_tells_nothing_of_its_rows():
    said = announce("north", ["age", "height"], ROWS, {}, False)
    other = announce("north", ["age", "height"], ROWS * 7, {}, False)

    assert said.low.size == said.high.size == said.middle.size == 0
    assert encode(said) == encode(other)


@pytest.mark.parametrize("extremes", [True, False])
def test_a_site_without_rows_can_announce_itself(extremes):
    said = announce("north", ["age"], np.empty((0, 1)), {}, extremes)

    assert (said.n_rows, said.low.size) == (0, 0)


def test_units_that_look_the_same_are_the_same():
    micro = announce("a", ["x"], ROWS[:, :1], {"x": "\u00b5g"}, True)
    mu = announce("b", ["x"], ROWS[:, :1], {"x": "\u03bcg"}, True)

    assert micro.units == mu.units


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"units": {"weight": "kg"}}, "a unit is given for 'weight': no such column"),
        ({"rows": ROWS[:, :1]}, r"2 columns named, but the rows are \(3, 1\)"),
        ({"rows": ROWS[0]}, "2 columns named"),
        ({"name": "a/b"}, "must do as a file name"),
        ({"columns": ["age", "age"]}, "two columns have the same name"),
        ({"rows": ROWS * np.inf}, "must be finite"),
    ],
)
def test_what_nobody_would_accept_is_not_announced(changes, why):
    said: dict[str, Any] = {
        "name": "north",
        "columns": ["age", "height"],
        "rows": ROWS,
        "units": {},
        "extremes": True,
        **changes,
    }
    with pytest.raises(InputError, match=why):
        announce(**said)


@given(hnp.arrays(np.float64, (4, 2), elements=st.floats(-LARGEST, LARGEST)))
def test_honest_rows_are_never_refused(rows):
    said = announce("north", ["age", "height"], rows, {}, True)

    assert check(decode(encode(said)), True).low.tolist() == said.low.tolist()


# ------------------------------------------------------------------ on the wire


@given(
    st.lists(st.text(max_size=5), max_size=3).map(tuple),
    hnp.arrays(np.float64, st.integers(0, 3)),
)
def test_an_announcement_comes_back_as_it_was(columns, low):
    said = Announcement("north", 7, columns, columns, low, low + 1, low)

    back = decode(encode(said))

    assert isinstance(back, Announcement)
    assert back.columns == back.units == columns
    assert back.low.tobytes() == back.middle.tobytes() == low.tobytes()
    assert encode(back) == encode(said)


GOOD = site("north", height="cm")


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("name", "", "needs a name"),
        ("name", None, "needs a name"),
        ("name", "x" * (LONGEST + 1), "needs a name"),
        ("name", "\ud800", "needs a name"),
        ("name", "é" * (LONGEST // 2 + 1), "file name"),
        ("name", "a/b", "file name"),
        ("name", "..", "file name"),
        ("name", ".hidden", "file name"),
        ("name", "-rf", "file name"),
        ("name", "dot.", "file name"),
        ("name", " a", "file name"),
        ("name", "a\n", "file name"),
        ("name", "a\0b", "file name"),
        ("name", "a:b", "file name"),
        ("n_rows", -1, "number of rows"),
        ("n_rows", MOST_ROWS + 1, "number of rows"),
        ("n_rows", True, "number of rows"),
        ("n_rows", 3.0, "number of rows"),
        ("n_rows", 0, "expected 0 minima"),
        ("columns", ["age", "height"], "must be tuples"),
        ("columns", (), "0 columns"),
        ("columns", ("x",) * (MOST_COLUMNS + 1), "columns, expected 1"),
        ("columns", ("age",), "2 units for 1 columns"),
        ("columns", ("age", "age"), "same name"),
        ("columns", ("age", ""), "needs a name"),
        ("columns", ("age", " "), "needs a name"),
        ("columns", ("age", 3), "needs a name"),
        ("columns", ("age", ("b",)), "needs a name"),
        ("columns", ("age", "x" * (LONGEST + 1)), "needs a name"),
        ("columns", ("age", "\udfff"), "needs a name"),
        ("units", None, "must be tuples"),
        ("units", ("", None), "a unit is"),
        ("units", ("", "c\nm"), "a unit is"),
        ("units", ("", "x" * (LONGEST + 1)), "a unit is"),
        ("low", None, "must be float64"),
        ("low", np.zeros(2, np.int64), "must be float64"),
        ("low", NONE, "expected 2 minima"),
        ("low", np.zeros((2, 1)), "expected 2 minima"),
        ("middle", np.zeros(3), "expected 2 minima"),
        ("low", np.array([0.0, np.nan]), "must be finite"),
        ("high", np.array([1.0, np.inf]), "must be finite"),
        ("high", np.array([1.0, 2 * LARGEST]), "must be finite"),
        ("low", np.array([0.0, 2.0]), "outside"),
        ("middle", np.array([0.5, 1.5]), "outside"),
        ("middle", np.array([0.5, -0.5]), "outside"),
    ],
)
def test_what_no_honest_site_says_is_refused(field, value, why):
    with pytest.raises(RejectedMessage, match=why):
        check(replace(GOOD, **{field: value}), True)


def test_extremes_that_were_not_asked_for_are_refused():
    with pytest.raises(RejectedMessage, match="expected 0 minima"):
        check(GOOD, False)
    with pytest.raises(RejectedMessage, match="expected 2 minima"):
        check(silent("north"), True)


@pytest.mark.parametrize("said", [None, 3, "north", (), AgreementRequest()])
def test_something_else_is_refused(said):
    with pytest.raises(RejectedMessage, match="expected an announcement"):
        check(said, True)


garbage = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.text(max_size=4) | st.integers(), max_size=3),
    st.lists(st.text(max_size=4) | st.none(), max_size=3).map(tuple),
    hnp.arrays(st.sampled_from(["<f8", ">f8", "<i8", "|b1"]), st.integers(0, 3)),
    hnp.arrays("<f8", (2, 2)),
)


@given(
    st.dictionaries(
        st.sampled_from([f.name for f in dataclasses.fields(Announcement)]), garbage
    ),
    st.booleans(),
)
def test_garbage_is_refused_and_nothing_else_happens(changes, extremes):
    said = replace(GOOD, **changes)
    why = ""
    try:
        assert check(said, extremes) is said
    except RejectedMessage as error:
        why = str(error)

    assert len(why.splitlines()) <= 1


# ------------------------------------------------------------------ asked


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"columns": ()}, "no columns named"),
        ({"columns": ("a", "b", "a")}, "named twice: 'a'"),
        ({"scale": "odd"}, "scale 'odd' is unknown"),
        ({"scale": {"a": (1, 0)}}, r"the bounds of 'a' are \(1, 0\)"),
        ({"scale": {"a": (0, np.inf)}}, "the bounds of 'a'"),
        ({"scale": {"a": (np.nan, 1)}}, "the bounds of 'a'"),
    ],
)
def test_requests_that_make_no_sense(asked, why):
    with pytest.raises(InputError, match=why):
        AgreementRequest(**asked)


def test_only_min_max_scaling_asks_for_extremes():
    assert AgreementRequest().extremes
    assert not AgreementRequest(scale=None).extremes
    assert not AgreementRequest(scale={"age": (0, 120)}).extremes


# ------------------------------------------------------------------ columns


def test_columns_of_most_sites_in_the_order_of_the_one_that_has_most():
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [
            site("a", "zip c b"),
            site("b", "c a b x"),
            site("c", "b a c y"),
        ],
    )

    assert agreement is not None
    assert agreement.columns == ("c", "a", "b")
    assert list(agreement.rows) == ["b", "c"]
    assert refusals == {
        "a": "a lacks column 'a': add it, or join with --missing impute"
    }


def test_half_of_the_sites_are_not_most():
    agreement, _ = accepted(AgreementRequest(), site("a", "x y"), site("b", "z x"))

    assert agreement.columns == ("x",)


def test_what_the_first_site_lacks_follows_in_the_order_of_the_next():
    agreement, refusals, notes = settle(
        AgreementRequest(), [site("a", "x y"), site("b", "z x"), site("c", "y z")]
    )

    assert agreement is None
    assert refusals == {
        "a": "a lacks column 'z': add it, or join with --missing impute",
        "b": "b lacks column 'y': add it, or join with --missing impute",
        "c": "c lacks column 'x': add it, or join with --missing impute",
    }
    assert notes == ["no site has all of 'x', 'y', 'z': name the columns to use"]


def test_named_columns_are_taken_as_they_are():
    agreement, refusals, _ = settle(
        AgreementRequest(columns=("height", "zip")),
        [site("a"), site("b"), site("c", "zip age height")],
    )

    assert agreement is not None
    assert agreement.columns == ("height", "zip")
    assert agreement.rows == {"c": 100}
    assert set(refusals) == {"a", "b"}


@pytest.mark.parametrize("own", ["Age", "AGE", "a ge", " age"])
def test_case_and_white_space_do_not_matter(own):
    other = replace(site("site-b"), columns=(own, "height"))

    agreement, notes = accepted(
        AgreementRequest(), site("site-a"), other, site("site-c")
    )

    assert agreement.columns == ("age", "height")
    assert notes == [f"site-b: {own!r} is 'age'"]
    assert admit(agreement, AgreementRequest(), other) == (None, notes)


def test_a_column_goes_by_the_name_that_is_asked_for():
    asked = AgreementRequest(columns=("AGE",))

    agreement, notes = accepted(asked, site("a"), site("b"), site("c", "AGE"))

    assert agreement.columns == ("AGE",)
    assert "a: 'age' is 'AGE'" in notes


def test_two_columns_that_might_be_meant_are_what_they_are():
    both = site("b", "age Age")

    agreement, _ = accepted(AgreementRequest(), site("a", "age"), both)

    assert agreement.columns == ("age",)
    _, refusals, _ = settle(AgreementRequest(columns=("AGE",)), [site("a"), both])
    assert refusals["b"] == "b lacks column 'AGE' (it has 'age'): rename it"


@pytest.mark.parametrize("own", ["a_ge", "a-ge", "age_"])
def test_a_similar_name_is_suggested(own):
    _, refusals, _ = settle(
        AgreementRequest(),
        [site("site-a"), site("site-b", f"{own} height"), site("site-c")],
    )

    assert refusals == {
        "site-b": f"site-b lacks column 'age' (it has {own!r}): rename it"
    }


def test_spaces_and_composed_characters_are_similar_too():
    columns = ("body weight", "taille é")
    said = Announcement(
        "b", 9, ("body_weight", "taille e\u0301"), ("", ""), NONE, NONE, NONE
    )

    _, refusals, _ = settle(AgreementRequest(columns=columns, scale=None), [said])

    assert refusals["b"].startswith("b lacks columns 'body weight' (it has 'body_")
    assert refusals["b"].endswith(": rename them")


def test_an_agreed_column_is_not_suggested():
    _, refusals, _ = settle(
        AgreementRequest(columns=("a_b", "ab")), [site("x", "ab c")]
    )

    assert refusals == {"x": "x lacks column 'a_b': add it"}


def test_several_missing_columns_are_named():
    asked = AgreementRequest(columns=("age", "height", "weight"))

    _, refusals, _ = settle(asked, [site("b", "a_ge weight")])

    line = "b lacks columns 'age' (it has 'a_ge'), 'height': rename or add them"
    assert refusals == {"b": line}


def test_many_missing_columns_are_cut_short():
    asked = AgreementRequest(columns=tuple(f"c{i}" for i in range(SHOWN + 1)))

    _, refusals, _ = settle(asked, [site("b", "x")])

    assert refusals["b"].endswith(f"'c7', … ({SHOWN + 1} in all): add them")


def test_columns_beyond_the_agreed_ones_are_noted():
    _, notes = accepted(
        AgreementRequest(),
        site("a"),
        site("b"),
        site("site-c", "zip age height street"),
    )

    assert notes == ["site-c: not used: 'zip', 'street'"]


def test_no_common_column():
    agreement, refusals, notes = settle(
        AgreementRequest(), [site("a", "x"), site("b", "y z")]
    )

    assert agreement is None
    assert refusals["b"] == (
        "b has 'y', 'z', but more than half of the sites have no column in common: "
        "give the same columns the same names"
    )
    assert set(refusals) == {"a", "b"}
    assert notes == []


def test_columns_that_differ_only_in_writing_are_noted():
    _, notes = accepted(AgreementRequest(), site("a", "x a_ge"), site("b", "x age"))

    assert notes[0] == "not used, as sites write it differently: 'a_ge', 'age'"


def test_nobody_is_there():
    assert settle(AgreementRequest(), []) == (None, {}, [])


# ------------------------------------------------------------------ names and rows


def test_sites_need_names_of_their_own():
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [site("a"), site("North"), site("north"), site("b"), site("b")],
    )

    assert agreement is not None
    assert list(agreement.rows) == ["a"]
    assert set(refusals) == {"North", "north", "b"}
    assert refusals["b"] == (
        "2 sites are called b (in upper or lower case): give each a name of its own"
    )


def test_too_few_rows():
    agreement, refusals, _ = settle(
        AgreementRequest(min_rows=5), [site("a", n_rows=5), site("b", n_rows=4)]
    )

    assert agreement is not None
    assert agreement.rows == {"a": 5}
    line = "b has 4 rows, a site needs at least 5: add rows or leave the site out"
    assert refusals == {"b": line}


@pytest.mark.parametrize("min_rows", [0, 1])
def test_without_rows_nobody_takes_part(min_rows):
    said = announce("a", ["age"], np.empty((0, 1)), {}, True)

    agreement, refusals, _ = settle(AgreementRequest(min_rows=min_rows), [said])

    assert agreement is None
    assert "a has 0 rows, a site needs at least 1" in refusals["a"]


def test_columns_of_sites_without_rows_do_not_count():
    empty = [announce(name, ["zip"], np.empty((0, 1)), {}, True) for name in "xyz"]

    agreement, refusals, _ = settle(AgreementRequest(), [site("a"), *empty])

    assert agreement is not None
    assert agreement.columns == ("age", "height")
    assert set(refusals) == {"x", "y", "z"}


def test_a_far_smaller_site_is_noted():
    sites = [site("a", n_rows=1000), site("b", n_rows=1000), site("c", n_rows=50)]

    assert accepted(AgreementRequest(), *sites)[1] == []
    _, notes = accepted(AgreementRequest(), *sites[:2], site("c", n_rows=49))
    assert notes == ["c: 49 rows, far fewer than the others (median 1000)"]


# ------------------------------------------------------------------ units


def test_another_unit_is_refused():
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [site("a", height="m"), site("site-b", height="cm"), site("c", height="m")],
    )

    assert agreement is not None
    assert agreement.units == ("", "m")
    line = "site-b gives 'height' in cm, the others in m: convert it"
    assert refusals == {"site-b": line}


def test_several_other_units():
    _, refusals, _ = settle(
        AgreementRequest(),
        [
            site("a", age="y", height="m"),
            site("b", age="d", height="cm"),
            site("c", age="y", height="m"),
        ],
    )

    line = "b gives 'age' in d, the others in y; 'height' in cm, the others in m"
    assert refusals == {"b": f"{line}: convert them"}


def test_an_undeclared_unit_is_accepted():
    agreement, _ = accepted(
        AgreementRequest(), site("a"), site("b", height="m"), site("c")
    )

    assert agreement.units == ("", "m")


def test_units_of_refused_sites_do_not_bind():
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [site("a", age="y"), site("b", age="y"), site("c", age="d", height="cm")],
    )

    assert agreement is not None
    assert agreement.units == ("y", "")
    assert set(refusals) == {"c"}


def test_of_units_declared_equally_often_the_first_by_name():
    agreement, refusals, _ = settle(
        AgreementRequest(), [site("a", age="y"), site("b", age="d")]
    )

    assert agreement is not None
    assert agreement.units == ("d", "")
    assert set(refusals) == {"a"}


def test_units_of_columns_that_are_not_used_do_not_matter():
    accepted(
        AgreementRequest(columns=("age",)),
        site("a", height="m"),
        site("b", height="cm"),
    )


# ------------------------------------------------------------------ other units

#: Weights of adults in kg, at sites that differ a little: low, high, median.
WEIGHTS = {"a": (42, 120, 70), "c": (39, 131, 75), "d": (45, 118, 68)}


def unit_notes(own, others=None, column="weight"):
    """Notes on site-b, whose column has these extents, beside the others."""
    table = WEIGHTS if others is None else others
    sites = [site(n, column, extents={column: e}) for n, e in table.items()]
    _, notes = accepted(
        AgreementRequest(), *sites, site("site-b", column, extents={column: own})
    )
    return notes


def test_grams_among_kilograms():
    assert unit_notes((41_000, 125_000, 72_000)) == [
        "site-b: column 'weight' looks about 1000 times as large as at the others: "
        "another unit? (kg and g)"
    ]


def test_tonnes_among_kilograms():
    assert unit_notes((0.041, 0.125, 0.072)) == [
        "site-b: column 'weight' looks about 1000 times as small as at the others: "
        "another unit? (kg and g)"
    ]


def test_fahrenheit_among_celsius():
    celsius = {"a": (-8, 27, 9), "c": (-5, 30, 11), "d": (-10, 26, 8)}

    assert unit_notes((16, 82, 50), celsius, "temp") == [
        "site-b: column 'temp' looks about 1.8 times as large as at the others, and 32 "
        "off: another unit? (°C and °F)"
    ]
    fahrenheit = {"a": (16, 80, 48), "c": (20, 86, 51), "d": (14, 79, 46)}
    (note,) = unit_notes((-9, 28, 9), fahrenheit, "temp")
    assert "1.8 times as small" in note


@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda c: c.units)
@pytest.mark.parametrize("larger", [True, False])
def test_every_conversion_is_recognised(conversion, larger):
    heights = {"a": (1.5, 2.0, 1.72), "c": (1.49, 2.01, 1.7), "d": (1.51, 1.97, 1.71)}
    own = (1.52, 2.02, 1.73)

    def moved(extents):
        return tuple(conversion.factor * e + conversion.offset for e in extents)

    if larger:
        note, *more = unit_notes(moved(own), heights, "size")
    else:
        note, *more = unit_notes(own, {n: moved(e) for n, e in heights.items()}, "size")

    assert more == []
    size = "large" if larger else "small"
    assert f"about {conversion.factor:.10g} times as {size} as" in note
    assert conversion.units in note


def test_columns_with_the_same_looks_share_a_note():
    few = dict.fromkeys("xy", (40, 120, 70))
    many = dict.fromkeys("xy", (40e3, 120e3, 70e3))
    sites = [site(name, "x y", extents=few) for name in "abc"]

    _, notes = accepted(AgreementRequest(), *sites, site("d", "x y", extents=many))

    assert notes == [
        "d: columns 'x', 'y' look about 1000 times as large as at the others: "
        "another unit? (kg and g)"
    ]


@pytest.mark.parametrize(
    ("own", "others"),
    [
        pytest.param((41, 125, 72), None, id="the same unit"),
        pytest.param((41_000, 41_000, 41_000), None, id="constant here"),
        pytest.param(
            (41_000, 125_000, 72_000),
            {"a": (70, 70, 70), "c": (70, 70, 70)},
            id="constant there",
        ),
        pytest.param((41_000, 125_000, 72_000), {"a": (42, 120, 70)}, id="one other"),
        pytest.param((72_000, 72_100, 72_050), None, id="median only"),
        pytest.param((41, 84_000, 70), None, id="range only"),
        pytest.param((300_000, 900_000, 500_000), None, id="no known factor"),
        pytest.param((-125_000, -41_000, -72_000), None, id="the other sign"),
        pytest.param(
            (-3000, 3100, 40),
            {"a": (-3, 3.1, 0.04), "c": (-3, 3, 0.05), "d": (-3, 3, 0.04)},
            id="centred",
        ),
        pytest.param(
            (0, 25, 10), {"a": (0, 10, 4), "c": (0, 10.5, 4.1)}, id="overlapping"
        ),
        pytest.param(
            (400, 1200, 700),
            {"a": (40, 120, 70), "c": (4, 12, 7), "d": (0.4, 1.2, 0.7)},
            id="others disagree",
        ),
        pytest.param((0, 0, 0), {"a": (0, 0, 0), "c": (0, 0, 0)}, id="zeros"),
        pytest.param(
            (-LARGEST, LARGEST, LARGEST),
            {"a": (0, 5e-324, 5e-324), "c": (0, 5e-324, 5e-324)},
            id="as far apart as can be",
        ),
    ],
)
def test_no_false_alarm(own, others):
    assert [note for note in unit_notes(own, others) if "another unit" in note] == []


def test_two_of_six_in_another_unit_are_both_noted():
    grams = {"e": (42e3, 119e3, 71e3), "f": (40e3, 125e3, 73e3)}

    notes = unit_notes((42, 121, 71), {**WEIGHTS, **grams})

    assert [note.split(":")[0] for note in notes] == ["e", "f"]


def test_looks_need_extremes():
    _, notes = accepted(
        AgreementRequest(scale=None), silent("a"), silent("b"), silent("c")
    )

    assert notes == []


@pytest.mark.slow
def test_sites_that_merely_differ_are_rarely_noted(seed):
    noted = columns = 0
    for run in range(15):
        rng = np.random.default_rng((seed, run))
        X, _ = random_mixture(rng)
        n_sites = int(rng.integers(3, 13))
        owner = kmeans_split(X, n_sites, rng)
        names = [f"c{j}" for j in range(X.shape[1])]
        sites = [
            announce(f"s{i}", names, X[owner == i], {}, True) for i in range(n_sites)
        ]
        _, notes = accepted(AgreementRequest(), *sites)
        noted += sum(note.count("'") // 2 for note in notes if "unit" in note)
        columns += X.shape[1]

    assert noted <= 0.01 * columns


# ------------------------------------------------------------------ constant columns


def test_a_column_that_is_constant_everywhere_is_noted():
    flat = {"age": (4.0, 4.0, 4.0)}

    agreement, notes = accepted(
        AgreementRequest(), site("a", extents=flat), site("b", extents=flat)
    )

    assert notes == ["without effect, as all rows have one value there: 'age'"]
    assert agreement.box.scale(np.array([[4.0, 0.5]])).tolist() == [[0.0, 0.5]]


def test_a_column_that_is_constant_at_each_site_is_not():
    first, second = {"age": (4.0, 4.0, 4.0)}, {"age": (5.0, 5.0, 5.0)}

    assert (
        accepted(
            AgreementRequest(), site("a", extents=first), site("b", extents=second)
        )[1]
        == []
    )


# ------------------------------------------------------------------ scale


def test_min_max_over_the_accepted_sites():
    wide = {"age": (-100.0, 100.0, 0.0)}
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [
            site("a", extents={"age": (1.0, 5.0, 2.0)}),
            site("b", "height age", extents={"age": (3.0, 9.0, 4.0)}),
            site("c", "age", extents=wide),
        ],
    )

    assert agreement is not None
    assert set(refusals) == {"c"}
    assert agreement.box.low.tolist() == [1.0, 0.0]
    assert agreement.box.span.tolist() == [8.0, 1.0]
    assert agreement.stats.middle.tolist() == [[2.0, 0.5], [4.0, 0.5]]
    assert agreement.stats.span.tolist() == [[4.0, 1.0], [6.0, 1.0]]


def test_given_bounds():
    asked = AgreementRequest(scale={"height": (1, 3), "zip": (0, 9), "age": (0, 100)})

    agreement, _ = accepted(asked, silent("a"), silent("b"))

    assert agreement.box.low.tolist() == [0.0, 1.0]
    assert agreement.box.span.tolist() == [100.0, 2.0]
    assert agreement.stats.low.shape == (2, 0)


def test_missing_bounds_are_named():
    with pytest.raises(InputError, match="no bounds are given for 'height', 'x': give"):
        settle(AgreementRequest(scale={"age": (0, 9)}), [silent("a", "height age x")])


def test_no_scale():
    agreement, _ = accepted(AgreementRequest(scale=None), silent("a"))

    assert agreement.box.low.tolist() == [0.0, 0.0]
    assert agreement.box.span.tolist() == [1.0, 1.0]


def test_the_widest_numbers_have_a_box():
    low, high = {"age": (-LARGEST, 0, 0)}, {"age": (0, LARGEST, 0)}

    agreement, _ = accepted(
        AgreementRequest(), site("a", extents=low), site("b", extents=high)
    )

    assert np.isfinite(agreement.box.span).all()


# ------------------------------------------------------------------ later


WISHES = AgreementRequest(min_rows=10)
ADULTS = {"weight": (42, 121, 71)}
SETTLED, _ = accepted(
    WISHES,
    *(
        site(name, "weight age", extents={"weight": extents}, age="y")
        for name, extents in WEIGHTS.items()
    ),
)


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (site("new", "age weight", extents=ADULTS), None),
        (site("a", "age weight", extents=ADULTS), None),
        (site("A", "age weight"), "A differs only by case from a: choose another name"),
        (
            site("new", "age weight", 9),
            "new has 9 rows, a site needs at least 10: add rows or leave the site out",
        ),
        (
            site("new", "age wei_ght"),
            "new lacks column 'weight' (it has 'wei_ght'): rename it",
        ),
        (
            site("new", "age weight", age="d"),
            "new gives 'age' in d, the others in y: convert it",
        ),
    ],
)
def test_a_late_site_is_measured_against_the_agreement(said, refusal):
    assert admit(SETTLED, WISHES, said) == (refusal, [])


def test_a_late_site_is_noted_like_any_other():
    grams = {"weight": (41e3, 125e3, 72e3)}

    said = site("new", "zip weight age", 2000, extents=grams)
    assert admit(SETTLED, WISHES, said) == (
        None,
        [
            "new: not used: 'zip'",
            "new: column 'weight' looks about 1000 times as large as at the others: "
            "another unit? (kg and g)",
        ],
    )
    rich = replace(SETTLED, rows=dict.fromkeys(SETTLED.rows, 1000))
    _, notes = admit(rich, WISHES, site("new", "weight age", 10, extents=ADULTS))
    assert notes == ["new: 10 rows, far fewer than the others (median 1000)"]


def test_a_returning_site_is_not_compared_with_itself():
    two = dict(list(WEIGHTS.items())[:2])
    agreement, _ = accepted(
        AgreementRequest(),
        *(site(n, "weight", extents={"weight": e}) for n, e in two.items()),
    )
    grams = site("a", "weight", 90, extents={"weight": (41e3, 125e3, 72e3)})

    assert admit(agreement, AgreementRequest(), grams) == (
        None,
        ["a: is back with 90 rows, it had 100"],
    )


def test_a_late_site_without_extremes():
    agreement, _ = accepted(AgreementRequest(scale=None), *map(silent, "abc"))

    assert admit(agreement, AgreementRequest(scale=None), silent("d")) == (None, [])


# ------------------------------------------------------------------ finding the columns


def test_a_site_finds_the_agreed_columns():
    places = select(("age", "height"), ("zip", "height", "age"))

    assert places.dtype == np.int64
    assert places.tolist() == [2, 1]
    with pytest.raises(InputError, match="not in this table: 'age'"):
        select(("age", "height"), ("height", "zip"))


# ------------------------------------------------------------------ properties


@st.composite
def federations(draw):
    """A asked and sites, some of which share columns, names or nothing at all."""
    numbers = st.floats(-1e6, 1e6)
    sites = []
    for name in draw(st.lists(st.sampled_from("abcdefgAB"), max_size=7)):
        columns = draw(
            st.lists(st.sampled_from("xyzwX"), min_size=1, max_size=4, unique=True)
        )
        rows = draw(hnp.arrays(np.float64, (3, len(columns)), elements=numbers))
        units = draw(
            st.dictionaries(st.sampled_from(columns), st.sampled_from(["m", "cm"]))
        )
        rows = rows[: draw(st.sampled_from([0, 2, 3, 3, 3]))]
        sites.append(announce(name, columns, rows, units, True))
    columns = draw(st.none() | st.permutations(("x", "y")).map(tuple))
    return AgreementRequest(columns=columns, min_rows=draw(st.integers(0, 3))), sites


def assert_equal(one: SiteAgreement, other: SiteAgreement) -> None:
    """Both are the same to the bit, and in the same order."""
    assert one.columns == other.columns
    assert one.units == other.units
    assert list(one.rows.items()) == list(other.rows.items())
    assert encode(one.box) == encode(other.box)
    for part, counterpart in zip(one.stats, other.stats, strict=True):
        assert part.tobytes() == counterpart.tobytes()


@given(federations(), st.randoms(use_true_random=False))
def test_the_order_of_announcements_does_not_matter(federation, random):
    asked, sites = federation
    agreement, refusals, notes = settle(asked, sites)
    random.shuffle(sites)

    again, refused, noted = settle(asked, sites)

    assert (noted, list(refused.items())) == (notes, list(refusals.items()))
    if agreement is None or again is None:
        assert agreement is again
    else:
        assert_equal(again, agreement)


@given(federations())
def test_the_accepted_sites_settle_the_same_again(federation):
    asked, sites = federation
    agreement, _, _ = settle(asked, sites)
    if agreement is None:
        return
    asked = replace(asked, columns=agreement.columns)

    again, _ = accepted(asked, *(s for s in sites if s.name in agreement.rows))

    assert_equal(again, agreement)


@given(federations())
def test_every_site_is_accepted_or_refused(federation):
    asked, sites = federation
    agreement, refusals, notes = settle(asked, sites)
    rows = {} if agreement is None else agreement.rows

    assert rows.keys() | refusals.keys() == {said.name for said in sites}
    assert not rows.keys() & refusals.keys()
    for line in [*refusals.values(), *notes]:
        assert len(line.splitlines()) == 1
    if agreement is None:
        return
    assert rows
    for said in (said for said in sites if said.name in rows):
        assert said.n_rows == rows[said.name] >= max(asked.min_rows, 1)
        places = select(agreement.columns, said.under(agreement.columns).columns)
        # Behind walls lies who alone stretched a column, and there it has no say.
        if not agreement.box.walls:
            assert all(agreement.box.low <= said.low[places])
            assert all(agreement.box.scale(said.high[places]) <= 1)
        for place, unit in zip(places, agreement.units, strict=True):
            assert said.units[place] in ("", unit)


@given(federations())
def test_who_was_accepted_may_come_back(federation):
    asked, sites = federation
    agreement, refusals, _ = settle(asked, sites)
    if agreement is None:
        return
    for said in sites:
        refusal, notes = admit(agreement, asked, said)
        if said.name in agreement.rows:
            assert refusal is None
        if refusal is not None:
            assert notes == []
            assert said.name in refusals


def test_among_very_many_sites_the_same_is_noted():
    few = [site(f"site-{i:03}", "x", 100, {"x": (1, 9 + i % 3, 4)}) for i in range(9)]
    odd = site("odd", "x", 2, {"x": (1000, 9000, 4000)})
    _, noted = accepted(AgreementRequest(), *few, odd)
    many = [replace(few[i % 9], name=f"site-{i:03}") for i in range(MANY + 9)]
    agreement, notes = accepted(AgreementRequest(), *many, odd)
    assert notes == noted
    assert len(notes) == 2
    assert admit(agreement, AgreementRequest(), replace(odd, name="late")) == (
        None,
        [note.replace("odd", "late") for note in noted],
    )


# ------------------------------------------------------------------ who is alone


def named(place: int) -> str:
    return f"site-{place + 1}"


@pytest.mark.parametrize(
    ("stretches", "columns", "text"),
    [
        (
            [Stretch(1, (3,), 300.2)],
            ("x", "y"),
            "site-4 alone stretches column 'y' 300 times as far as all others reach: "
            "it has no say there, far rows count as just outside; check units, or give "
            "--ranges",
        ),
        (
            [Stretch(0, (1, 3), 9.0), Stretch(2, (1, 3), np.inf)],
            (),
            "site-2, site-4 alone stretch columns 1, 3 up to over a million times as "
            "far as all others reach: they have no say there, far rows count as just "
            "outside; check units, or give --ranges",
        ),
    ],
)
def test_who_alone_stretches_columns_is_named(stretches, columns, text):
    assert notes_on(stretches, [10] * 5, named, columns) == [text]


def test_of_two_sites_one_is_named_and_nobody_left_out():
    (text,) = notes_on([Stretch(0, (1,), 40.0)], [10, 10], named)
    assert text == (
        "site-2 alone stretches column 1 40 times as far as the other one reaches; "
        "check units, or give --ranges"
    )


@pytest.mark.parametrize(
    ("rows", "notes"),
    [
        (
            [5, 995],
            ["site-2 alone holds 99 % of all rows: the answer is mostly its own"],
        ),
        ([10, 90], []),
        ([100], []),
        ([0, 0], []),
    ],
)
def test_who_alone_holds_nearly_all_rows_is_named(rows, notes):
    assert notes_on([], rows, named) == notes


def test_a_limit_on_rows_allows_for_one():
    with pytest.raises(InputError, match="allow at least one row"):
        AgreementRequest(max_rows=0)
