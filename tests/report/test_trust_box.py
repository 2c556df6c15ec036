# SPDX-License-Identifier: Apache-2.0
"""The box under the headline, and the marks of trust elsewhere on the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from afcl.reliance import path_end_words
from afcl.report import read_run_folder, render
from afcl.report.clusters import clusters_section
from afcl.report.path import path_section
from afcl.report.run_folder import RunFolder, TrustFacts
from afcl.report.trust_box import BARS, bars_of, trust_section
from afcl.report.words import headline

from .folders import TRUSTED, scenarios, trust_of, write_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return scenarios(tmp_path_factory.mktemp("runs"))


def words_of(run):
    """Return what the box says, its tags left out."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", trust_section(run) or ""))


def run_with(k=3, parameters=None, **changes):
    made = {"verdict": "clusters", "gain": 0.5, "confidence": 0.95, **changes}
    return RunFolder(
        "run",
        done=True,
        n_clusters=k,
        trust=TrustFacts(**made),
        parameters=parameters or {},
    )


def test_an_answer_to_rely_on(folders):
    run = read_run_folder(folders["sure"])
    said = words_of(run)

    assert "Yes, it can be relied on." in said
    assert "Yes. Clusters explain the rows better than one cloud does, by 0.50" in said
    assert "k = 3 came out of 96% of the resamples (can be relied on)." in said
    assert "At least 95% of every cluster comes back." in said
    assert 'class="trust good"' in (trust_section(run) or "")


def test_no_clusters(folders):
    run = read_run_folder(folders["none"])
    assert "There are no clusters to be seen." in words_of(run)
    assert "No. Nothing parts the rows: they are one cloud" in words_of(run)
    assert "nats" not in words_of(run).lower()
    assert "Would the clusters be the same?" not in words_of(run)
    assert 'class="trust neutral"' in (trust_section(run) or "")
    page = render(folders["none"])
    assert "<title>No clusters found · " in page
    assert "<h1>No clusters found</h1>" in page
    assert 'class="status is-doubtful"' in page


def test_no_clusters_where_resamples_show_some(folders):
    run = read_run_folder(folders["none"])
    assert run.trust is not None
    shaky = replace(run.trust, confidence=0.12, shares=((1, 0.12), (2, 0.88)))
    said = words_of(replace(run, trust=shaky))
    assert "No clusters to be seen, but most resamples show some." in said


def test_what_cannot_be_told_is_not_praised(folders):
    run = read_run_folder(folders["unclear"])
    assert "No: there may be no clusters at all." in words_of(run)
    assert "Cannot tell whether there are clusters: what" in words_of(run)
    assert "k = 3 came out of 60% of the resamples." in words_of(run)
    assert 'class="trust caution"' in (trust_section(run) or "")
    assert "<title>Cannot tell: 3 clusters at best · " in render(folders["unclear"])


def test_low_confidence_and_unstable_clusters_are_named(folders):
    run = read_run_folder(folders["doubtful"])
    said = words_of(run)
    assert "Do not rely on it." in said
    assert "Not all. Least stable: cluster 1 (40%), cluster 2 (60%)." in said
    assert 'class="trust caution"' in (trust_section(run) or "")
    many = run_with(k=8, stabilities=(0.1,) * 7 + (1.0,))
    assert "cluster 4 (10%) and 2 more." in words_of(many)
    assert "Their number: can be relied on. Not every cluster" in words_of(many)
    assert 'class="trust neutral"' in (trust_section(many) or "")


def test_the_largest_k_that_was_allowed_is_not_praised():
    run = replace(run_with(shares=((3, 1.0),)), note=path_end_words(3))
    said = words_of(run)
    assert "There may be more." in said
    assert "relied on" not in said
    assert 'class="trust good"' not in (trust_section(run) or "")
    assert headline(run) == "Perhaps 3 clusters"


@pytest.mark.parametrize("name", TRUSTED)
def test_no_praise_beside_a_doubt(folders, name):
    page = render(folders[name])
    praise = ["strong", "reasonable", "the choice is", "well parted", "narrow lead"]
    if name in ("unclear", "doubtful"):
        praise += ["can be relied on", "Yes, it"]
    for words in praise:
        assert words not in page, words
    assert ("is-done" in page.split("<main")[1]) == (name == "sure")
    # The box comes first, before the figures of the run.
    assert page.index('id="trust"') < page.index('class="tiles"')


