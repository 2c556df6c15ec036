# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.report.folders import (
    events_of,
    result_of,
    scenarios,
    told_so_far,
    write_run,
)

from afcl.exceptions import InputError
from afcl.report import read_run_folder, render, write_report
from afcl.report.left_out import left_out
from afcl.report.profile_facts import ClusterProfile, NamedRule, profiles_of
from afcl.report.words import privacy

PROFILE = ClusterProfile(
    cluster=2,
    rows=214,
    part=0.178,
    columns=("age", "chol", "sex=m", "pain"),
    center=(61.0, 180.0, 0.9, 1.9),
    spreads=(5.04, 20.0, 0.3, 0.2),
    others=(44.0, 240.0, 0.3, 0.2),
    apart=(17.0, 60.0, 0.6, 1.7),
    shares=(0.5, 0.28, 0.12, 0.1),
    rule=NamedRule((("age", True, 54.0), ("chol", False, 210.0)), 0.93, 0.88),
    categories={"sex=m": "sex"},
    orders={"pain": ("none", "some", "much")},
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return scenarios(tmp_path_factory.mktemp("runs"))


def test_a_cluster_in_words():
    assert PROFILE.in_words == (
        "214 rows, 18% of all. Set apart by age (61 ± 5, the others 44), chol (180 ± "
        "20, the others 240) and sex=m (90%, the others 30%). age ≥ 54 and chol < 210: "
        "93% of this cluster; 88% of such rows are in it."
    )


def test_columns_are_named_until_they_say_enough():
    assert PROFILE.telling == (0, 1, 2)
    assert replace(PROFILE, shares=(0.85, 0.1, 0.05, 0.0)).telling == (0,)
    assert replace(PROFILE, shares=(0.75, 0.2, 0.04, 0.01)).telling == (0, 1)
    # What the others are hardly away in is not named, whatever its share.
    assert replace(PROFILE, apart=(2.0, 60.0, 0.6, 1.7)).telling == (1, 2)
    none = replace(PROFILE, apart=(0.0,) * 4)
    assert none.apart_words() == "No column by itself sets it apart."
    alone = replace(none, shares=(0.0,) * 4, rule=None)
    assert alone.apart_words() == alone.rule_words() == ""
    assert alone.in_words == "214 rows, 18% of all."


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (("age", True, 54.0), "age ≥ 54"),
        (("age", False, -1.25), "age < −1.25"),
        (("sex=m", True, 0.5), "sex is m"),
        (("sex=m", False, 0.5), "sex is not m"),
        (("pain", True, 0.5), "pain at least some"),
        (("pain", False, 1.5), "pain below much"),
    ],
)
def test_conditions_in_words(condition, text):
    assert replace(PROFILE, rule=NamedRule((condition,), 1.0, 1.0)).rule_text == text


def test_no_rule_is_said():
    none = replace(PROFILE, rule=None)
    assert none.rule_text == ""
    assert none.rule_words() == "No short rule tells it from the others."


def test_separation_in_words():
    at = [replace(PROFILE, nearest=1, separation=far) for far in (0.5, 1.2, 2.0)]
    assert [each.separation_words().split(": ")[1] for each in at] == [
        "overlapping",
        "touching",
        "well apart",
    ]
    assert "1, 0.5 spreads away" in at[0].separation_words()
    chained = replace(at[0], is_round=False)
    assert (
        chained.separation_words() == "cluster 1, 0.5 steps between its own cells away"
    )
    assert "is nearest" in replace(at[0], separation=None).separation_words()
    assert PROFILE.separation_words() == "there is no other cluster"


def test_sites_in_words():
    alone = replace(PROFILE, sites=1, site="north", site_share=1.0)
    assert alone.sites_words() == "Only north has rows of it."
    some = replace(PROFILE, sites=3, site="2", site_share=0.5)
    assert some.sites_words() == "3 sites have rows of it, most at site 2 (50%)."


def test_sites_are_told_where_they_are_known():
    result = result_of()
    first = profiles_of(result)[0]
    rows = [site["sizes"][0] for site in result["sites"]]
    assert first.sites == 4
    assert first.site == f"site-{rows.index(max(rows))}"
    assert first.site_share == max(rows) / sum(rows)
    del result["sites"][0]["sizes"]
    assert profiles_of(result)[0].sites is None


def test_older_results_and_rivals_have_none():
    result = result_of()
    del result["profiles"]
    assert profiles_of(result) == ()
    assert profiles_of(result_of(centers=None)) == ()


def test_damaged_profiles_are_one_line(tmp_path):
    result = result_of()
    result["profiles"][0].pop("spreads")
    write_run(tmp_path, result)
    with pytest.raises(InputError, match="does not hold a result"):
        read_run_folder(tmp_path)
    write_run(tmp_path, result_of(sizes=[3]))
    with pytest.raises(InputError, match="does not hold a result"):
        read_run_folder(tmp_path)


