# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from afcl.report import RunFolder, state_of
from afcl.report.run_folder import COORDINATOR, MEMBER, TrustFacts
from afcl.report.site_facts import SiteSummary
from afcl.report.words import (
    cautions,
    headline,
    how_sure,
    privacy,
    reliance_on,
    runner_up,
    subtitle,
    tidy,
    tiles,
)
from afcl.trace import history_of

from .folders import events_of


def facts_with(silhouettes, k, **changes):
    path = tuple((level, {"silhouette": v}) for level, v in silhouettes.items())
    scores = {"silhouette": silhouettes.get(k)}
    made = RunFolder("run", done=True, n_clusters=k, path=path, scores=scores)
    return replace(made, **changes)


# ------------------------------------------------------------------ how sure


def test_a_choice_names_the_runner_up_and_the_gap():
    run = facts_with({2: 0.3, 3: 0.6, 4: 0.5}, 3)

    k, gap = runner_up(run) or (0, 0.0)
    assert (k, round(gap, 9)) == (4, 0.1)
    assert how_sure(run)[0] == (
        "Silhouette (from summaries) 0.6 at k = 3. The runner-up, k = 4, has 0.5, "
        "0.1 less."
    )
    assert how_sure(run)[1] == (
        "Read the usual way, a silhouette of 0.6 means clusters that are fairly well "
        "parted. Whether they would come out again was not tested."
    )


def test_a_narrow_lead_is_called_narrow():
    assert "a narrow lead" in how_sure(facts_with({2: 0.58, 3: 0.6}, 3))[0]


@pytest.mark.parametrize("others", [0.1, 0.58, 0.595, 0.7])
@pytest.mark.parametrize("verdict", ["clusters", "none", "unclear"])
def test_figures_stand_alone_where_trust_is_known(others, verdict):
    run = facts_with({2: others, 3: 0.6}, 3, trust=TrustFacts(verdict, 0.1, 0.9))
    assert how_sure(run) == [
        f"Silhouette (from summaries) 0.6 at k = 3; the best other k, 2, has {others}."
    ]


def test_several_k_in_the_band_say_what_decided():
    said = how_sure(facts_with({2: 0.595, 3: 0.6, 4: 0.599, 5: 0.4}, 2))[0]

    assert "k = 2, 3, 4 lie within 0.01 of the best" in said
    assert "BIC and the simplified silhouette chose k = 2" in said


def test_many_k_in_the_band_are_counted():
    said = how_sure(facts_with(dict.fromkeys(range(2, 12), 0.5), 4))[0]
    assert "k = 2 to 11 (10 of them) lie within" in said


def test_the_band_belongs_to_the_automatic_rule():
    run = facts_with({2: 0.595, 3: 0.6}, 3, parameters={"criterion": "silhouette"})
    assert "The runner-up, k = 2" in how_sure(run)[0]


def test_a_better_k_outside_the_candidates_is_told():
    assert (
        "k = 4 would score 0.05 better" in how_sure(facts_with({3: 0.5, 4: 0.55}, 3))[0]
    )


def test_less_is_better_for_davies_bouldin():
    values: dict[int, float | None] = {2: 0.9, 3: 0.5, 4: 0.7}
    path = tuple((k, {"db": value}) for k, value in values.items())
    run = RunFolder(
        "run",
        done=True,
        n_clusters=3,
        path=path,
        scores={"db": 0.5},
        parameters={"criterion": "db"},
    )
    k, gap = runner_up(run) or (0, 0.0)
    assert (k, round(gap, 9)) == (4, 0.2)
    assert "The runner-up, k = 4, has 0.7, 0.2 more" in how_sure(run)[0]


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.71, "are well"), (0.51, "fairly"), (0.26, "by chance"), (0.25, "hardly")],
)
def test_the_usual_reading(value, word):
    assert word in how_sure(facts_with({2: value, 3: 0.0}, 2))[1]


def test_where_nothing_can_be_compared():
    assert "One cluster" in how_sure(facts_with({}, 1))[0]
    assert how_sure(facts_with({}, 3, done=False)) == []
    assert how_sure(facts_with({}, 1, done=False)) == []
    assert how_sure(facts_with({}, 1, trust=TrustFacts("none"))) == []
    given = facts_with({}, 3, parameters={"n_clusters": 3})
    assert how_sure(given) == ["The number of clusters was given, not found."]
    assert "gives no index" in how_sure(facts_with({}, 3))[0]
    assert "No other k" in how_sure(facts_with({3: 0.5}, 3))[0]
    scored = facts_with({3: 0.5}, 3, parameters={"n_clusters": 3})
    assert "was given" in how_sure(scored)[0]


# ------------------------------------------------------------------ doubt