def test_a_given_number_is_not_judged():
    run = run_with(
        shares=((3, 1.0),), stabilities=(0.9,) * 3, parameters={"n_clusters": 3}
    )
    said = words_of(run)
    assert "There are clusters; their number was given." in said
    assert "come out again" not in said
    assert "<svg" not in (trust_section(run) or "")


def test_what_was_not_tested_is_left_out():
    bare = run_with(gain=None, confidence=None)
    assert "Only in part" in words_of(bare)
    assert 'class="note"' not in (trust_section(bare) or "")
    uncertain = run_with(verdict="", gain=None, confidence=0.6)
    assert "Uncertain." in words_of(uncertain)
    assert "clusters at all" not in words_of(uncertain)
    assert trust_section(RunFolder("run", done=True, n_clusters=3)) is None


def test_a_cluster_is_judged_as_it_is_shown():
    just = run_with(stabilities=(0.796, 0.9, 1.0))
    assert "At least 80% of every cluster comes back." in words_of(just)
    less = run_with(stabilities=(0.794, 0.9, 1.0))
    assert "Least stable: cluster 0 (79%)." in words_of(less)


# ------------------------------------------------------------------ bars


def test_the_rarest_share_a_bar(folders):
    run = read_run_folder(folders["doubtful"])
    assert run.trust is not None
    bars = bars_of(run, run.trust)

    assert len(bars) == BARS
    assert [name for name, _, _ in bars[:3]] == ["k = 2", "k = 3", "k = 4"]
    assert [name for name, _, is_chosen in bars if is_chosen] == ["k = 3"]
    assert bars[-1][0] == "7 others"
    assert sum(share for _, share, _ in bars) == pytest.approx(1.0)
    drawn = (trust_section(run) or "").split("<svg")[1]
    assert drawn.count("<rect") == BARS
    assert "k = 3: 30%" in drawn.split("</desc>")[0]


def test_an_answer_that_never_came_out_has_a_bar_too():
    run = run_with(confidence=0.0, shares=((2, 1.0),))
    assert run.trust is not None
    assert bars_of(run, run.trust) == [("k = 2", 1.0, False), ("k = 3", 0.0, True)]


# ------------------------------------------------------------------ elsewhere


def test_believable_levels_are_marked_and_linked(folders):
    run = read_run_folder(folders["sure"])
    path = path_section(run)

    assert re.findall(r'data-believable="(\d+)"', path) == ["3", "5"]
    assert "Believable: k = 3, 5." in path
    assert "a believable k: its clusters come back" in path
    assert ">3 (chosen, believable)<" in path
    assert 'href="#k-5"' in (trust_section(run) or "")
    assert path.count('id="k-5"') == 1
    plain = path_section(read_run_folder(folders["plain"]))
    assert "believable" not in plain
    # The answer's k is always among the levels, its clusters come back or not.
    weak = read_run_folder(folders["doubtful"])
    assert ">3 (chosen)<" in path_section(weak)
    # No dot, no link.
    assert "k = 40: their" in words_of(run_with(levels=(3, 40)))


def test_the_table_says_what_comes_back(folders):
    said = clusters_section(read_run_folder(folders["doubtful"]))
    row = said.split('class="stability"')[1].split("</tr>")[0]
    assert re.findall(r">(\d+%)</td>", row) == ["90%", "40%", "60%"]
    assert row.count("mark weak") == 2
    assert "Cluster 1: on average 40% of it comes back" in row
    assert "comes back" not in clusters_section(read_run_folder(folders["plain"]))


@pytest.mark.parametrize(
    ("kind", "file"), [("site", "site.json"), ("coordinator", "plan.json")]
)
def test_sites_and_coordinators_get_the_same_box(folders, tmp_path, kind, file):
    result = json.loads((folders[kind] / "result.json").read_text())
    folder = write_run(tmp_path, {**result, **trust_of()})
    (folder / file).write_text((folders[kind] / file).read_text())
    run = read_run_folder(folder)

    assert run.kind == kind
    assert trust_section(run) == trust_section(read_run_folder(folders["sure"]))
