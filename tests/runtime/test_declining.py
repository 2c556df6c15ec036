# SPDX-License-Identifier: Apache-2.0
"""A site that takes no part is told so, and gets labels only if it wants them."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import pytest
from tests.runtime import test_federation as live
from tests.runtime.test_federation import ListEngine, events, plan

from afcl.cli.waiting import Waiting
from afcl.exceptions import InputError
from afcl.runtime.live.membership import (
    DECLINED,
    DONE,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result

no_waiting = live.no_waiting  # a fixture

STRICT = {
    "a stricter level": ({"privacy": "grouped(5)"}, "insists on privacy grouped(5)"),
    "larger cells": ({"min_cell": 10}, "sends no cells of fewer than 10 rows"),
}


def strict_site(tmp_path, folders, **asked):
    """Let the last site ask for more than the run gives."""
    home = folders[103]
    keep_membership(home, replace(open_membership(home), **asked))
    return home


@pytest.mark.parametrize(("asked", "why"), STRICT.values(), ids=STRICT)
def test_who_declines_takes_no_labels_home(tmp_path, asked, why):
    _, folders = live.write_sites(tmp_path)
    home = strict_site(tmp_path, folders, **asked)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders), folder)
    member = open_membership(home)
    assert member.state == DECLINED
    assert why in member.reason
    assert not (home / "labels.csv").exists()
    assert not (home / "result.json").exists()
    # The coordinator hears the same, and the name.
    assert any(why in event["reason"] for event in events(folder, "failure"))
    assert len(read_result(folder)["sites"]) == 3


def test_who_declines_may_want_the_labels_anyway(tmp_path):
    tables, folders = live.write_sites(tmp_path)
    home = strict_site(tmp_path, folders, privacy="grouped(5)", labels_anyway=True)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders), folder)
    assert open_membership(home).state == DONE
    assert len((home / "labels.csv").read_text().split()) == len(tables[3]) + 1
    assert "insists on privacy" in read_result(home)["site"]["took_no_part"]
    assert len(read_result(folder)["sites"]) == 3
    assert "took_no_part" not in read_result(folders[100])["site"]


def test_who_wants_a_larger_cohort_takes_no_part(tmp_path):
    """It has said hello with a mask key, and nothing of its rows."""
    _, folders = live.write_sites(tmp_path)
    home = strict_site(tmp_path, folders, cohort=5)
    folder = plan(tmp_path / "run", **live.SUMS)
    serve_run(ListEngine(folders), folder)
    member = open_membership(home)
    assert member.state == DECLINED
    assert "is summed with 4 others at least" in member.reason
    assert not (home / "labels.csv").exists()


def test_who_took_part_once_gets_its_labels(tmp_path):
    """Though it could not answer later."""
    tables, folders = live.write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    home = folders[100]
    rows = (home / "rows.csv").read_bytes()

    class Changing(ListEngine):
        def send(self, address, data):
            if self.sent == 9:
                (home / "rows.csv").write_bytes(rows[: rows.rindex(b"\n", 0, -9)])
            if self.sent > 40:
                (home / "rows.csv").write_bytes(rows)
            return super().send(address, data)

    serve_run(Changing(folders), folder)
    member = open_membership(home)
    assert member.described
    assert member.state != DECLINED


def test_everybody_else_has_answered(tmp_path):
    _, folders = live.write_sites(tmp_path)
    serve_run(ListEngine(folders), plan(tmp_path / "run"))
    for home in folders.values():
        member = open_membership(home)
        assert (member.described, member.hindered) == (True, "")


# ------------------------------------------------------------------ what join says


def watched(folder, *members):
    """Let 'afcl join' look at a site that fares like this."""
    module = import_module("afcl.cli.attending")
    states = list(members)
    keep_membership(folder, states.pop(0))

    def look():
        if states:
            keep_membership(folder, states.pop(0))

    node = SimpleNamespace(trouble=look, absent=lambda: None, alive=True)
    module._watch(folder, node, Waiting(None))


def test_join_says_in_one_line_that_it_took_no_part(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(import_module("afcl.cli.attending"), "PAUSE", 0)
    joined = Membership("a.csv", "a", state="joined")
    out = replace(joined, state=DECLINED, reason="a insists on privacy dp(1)")
    with pytest.raises(InputError) as ended:
        watched(tmp_path, joined, out)
    assert str(ended.value) == "a took no part: a insists on privacy dp(1)"
    assert capsys.readouterr().out == "a: joined\n"


def test_join_waits_for_the_labels_if_it_shall(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(import_module("afcl.cli.attending"), "PAUSE", 0)
    joined = Membership("a.csv", "a", state="joined", labels_anyway=True)
    out = replace(joined, state=DECLINED, reason="a insists on privacy dp(1)")
    watched(tmp_path, joined, out, replace(out, state=DONE))
    assert capsys.readouterr().out.splitlines() == [
        "a: joined",
        "a: takes no part",
        "a: done",
    ]


@pytest.mark.parametrize(
    ("trouble", "line"),
    [
        ("rows.csv, row 7: text", "could not answer: rows.csv, row 7: text\n"),
        ("a insists on privacy dp(1)", ""),
    ],
)
def test_join_says_every_reason_once(tmp_path, monkeypatch, capsys, trouble, line):
    """What the coordinator may not hear stands in the site's folder alone."""
    monkeypatch.setattr(import_module("afcl.cli.attending"), "PAUSE", 0)
    joined = Membership("a.csv", "a", state="joined")
    out = replace(joined, state=REFUSED, reason="a insists on privacy dp(1)")

    class Troubled(SimpleNamespace):
        alive = True

        def absent(self):
            return None

        def trouble(self):
            (tmp_path / "trouble.txt").write_text(trouble)
            keep_membership(tmp_path, out)

    keep_membership(tmp_path, joined)
    with pytest.raises(InputError, match="a was refused: a insists on privacy"):
        import_module("afcl.cli.attending")._watch(tmp_path, Troubled(), Waiting(None))
    assert capsys.readouterr().err == line
