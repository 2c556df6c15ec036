# SPDX-License-Identifier: Apache-2.0
"""Settling categories, their levels, and columns that some sites lack: pure cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.terms import DECLARED, HASHED, Category
from afcl.data.features import WIDTH
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.agreement import AgreementRequest
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import Announcement, check
from afcl.runtime.live.level_names import hashed, mark_of, names_key, strictest
from afcl.runtime.live.settlement import admit, settle
from afcl.runtime.live.spelling import called, one_name_each

NAN = float("nan")


def site(name, columns="age sex", may_lack=False, mark="", middle=0.5, **levels):
    """Return a site; columns with levels are categories: sex="male female"."""
    names = tuple(columns.split())
    table = [(NAN,) * 3 if c in levels else (0.0, 2.0 * middle, middle) for c in names]
    low, high, medians = np.array(table).T
    kinds = tuple(
        Category(c, tuple(levels[c].split()), bool(mark)) for c in names if c in levels
    )
    said = Announcement(
        *(name, 100, names, ("",) * len(names), low, high, medians),
        categories=kinds,
        names_key=mark,
        may_lack=may_lack,
    )
    return check(said, True)


def accepted(asked, *sites):
    agreement, refusals, notes = settle(asked, sites)
    assert refusals == {}
    assert agreement is not None
    return agreement, notes


# ------------------------------------------------------------------ levels


def test_all_levels_that_a_site_names_count():
    agreement, notes = accepted(
        AgreementRequest(),
        site("a", sex="Male female"),
        site("b", sex="male"),
        site("c", sex="other female"),
    )
    assert agreement.categories == (Category("sex", ("female", "Male", "other")),)
    assert agreement.columns == ("age", "sex=female", "sex=Male", "sex=other")
    assert agreement.embedding.columns == ("age", "sex")
    assert agreement.box.low.tolist() == [0.0] * 4
    assert agreement.box.span.tolist() == [1.0] + [WIDTH] * 3
    assert agreement.box.typical is None
    assert notes == []


def test_declared_levels_are_the_only_ones():
    declared = (Category("sex", ("male", "female")),)
    sites = [site(name, sex="") for name in "ab"] + [site("c", sex="other")]
    agreement, _ = accepted(AgreementRequest(categories=declared), *sites)
    assert agreement.categories == declared


@pytest.mark.parametrize("levels", ["", "male"])
def test_a_category_that_tells_nothing_apart_is_left_out(levels):
    agreement, notes = accepted(
        AgreementRequest(), *(site(name, sex=levels) for name in "abc")
    )
    assert agreement.columns == ("age",)
    assert notes[0] == (
        "column 'sex' left out: no two levels of it have enough rows at a site"
    )
    with pytest.raises(InputError, match="no column is left: column 'sex' left out"):
        settle(AgreementRequest(), [site(name, "sex", sex=levels) for name in "abc"])


def test_too_many_levels_are_no_kinds_of_rows():
    many = " ".join(f"l{i}" for i in range(40))
    more = " ".join(f"m{i}" for i in range(40))
    agreement, notes = accepted(
        AgreementRequest(), site("a", sex=many), site("b", sex=more)
    )
    assert agreement.columns == ("age",)
    assert "80 levels are no kinds of rows" in notes[0]


def test_with_noise_levels_must_be_declared():
    bounds = {"age": (0.0, 1.0)}
    asked = AgreementRequest(scale=bounds, names=DECLARED)
    silent = [
        replace(site(name, sex=""), low=(e := np.empty(0)), high=e, middle=e)
        for name in "abc"
    ]
    with pytest.raises(InputError, match=r"serve --category 'sex=LEVEL\|LEVEL'"):
        settle(asked, silent)
    declared = replace(asked, categories=(Category("sex", ("f", "m")),))
    agreement, _ = accepted(declared, *silent)
    assert agreement.box.span.tolist() == [1.0, WIDTH, WIDTH]


def test_two_columns_cannot_have_one_name():
    sites = [site(name, "sex sex=f", sex="f m") for name in "ab"]
    with pytest.raises(InputError, match="two columns would be called 'sex=f'"):
        settle(AgreementRequest(), sites)


# ------------------------------------------------------------------ kinds


def test_a_column_is_what_most_sites_take_it_for():
    agreement, refusals, _ = settle(
        AgreementRequest(),
        [site("a", sex="f m"), site("b", sex="f m"), site("c")],
    )
    assert agreement is not None
    assert list(agreement.rows) == ["a", "b"]
    assert refusals == {
        "c": "c has numbers in 'sex', a category at the others: join with "
        "--category sex"
    }
    agreement, refusals, _ = settle(
        AgreementRequest(), [site("a", sex="f m"), site("b"), site("c")]
    )
    assert refusals == {
        "a": "a has a category in 'sex', numbers at the others: write numbers, or join "
        "with --drop sex --missing impute"
    }


def test_of_as_many_as_others_it_is_a_number():
    agreement, refusals, _ = settle(
        AgreementRequest(), [site("a", sex="f m"), site("b")]
    )
    assert list(refusals) == ["a"]
    assert agreement is not None
    assert agreement.columns == ("age", "sex")


def test_a_late_site_fits_the_kinds_that_were_agreed():
    asked = AgreementRequest()
    agreement, _ = accepted(asked, site("a", sex="f m"), site("b", sex="f m"))
    assert admit(agreement, asked, site("c", sex="other f")) == (None, [])
    refusal, _ = admit(agreement, asked, site("c"))
    assert refusal is not None
    assert "--category sex" in refusal


# ------------------------------------------------------------------ names


def test_hashes_under_another_key_cannot_be_compared():
    asked = AgreementRequest(names=HASHED)
    sites = [
        site("a", sex="#1 #2", mark="k1"),
        site("b", sex="#1 #2", mark="k1"),
        site("c", sex="#8 #9", mark="run"),
        site("d", "age sex", sex="", mark=""),
    ]
    agreement, refusals, _ = settle(asked, sites)
    assert agreement is not None
    assert list(agreement.rows) == ["a", "b", "d"]
    assert agreement.categories == (Category("sex", ("#1", "#2"), True),)
    assert "join with the --names-key that they have" in refusals["c"]
    assert "--names-key" in str(admit(agreement, asked, sites[2])[0])


def test_a_hash_depends_on_key_column_and_level_but_not_on_spelling(tmp_path):
    file = tmp_path / "names.key"
    file.write_bytes(b"secret\n")
    key = names_key(str(file))
    assert key == b"secret\n"
    texts = [("male", "sex"), ("female", "sex"), ("male", "kind")]
    made = {hashed(*each, k) for each in texts for k in (key, names_key(""))}
    assert len(made) == 6
    assert hashed(" MALE", "Sex ", key) == hashed("male", "sex", key)
    assert mark_of("", key, "run") == "public"
    assert mark_of(str(file), key, "run") != mark_of(str(file), key, "other")
    file.write_bytes(b"")
    for path, why in ((file, "is empty"), (tmp_path / "no", "cannot be read")):
        with pytest.raises(InputError, match=why):
            names_key(str(path))
    assert strictest("clear", "declared", "hashed") == "declared"


# ------------------------------------------------------------------ lacking


def test_a_site_may_lack_what_two_others_have():
    sites = [
        site("a", "x y", middle=1.0),
        site("b", "x y", middle=3.0),
        site("c", "x", may_lack=True),
    ]
    agreement, notes = accepted(AgreementRequest(), *sites)
    assert agreement.lacking == {"c": ("y",)}
    assert agreement.box.typical is not None
    assert agreement.box.typical.tolist() == [1.0, 2.0]
    assert notes[-1] == "c: lacks 'y', what is usual at the others stands there"
    assert sites[2].ranges(agreement.embedding).low.tolist()[0] == 0.0
    assert np.isnan(sites[2].ranges(agreement.embedding).low[1])
    assert admit(agreement, AgreementRequest(), sites[2]) == (None, notes[-1:])


def test_of_a_category_that_is_lacking_no_level_stands_there():
    sites = [site(name, sex="f m") for name in "ab"]
    agreement, _ = accepted(AgreementRequest(), *sites, site("c", "age", True))
    assert agreement.box.typical is not None
    assert agreement.box.typical.tolist() == [0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("sites", "asked", "line"),
    [
        (
            [site("a", "x y"), site("b", "x y"), site("c", "x")],
            AgreementRequest(),
            "c lacks column 'y': add it, or join with --missing impute",
        ),
        (
            [site("a", "x y"), site("c", "x", True)],
            AgreementRequest(columns=("x", "y")),
            "c lacks column 'y': add it",
        ),
        (
            [site("a", "x y"), site("b", "x y"), site("c", "z", True)],
            AgreementRequest(),
            "c lacks columns 'x', 'y': add them, or join with --missing impute",
        ),
    ],
)
def test_who_may_not_lack_a_column_is_told_so(sites, asked, line):
    _, refusals, _ = settle(asked, sites)
    assert refusals == {"c": line}


def test_whoever_goes_is_no_holder():
    """`b` has y in another unit: of those that are left only one has it."""
    sites = [
        replace(site("a", "x y"), units=("", "kg")),
        replace(site("aa", "x y"), units=("", "g")),
        site("c", "x", True),
    ]
    agreement, refusals, _ = settle(AgreementRequest(), sites)
    assert agreement is not None
    assert set(refusals) == {"a", "c"}


# ------------------------------------------------------------------ strict


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"categories": (Category("zip"),)}, "one of its columns"),
        ({"categories": (Category("sex"), Category("sex"))}, "named once"),
        ({"categories": (Category("sex", ("f", "F")),)}, "told once"),
        ({"categories": (Category("sex", ("f\n",)),)}, "a word"),
        ({"categories": (Category("sex", ("",)),)}, "a word"),
        ({"categories": ()}, "must be finite"),
        ({"categories": (Category("age"), Category("sex"))}, "has no extremes"),
        ({"names_key": "a\nb"}, "marks its key"),
        ({"may_lack": 1}, "may lack"),
    ],
)
def test_what_no_honest_site_says_of_categories(changes, why):
    with pytest.raises(RejectedMessage, match=why):
        check(replace(site("a", sex="f m"), **changes), True)


def test_announcements_with_categories_travel():
    said = site("a", sex="f m", may_lack=True, mark="k")
    back = decode(encode(said))
    assert back.categories == said.categories
    assert encode(back) == encode(said)


@given(st.data())
def test_the_accepted_settle_the_same_again(data):
    """Whoever is refused has a vote on kinds and columns, and none on the rest."""
    sites = []
    for name in data.draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        columns = data.draw(
            st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)
        )
        kinds = {
            c: " ".join(data.draw(st.sets(st.sampled_from("fmo"))))
            for c in columns
            if data.draw(st.booleans())
        }
        sites.append(site(name, " ".join(columns), data.draw(st.booleans()), **kinds))
    try:
        agreement, refusals, _ = settle(AgreementRequest(), sites)
    except InputError:  # no column is left
        return
    if agreement is None:
        return
    asked = AgreementRequest(
        columns=agreement.embedding.columns, categories=agreement.categories
    )
    again, _ = accepted(asked, *(s for s in sites if s.name not in refusals))
    assert encode(again.box) == encode(agreement.box)
    assert (again.columns, again.rows) == (agreement.columns, agreement.rows)
    assert again.categories == agreement.categories
    for said in sites:
        if said.name in agreement.rows:
            assert admit(agreement, AgreementRequest(), said)[0] is None
            ranges = said.ranges(agreement.embedding)
            assert ranges.low.shape == agreement.box.low.shape


def test_spellings():
    assert one_name_each([["a"], ["A", "b"], ["A"]], ["B"]) == ["B", "A"]
    assert called(["A", "c"], ["a", "b"]) == {"A": "a", "c": "c"}
    assert called(["A", "a "], ["a"]) == {"A": "A", "a ": "a "}