@pytest.mark.parametrize(
    ("k", "verdict", "confidence", "given", "said", "word"),
    [
        (3, "clusters", 0.95, None, "3 clusters", "done"),
        (3, "clusters", 0.7, None, "3 clusters", "done"),
        (3, "clusters", 0.69, None, "Perhaps 3 clusters", "doubtful"),
        (3, "clusters", None, None, "3 clusters", "done"),
        (3, "clusters", 0.2, 3, "3 clusters", "done"),
        (1, "none", 0.99, None, "No clusters found", "doubtful"),
        (4, "none", 0.99, None, "No clusters found (cut into 4)", "doubtful"),
        (4, "none", 0.99, 4, "No clusters found (4 asked for)", "doubtful"),
        (30, "unclear", 1.0, None, "Cannot tell: 30 clusters at best", "doubtful"),
        (1, "unclear", 1.0, None, "Cannot tell: 1 cluster at best", "doubtful"),
        (3, "", 0.3, None, "Perhaps 3 clusters", "doubtful"),
    ],
)
def test_no_success_beside_a_doubt(k, verdict, confidence, given, said, word):
    trust = TrustFacts(verdict, confidence=confidence)
    run = facts_with({}, k, trust=trust, parameters={"n_clusters": given})
    assert headline(run) == said
    assert (state_of(run).word, state_of(run).text) == (word, "done")


@pytest.mark.parametrize(
    ("given", "said", "word"),
    [(None, "Perhaps 10 clusters", "doubtful"), (10, "10 clusters", "done")],
)
@pytest.mark.parametrize("flaw", ["one column decides it", "look at the data first"])
def test_no_success_where_the_data_have_a_flaw(flaw, given, said, word):
    run = facts_with(
        {},
        10,
        trust=TrustFacts("clusters", confidence=1.0),
        parameters={"n_clusters": given},
        flaw=flaw,
    )
    assert (headline(run), state_of(run).word) == (said, word)
    assert reliance_on(run) == ("" if given else flaw)


def test_a_share_is_judged_as_it_is_shown():
    run = facts_with({}, 3, trust=TrustFacts("clusters", confidence=0.696))
    assert (headline(run), reliance_on(run)) == ("3 clusters", "likely")
    run = facts_with({}, 3, trust=TrustFacts("clusters", confidence=0.694))
    assert (headline(run), reliance_on(run)) == ("Perhaps 3 clusters", "uncertain")


# ------------------------------------------------------------------ privacy


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("summary", "at least 7 rows"),
        ("exact", "Every row is uploaded"),
        ("affine", "how far its rows pulled"),
        ("grouped(6)", "groups of at least 6"),
        ("secure+grouped(5)", "only sums over a cohort"),
        ("secure+grouped(5)", "groups of at least 5"),
        ("secure+summary", "masked or encrypted: only sums over a cohort"),
        ("secure+summary", "can read a site's first message, rounded to 1/64"),
        ("secure+summary", "groups of at least 7 rows of the site"),
        ("secure(he)+summary", "only sums over a cohort"),
        ("secure(plain)+summary", "Simulated: sums over sites were not masked"),
        ("secure(plain)+summary", "groups of at least 7 rows of the site"),
        ("dp(8)", "ε = 8"),
        ("dp(8, 1e-05)", "ε = 8"),
        ("dp-rounds(4)", "fresh noise in every message (ε = 4"),
        ("rival", "uploads what its paper says"),
        ("quantum(3)", "Level 'quantum(3)'"),
    ],
)
def test_every_level_is_told_in_words(level, words):
    run = RunFolder("run", done=True, parameters={"privacy": level, "min_cell": 7})
    name, said = privacy(run)
    assert name == level
    assert words in said


def test_words_are_of_the_level_at_hand():
    """What `summary` says of several messages, or masks of machines, is not said."""

    def said(level):
        return privacy(RunFolder("run", done=True, parameters={"privacy": level}))[1]

    assert "subtracts several messages" in said("summary")
    for level in ("secure+summary", "secure(plain)+summary"):
        assert "subtracts" not in said(level)
        assert len(said(level)) < 480
    assert "are masked or encrypted" not in said("secure(plain)+summary")


def test_a_site_shows_whom_it_was_summed_with():
    mark = "0123 4567"
    site = SiteSummary("north", 9, members=(mark,))
    run = RunFolder("run", done=True, parameters={"privacy": "secure+summary"})
    said = privacy(replace(run, sites=(site,)))[1]
    assert f"The members of its sums, signed: {mark};" in said
    assert "members of its sums" not in privacy(run)[1]


def test_an_unknown_level_is_not_guessed():
    assert privacy(RunFolder("run", done=True))[0] == "not recorded"
    assert privacy(RunFolder("run"))[0] == "not known yet"


# ------------------------------------------------------------------ the rest


def test_headline_and_tiles():
    history = history_of(events_of())
    run = RunFolder("run", n_clusters=1, history=history, rounds=2)
    assert headline(run) == "1 cluster so far"
    assert headline(RunFolder("run")) == "No answer yet"
    assert headline(replace(run, done=True, n_clusters=4)) == "4 clusters"
    sites = (SiteSummary("a", 1200, 2, 900), SiteSummary("b", 300, 1, 200))
    assert tiles(replace(run, sites=sites, columns=("x",))) == [
        ("sites", "2"),
        ("rows in all", "1,500"),
        ("columns", "1"),
        ("rounds", "2"),
        ("messages", "3"),
        ("sent by sites", "1.1 kB"),
        ("duration", "39 s"),
        ("method", "afcl"),
    ]


