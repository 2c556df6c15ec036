# SPDX-License-Identifier: Apache-2.0
"""Levels as users write them, and what who insists on one takes part in."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.methods.presets import at_default_level
from afcl.privacy import (
    Level,
    default_level,
    level_for,
    levels,
    parse_level,
    small_sites,
    too_fine,
    too_small,
)
from afcl.registry import LEVELS as FAMILIES

LEVELS = [
    "exact",
    "affine",
    "summary",
    "grouped(2)",
    "grouped(5)",
    "grouped(9)",
    "dp(8)",
    "dp(4)",
    "dp(4, 1e-06)",
    "dp-rounds(8)",
    "secure+grouped(5)",
    "secure+dp(4)",
    "secure(he)+grouped(5)",
    "secure(he)+dp(4, 1e-06)",
    "secure+summary",
    "secure(he)+summary",
    "secure(plain)+summary",
]


@pytest.mark.parametrize("text", LEVELS)
def test_a_level_is_written_as_it_is_read(text):
    assert str(parse_level(text)) == text


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("grouped", Level("grouped", 5)),
        ("grouped(m=7)", Level("grouped", 7)),
        ("secure", Level("grouped", 5, secure=True)),
        ("Secure + Grouped(6)", Level("grouped", 6, secure=True)),
        ("secure(he)", Level("grouped", 5, secure=True, scheme="he")),
        ("Secure (HE) + dp(2)", Level("dp", 0, 2.0, 1e-5, secure=True, scheme="he")),
        ("dp(epsilon=2,delta=1e-7)", Level("dp", epsilon=2.0, delta=1e-7)),
        ("dp(.5)", Level("dp", epsilon=0.5, delta=1e-5)),
    ],
)
def test_shorter_ways_to_write(text, level):
    assert parse_level(text) == level


@pytest.mark.parametrize(
    "text",
    [
        "",
        "private",
        "grouped(1)",
        "grouped(0)",
        "grouped(-5)",
        "grouped(five)",
        "grouped(5",
        "grouped(²)",
        "summary(5)",
        "exact()",
        "dp",
        "dp()",
        "dp(0)",
        "dp(-1)",
        "dp(inf)",
        "dp(nan)",
        "dp(8, 0)",
        "dp(8, 1)",
        "dp(8, 1e-5, 3)",
        "dp(8,)",
        "secure+exact",
        "secure+affine",
        "secure(plain)+exact",
        "secure+summary(5)",
        "secure+secure",
        "secure+dp-rounds(8)",
        "secure+grouped(5)+dp(8)",
        "secure(5)",
        "secure()",
        "secure(he",
        "secure(he)+secure",
        "grouped(5)+secure(he)",
        "grouped(5)+secure",
    ],
)
def test_anything_else_gets_one_line(text):
    with pytest.raises(InputError) as error:
        parse_level(text)
    assert "\n" not in str(error.value)
    assert repr(text) in str(error.value)


@given(st.text(max_size=20))
def test_no_text_breaks_the_reader(text):
    try:
        level = parse_level(text)
    except InputError:
        return
    assert parse_level(str(level)) == level


def test_presets_know_their_levels():
    assert level_for("default", None) == Level("summary")
    assert level_for("paper", None) == Level("exact")
    assert level_for("paper", "affine") == Level("affine")
    for preset, text in [
        ("default", "exact"),
        ("default", "affine"),
        ("paper", "summary"),
        ("paper", "secure"),
        ("matlab", "affine"),
    ]:
        with pytest.raises(InputError, match="not available"):
            level_for(preset, text)


def test_who_insists_on_a_level_allows_it_and_stricter_ones():
    order = ["exact", "affine", "summary", "grouped(2)", "grouped(5)", "grouped(9)"]
    for weak, strict in itertools.combinations(order, 2):
        assert parse_level(weak).allows(parse_level(strict)), (weak, strict)
        assert not parse_level(strict).allows(parse_level(weak)), (weak, strict)


@pytest.mark.parametrize("text", LEVELS)
def test_every_level_allows_itself(text):
    assert parse_level(text).allows(parse_level(text))


@pytest.mark.parametrize(
    ("insists", "run", "allowed"),
    [
        ("summary", "dp(8)", True),
        ("summary", "secure+grouped(5)", True),
        ("grouped(5)", "secure+grouped(4)", False),
        ("grouped(5)", "dp(100)", True),
        ("dp(4)", "dp(8)", False),
        ("dp(4)", "dp(2)", True),
        ("dp(4)", "dp(2, 1e-3)", False),
        ("dp(4)", "grouped(100)", False),
        ("dp(4)", "secure+dp(4)", True),
        ("secure+dp(4)", "dp(4)", False),
        ("secure+grouped(5)", "grouped(50)", False),
        ("dp(4)", "summary", False),
        ("grouped(5)", "secure(he)", True),
        ("secure(he)", "secure(he)", True),
        ("secure(he)", "secure", True),
        ("secure", "secure(he)", False),
        ("secure(he)", "grouped(5)", False),
        ("summary", "secure+summary", True),
        ("secure+summary", "summary", False),
        ("secure+summary", "secure", True),
        ("secure", "secure+summary", False),
        ("grouped(5)", "secure+summary", False),
        ("secure+summary", "secure(plain)+summary", False),
        ("secure(he)+summary", "secure(plain)+summary", False),
        ("secure+summary", "secure(he)+summary", False),
        ("dp(4)", "secure(he)+dp(4)", True),
    ],
)
def test_levels_are_compared_promise_by_promise(insists, run, allowed):
    assert parse_level(insists).allows(parse_level(run)) is allowed


@pytest.mark.parametrize(
    ("sizes", "min_cell", "level", "warns"),
    [
        ([20] * 30, 5, "summary", True),
        ([20] * 30, 1, "summary", False),
        ([20] * 30, 1, "grouped(5)", True),
        ([20] * 30, 5, "secure+grouped(5)", False),
        ([20] * 30, 5, "secure(he)", False),
        ([20] * 30, 5, "exact", False),
        ([20] * 5, 5, "summary", False),
        ([20] * 6, 5, "summary", True),
        ([26] * 30, 5, "summary", False),
        ([25] * 30, 5, "summary", True),
        ([400, 300, 6], 5, "summary", False),
    ],
)
def test_small_clients_are_pointed_at_cohorts(sizes, min_cell, level, warns):
    note = too_small(sizes, min_cell, level)
    assert (note is not None) is warns
    if note is not None:
        assert "privacy=None" in note


@pytest.mark.parametrize(
    ("sizes", "k", "min_cell", "level", "advice"),
    [
        ([74] * 5, 3, 5, "summary", "secure+summary"),
        ([75] * 5, 3, 5, "summary", None),
        ([74] * 5, 3, 1, "grouped(5)", "secure+grouped(5)"),
        ([149] * 5, 3, 5, "grouped(10)", "secure+grouped(10)"),
        ([1000, 40, 1000, 40, 1000], 3, 5, "summary", None),
        ([1000, 40, 40], 3, 5, "summary", "secure+summary"),
        # Sums over sites, noise, rows: other questions.
        ([74] * 5, 3, 5, "secure+summary", None),
        ([74] * 5, 3, 5, "secure(plain)+summary", None),
        ([74] * 5, 3, 5, "dp(8)", None),
        ([74] * 5, 3, 5, "exact", None),
        # Cells of one row mix nothing, and one cluster cannot be mixed.
        ([74] * 5, 3, 1, "summary", None),
        ([20] * 5, 1, 5, "summary", None),
        # Sums take three sites.
        ([74] * 2, 3, 5, "summary", None),
        # Small sites have been warned of.
        ([20] * 30, 3, 5, "summary", None),
    ],
)
def test_more_clusters_than_cells_can_show(sizes, k, min_cell, level, advice):
    note = too_fine(sizes, k, min_cell, level)
    sums = "sums over sites (three sites or more)"
    if advice is None:
        assert note is None
    else:
        assert note is not None
        assert note.startswith(f"sites hold about {sorted(sizes)[len(sizes) // 2]} ")
        assert f"rows for {k} clusters: cells of" in note
        assert note.endswith(f"privacy=None choose {sums}, or {advice}")


def test_a_run_is_warned_of_small_sites_once():
    summary = {"privacy": "summary", "min_cell": 5}
    (small,) = small_sites([20] * 30, 3, summary)
    assert small == too_small([20] * 30, 5, "summary")
    (fine,) = small_sites([74] * 5, 3, summary)
    assert fine == too_fine([74] * 5, 3, 5, "summary")
    assert small_sites([200] * 5, 3, summary) == []
    for level in ("rival", None):
        assert small_sites([20] * 30, 3, {"privacy": level}) == []


def test_secure_goes_with_levels_that_say_what_the_first_message_shows():
    for text in ("secure+exact", "secure+affine", "secure+dp-rounds(8)"):
        with pytest.raises(InputError, match="goes with summary, grouped") as error:
            parse_level(text)
        assert "\n" not in str(error.value)


# ------------------------------------------------------------------ nobody chooses


@pytest.mark.parametrize(
    ("n", "how", "level", "why"),
    [
        (3, {}, "secure(plain)+summary", "of which there are 3"),
        (3, {"live": True}, "secure+summary", "of which there are 3"),
        (500, {"contacts": 2}, "secure(plain)+summary", "of which there are 500"),
        (1, {}, "summary", "take 3 of them, there is 1"),
        (2, {}, "summary", "take 3 of them, there are 2"),
        (2, {"live": True}, "summary", "take 3 of them, there are 2"),
        (3, {"scale": None}, "summary", "take a common scale"),
        (3, {"contacts": 1}, "summary", "one message a site was asked for"),
    ],
)
def test_where_nobody_names_a_level(n, how, level, why):
    if how.get("live"):
        pytest.importorskip("cryptography")
    found = default_level(n, **how)
    assert found.level == level
    assert why in found.reason
    assert str(parse_level(found.level)) == level


def test_live_sites_without_masks_send_cells(monkeypatch):
    monkeypatch.setattr(levels, "find_spec", lambda name: None)
    level, reason = default_level(3, live=True)
    assert level == "summary"
    assert "pip install 'afcl[privacy]'" in reason
    # A simulation masks nothing and needs no library.
    assert default_level(3).level == "secure(plain)+summary"


def test_the_default_level_is_for_who_names_none():
    method = get_method("afcl")
    asked, why = at_default_level(method, {"min_cell": 7}, 4)
    assert asked == {"min_cell": 7, "privacy": "secure(plain)+summary"}
    assert "there are 4" in why
    named = {"privacy": "grouped(5)"}
    assert at_default_level(method, named, 4) == (named, "")
    assert at_default_level(get_method("afcl-paper"), {}, 4) == ({}, "")
    once, why = at_default_level(method, {"contacts": 1}, 4)
    assert (once["privacy"], why) == ("summary", "one message a site was asked for")
    assert at_default_level(method, {}, 4, scale=None)[0]["privacy"] == "summary"


def test_the_page_on_privacy_has_a_row_for_every_level():
    page = Path(__file__).parents[2] / "docs" / "privacy.md"
    table = page.read_text(encoding="utf-8").split("## Choose a level")[1]
    rows = re.findall(r"^\| `([^`]+)`", table.split("```")[0], re.MULTILINE)
    assert {parse_level(row).listed_as for row in rows} == set(FAMILIES)
    assert {family.examples[0] for family in FAMILIES.values()} <= set(rows)