@pytest.mark.parametrize(("kind", "many"), [("plain", 3), ("one", 1), ("thirty", 30)])
def test_a_card_for_every_cluster(folders, kind, many):
    page = render(folders[kind])
    assert page.count("<article") == many
    assert ("more clusters, smaller ones" in page) == (many > 12)
    assert page.count('class="figure strips"') == (many if many > 1 else 0)


def test_cards_only_where_they_are_known(folders):
    for kind in ("rival", "site", "half"):
        assert "<article" not in render(folders[kind])
    said = render(folders["coordinator"])
    assert "Which sites hold it is not known here" in said
    assert "Which sites hold it is not known here" not in render(folders["plain"])


def test_weak_clusters_are_marked_on_their_cards(folders):
    assert "(!)" not in render(folders["sure"]).split("<article")[1]
    shown = render(folders["doubtful"]).split("<article")[1:]
    assert any("(!)</dd>" in card for card in shown)


def test_spreads_and_silhouettes_stand_in_the_table(folders):
    page = render(folders["plain"])
    assert page.count('<span class="spread"> ± 0.5</span>') == 9
    assert ">silhouette</th>" in page
    assert "0.61" in page


def test_names_on_cards_cannot_do_anything(tmp_path):
    result = result_of()
    name = "<script>alert(1)</script>"
    result["columns"][0] = name
    result["profiles"][0]["rule"]["conditions"][0]["column"] = name
    result["sites"][0]["name"] = name
    page = write_report(write_run(tmp_path, result)).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_lower_is_better_is_said_where_it_is(folders):
    page = render(folders["plain"])
    assert "Davies–Bouldin (lower is better)" in page
    assert "Calinski–Harabasz (lower" not in page


def test_day_and_command(tmp_path):
    write_run(tmp_path, result_of(), events_of())
    assert "<code>" not in render(tmp_path)
    known = {"identity": "a", "command": "afcl run north.csv --out <b>"}
    (tmp_path / "run.json").write_text(json.dumps(known))
    page = render(tmp_path)
    assert "<code>afcl run north.csv --out &lt;b&gt;</code>" in page
    events = [{**event, "at": 86_400.0} for event in events_of()]
    write_run(tmp_path, result_of(), events)
    assert "Run of 1970-01-02 00:00 UTC" in render(tmp_path)


def test_what_was_left_out(tmp_path):
    result = result_of(
        data_notes=["town is text: left out"], notes=["tiny takes no part"]
    )
    result["parameters"] |= {"drop": ["a", "b"], "id": "patient", "missing": "impute"}
    result["sites"][0]["set_aside"] = 3
    run = read_run_folder(write_run(tmp_path, result))
    assert left_out(run) == [
        "Columns that were to be dropped (--drop): a, b.",
        "patient names the rows (--id) and was not looked at.",
        "town is text: left out.",
        "tiny takes no part.",
        "Gaps were filled where they could be filled well; rows with others had no say "
        "and were labelled only.",
    ]
    page = render(tmp_path)
    assert "Dropped or left out" in page
    result["data_notes"] = [f"note {i}" for i in range(20)]
    result["parameters"]["columns"] = "x, y"
    page = write_report(write_run(tmp_path, result)).read_text()
    assert "All columns but those asked for (--columns): x, y." in page
    assert "And 13 more" in page
    assert "Dropped or left out" not in render(write_run(tmp_path, result_of()))


def test_a_run_that_goes_on_shows_path_and_clusters(folders):
    page = render(folders["running"])
    assert "3 clusters so far" in page
    assert "may change until the end" in page
    assert "the best k so far" in page
    assert 'class="figure sizes"' in page
    assert 'class="profile"' in page
    assert "<article" not in page


def test_sizes_without_a_scale_are_shown_alone(tmp_path):
    events = events_of(end=False)[:-3]
    events = [e for e in events if e["event"] not in ("agreed", "ranges")]
    tick = events[-1]["tick"] + 1
    write_run(tmp_path, None, [*events, told_so_far(tick)])
    run = read_run_folder(tmp_path)
    assert run.sizes == (50, 30, 20)
    page = render(tmp_path)
    assert 'class="figure sizes"' in page
    # Clusters of another k than the answer's say nothing.
    write_run(tmp_path, None, [*events, {**told_so_far(tick), "k": 4}])
    assert read_run_folder(tmp_path).sizes == ()


def test_the_level_is_known_while_a_run_goes_on(tmp_path):
    events = events_of(end=False)[:-3]
    events[0]["parameters"] = {"privacy": "grouped(5)", "min_cell": 5}
    run = read_run_folder(write_run(tmp_path, None, events))
    assert privacy(run)[0] == "grouped(5)"