def test_a_site_counts_its_own_rows():
    run = RunFolder(
        "s", kind=MEMBER, done=True, sizes=(60, 40), sites=(SiteSummary("s", 30),)
    )
    assert dict(tiles(run))["own rows"] == "30"
    assert dict(tiles(run))["rows in all"] == "100"
    assert "s takes home" in subtitle(run)
    assert "Coordinator" in subtitle(replace(run, kind=COORDINATOR))


def test_rows_that_had_no_say_are_told():
    sites = (SiteSummary("a", 30, 3), SiteSummary("b", 9, 3, set_aside=4))
    (said,) = cautions(RunFolder("x", done=True, sites=sites))
    assert said.startswith("4 rows have gaps that cannot be filled well")
    assert said.endswith("(b 4).")


def test_cautions():
    sites = (
        SiteSummary("a", 10, 3, 1, (5, 5, 0)),
        SiteSummary("b", 10, 0, 0, (0, 5, 5)),
    )
    end = {"event": "end", "tick": 0, "round": 0, "reason": "max_rounds"}
    run = RunFolder(
        "run", done=True, n_clusters=3, sites=sites, history=history_of([end])
    )
    said = cautions(run)
    assert said[0].startswith("b sent nothing")
    assert "limit of rounds" in said[1]
    assert said[2].startswith("2 of 3 clusters live at one site alone: ")
    assert "measures or codes something differently" in said[2]
    empty = (sites[0], SiteSummary("c", 0))
    assert not any("c sent" in each for each in cautions(replace(run, sites=empty)))
    many = tuple(SiteSummary(f"s{i}", 1) for i in range(8))
    assert "and 3 more sent nothing" in cautions(replace(run, sites=many))[0]
    patience = history_of([{**end, "reason": "patience"}])
    assert "nothing arrived" in cautions(replace(run, history=patience))[1]


def test_reasons_are_cut():
    assert tidy(" a\n b ") == "a b"
    assert len(tidy("x" * 500)) == 200


# ------------------------------------------------------------------ status


def test_a_report_knows_no_clock():
    run = RunFolder("run", history=history_of(events_of(end=False)), n_clusters=3)
    assert state_of(run).word == "unfinished"
    assert state_of(replace(run, done=True)).text == "done"
    assert state_of(replace(run, failed="no disk")).text == "failed: no disk"


def test_running_until_it_is_silent():
    events = events_of(end=False)
    last = events[-1]["at"]
    run = RunFolder("run", history=history_of(events))

    assert state_of(run, last + 119).text == "running: round 5, k = 3 so far"
    server = replace(run, kind=COORDINATOR)
    assert state_of(server, last).text == "running: step 5, k = 3 so far"
    assert state_of(run, last + 725).text == "stalled: nothing arrived for 12 min"


def test_the_silent_site_is_named():
    events = events_of(end=False)
    last = events[-1]["at"]
    ask = {"event": "send", "tick": 6, "contact": 6, "version": 1, "bytes": 1}
    events += [{**ask, "client": 0, "at": last}, {**ask, "client": 2, "at": last}]
    history = history_of(events)
    history.sites[2].heard_at = last - 25
    run = RunFolder("run", history=history)

    said = state_of(run, last + 700)
    assert (said.word, said.text) == ("stalled", "stalled: site-2 silent for 12 min")
    history.sites[2].gone = True
    assert "site-0 silent" in state_of(run, last + 700).text
    # Asking again is no sign of life.
    again = history_of([*events, {**ask, "client": 0, "at": last + 690}])
    assert state_of(RunFolder("run", history=again), last + 700).word == "stalled"


def test_waiting():
    assert state_of(RunFolder("run"), 0.0).text == "waiting for the run to begin"
    lobby = RunFolder("run", kind=COORDINATOR, min_clients=3)
    assert state_of(lobby, 0.0).text == "waiting for 3 sites, 0 here"
    ranges = {
        "event": "ranges",
        "tick": 0,
        "client": 0,
        "rows": 5,
        "bytes": 1,
        "at": 0.0,
    }
    here = replace(lobby, history=history_of([ranges]))
    assert state_of(here, 0.0).text == "waiting for 3 sites, 1 here"
    agreed = {"event": "agreed", "tick": 0, "columns": [], "rows": 5, "at": 1.0}
    begun = replace(lobby, history=history_of([ranges, agreed]))
    assert state_of(begun, 2.0).text == "running: hearing the first messages"
    site = RunFolder("s", kind=MEMBER, state="waiting")
    assert state_of(site, 0.0).text == "waiting for the coordinator"
    assert "has joined" in state_of(replace(site, state="joined"), 0.0).text
