# SPDX-License-Identifier: Apache-2.0
"""A site of a live run holds itself to what it was told first, whoever asks for more.

Requests go through `member.answer`, as they do in a live run; what is asked here no
honest coordinator asks. The attacks behind it: tests/robustness/adversary.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from afcl.core.messages import Addressed, Level, Plan
from afcl.core.protocol import Clustering
from afcl.core.refine import coarse
from afcl.core.tasks import COUNT, Question, Task
from afcl.core.terms import (
    Answer,
    Aside,
    AskAnnouncement,
    AskHello,
    AskStep,
    Category,
    Finish,
    Terms,
)
from afcl.exceptions import InputError, RejectedMessage
from afcl.privacy.ledger import Ledger
from afcl.runtime.codec import decode, encode
from afcl.runtime.live import member as member_module
from afcl.runtime.live.level_names import hashed
from afcl.runtime.live.member import LEDGER, answer
from afcl.runtime.live.membership import Membership, keep_membership, open_membership
from afcl.runtime.live.views import VIEWS, home_folder
from afcl.scale import Box

X = np.random.default_rng(0).random((60, 2)) * [1.0, 50.0]
BOX = Box(np.zeros(2), np.array([1.0, 50.0]))
PLAN = Plan(np.random.default_rng(1).random((5, 2)), ())


def terms(level="summary", run="run", **change):
    made = Terms(
        run, "afcl", json.dumps({"privacy": level}), 0, 0, BOX, 300, ("u", "v")
    )
    return replace(made, **change)


class SiteFolders:
    """Joins runs with one file of rows, each in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.rows(X)

    def rows(self, rows, name="rows.csv"):
        pl.DataFrame(rows, schema=["u", "v"]).write_csv(self.folder / name)
        return str(self.folder / name)

    def join(self, run, **asked):
        """Return the site's folder in a run it has joined."""
        folder = self.folder / run
        folder.mkdir()
        data = asked.pop("data", str(self.folder / "rows.csv"))
        keep_membership(folder, Membership(data, "site-0", **asked))
        return folder


@pytest.fixture
def sites(tmp_path):
    return SiteFolders(tmp_path)


def ask(folder, *request):
    return decode(answer(folder, encode(*request)))


# ------------------------------------------------------------------ one run


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"client": 1},
        {"n_rows": 301},
        {"box": Box(np.zeros(2), np.array([1.0, 50.000001]))},
        {"columns": ("v", "u")},
        {"options": json.dumps({"privacy": "summary", "min_cell": 6})},
        {"options": json.dumps({"privacy": "grouped(5)"})},
    ],
)
def test_terms_cannot_be_changed(sites, monkeypatch, change):
    folder = sites.join("run")
    said = ask(folder, AskHello(terms()))
    assert ask(folder, AskHello(terms())).payload.means.tolist() == (
        said.payload.means.tolist()
    )
    # Not a row is read for the refusal.
    monkeypatch.setattr(Membership, "open", lambda *_: pytest.fail("rows were read"))
    for request in (AskHello, lambda t: AskStep(t, 1, 1, PLAN)):
        with pytest.raises(RejectedMessage, match="works under other terms"):
            ask(folder, request(terms(**change)))


def test_the_first_step_pins_the_terms_too(sites):
    folder = sites.join("run")
    ask(folder, AskStep(terms(), 1, 1, PLAN))
    with pytest.raises(RejectedMessage, match="works under other terms"):
        ask(folder, AskHello(terms(seed=1)))


def test_a_column_is_given_once(sites):
    folder = sites.join("run")
    box = Box(np.zeros(3), np.ones(3))
    with pytest.raises(RejectedMessage, match="every column once, not 'u' several"):
        ask(folder, AskHello(terms(columns=("u", "v", "u"), box=box)))
    ask(folder, AskHello(terms()))  # what was refused pins nothing


def test_an_announcement_is_asked_for_in_one_way(sites):
    folder = sites.join("run", privacy="grouped(5)")
    said = answer(folder, encode(AskAnnouncement("run", True, 5)))
    assert answer(folder, encode(AskAnnouncement("run", True, 5))) == said
    for extremes, group in ((True, 6), (False, 5), (True, 1)):
        with pytest.raises(RejectedMessage, match="in another way before"):
            answer(folder, encode(AskAnnouncement("run", extremes, group)))


@pytest.mark.parametrize("level", ["dp(1)", "secure+dp(1)", "dp-rounds(1)"])
def test_who_insists_on_dp_tells_no_extremes(sites, level):
    folder = sites.join("run", privacy=level)
    with pytest.raises(RejectedMessage, match="tells no extremes: give public bounds"):
        ask(folder, AskAnnouncement("run", True))
    said = ask(sites.join("again", privacy=level), AskAnnouncement("again", False))
    assert said.low.size == said.high.size == said.middle.size == 0


def levels(n, k=2):
    centers = np.random.default_rng(2).random((k, 2))
    return (Level(centers, np.ones(k), np.full(k, 9.0), 0),) * n


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(PLAN.seeds, levels(14)), "14 candidate levels, agreed were at most 13"),
        (Plan(np.random.default_rng(3).random((257, 2)), ()), "257 seeds, agreed"),
        (Plan(PLAN.seeds, levels(1, 257)), "or more than 256"),
    ],
)
def test_no_more_is_answered_at_once_than_was_agreed(sites, plan, text):
    folder = sites.join("run")
    with pytest.raises(RejectedMessage, match=text):
        ask(folder, AskStep(terms(), 1, 1, plan))
    ask(folder, AskStep(terms(), 1, 1, Plan(PLAN.seeds, levels(11))))


def test_no_more_often_than_was_agreed(sites):
    """Two steps after the hello, and one anew: an answer may have been lost."""
    folder = sites.join("run")
    ask(folder, AskHello(terms()))
    steps = [AskStep(terms(), i, 1, Plan(PLAN.seeds + i / 9, ())) for i in range(1, 5)]
    said = [answer(folder, encode(step)) for step in steps[:3]]
    with pytest.raises(RejectedMessage, match="answered 3 times in this run"):
        answer(folder, encode(steps[3]))
    assert [answer(folder, encode(step)) for step in steps[:3]] == said
    assert len(open_membership(folder).steps) == 3


def test_two_requests_at_once_are_not_both_the_last(sites, monkeypatch):
    """Both are through the checks before either has been noted, but for the lock."""
    folder = sites.join("run")
    ask(folder, AskHello(terms()))
    real = member_module._pinned
    meeting = threading.Barrier(2, timeout=0.5)

    def slow(*given):
        found = real(*given)
        try:
            meeting.wait()
        except threading.BrokenBarrierError:
            meeting.reset()
        return found

    monkeypatch.setattr(member_module, "_pinned", slow)
    outcomes: list[bytes | str] = []

    def step(i):
        try:
            request = AskStep(terms(), i, 1, Plan(PLAN.seeds + i / 9, ()))
            outcomes.append(answer(folder, encode(request)))
        except RejectedMessage as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=step, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(refused) == 3
    assert len(open_membership(folder).steps) == 3


def task(members):
    keys = tuple(f"{i:064x}" for i in range(members))
    question = Question(COUNT, (coarse(PLAN.seeds),))
    return Addressed(None, Task(0, COUNT, tuple(range(members)), keys, 0, question))


def test_a_site_chooses_with_how_many_others_it_is_summed(sites):
    folder = sites.join("run", cohort=5)
    with pytest.raises(RejectedMessage, match="with 4 others at least.*--cohort 4"):
        ask(folder, AskStep(terms("secure"), 1, 1, task(4)))
    with pytest.raises(RejectedMessage, match="a cohort has at least 3 members"):
        ask(folder, AskStep(terms("secure"), 1, 1, task(5)))  # not its own key


@pytest.mark.parametrize("one", [True, False])
def test_a_site_may_stay_with_its_first_cohort(sites, one):
    """Sums with and without somebody differ by its rows, whether it is gone or not."""
    folder = sites.join("run", one_cohort=one)
    for members, text in ((5, "with a key"), (5, "with a key"), (4, "the same others")):
        with pytest.raises(RejectedMessage) as refused:
            ask(folder, AskStep(terms("secure"), 1, 1, task(members)))
        # None of them has this site's own key; that is seen after everything else.
        assert (text in str(refused.value)) == (one or members == 5)


def test_masks_are_others_under_other_terms(sites):
    keys = set()
    boxes = (BOX, Box(BOX.low, BOX.span * 2))
    for run, box in (("a", BOX), ("b", BOX), ("c", boxes[1])):
        folder = sites.join(run, runs=3)
        keys.add(ask(folder, AskHello(terms("secure", run, box=box))).payload.key)
    assert len(keys) == 3


def test_rows_that_change_during_the_run_are_noticed_without_an_announcement(sites):
    folder = sites.join("run")
    ask(folder, AskHello(terms()))
    sites.rows(X + 1e-6)
    with pytest.raises(RejectedMessage, match="have changed during the run"):
        ask(folder, AskStep(terms(), 1, 1, PLAN))


# ------------------------------------------------------------------ run after run


@pytest.mark.parametrize("level", ["summary", "grouped(5)", "dp(4)", "dp-rounds(4)"])
def test_a_first_message_is_made_once_for_all_runs(sites, home, level):
    """Another seed, another run, rows in another order, a copy: the same cells."""
    said: list[bytes] = []
    other = sites.rows(X[::-1], "copy.csv")
    for run, data in (("a", None), ("b", None), ("c", other)):
        folder = sites.join(run, runs=3, **({"data": data} if data else {}))
        hello = ask(folder, AskHello(terms(level, run, seed=len(said))))
        said.append(encode(hello.payload))
    if level == "grouped(5)":
        # Cells of a hello are unions of the same groups, drawn by the run's seed.
        assert len(list((home / VIEWS).glob("*[!k]"))) == 1
    else:
        assert len(set(said)) == 1
    spent = json.loads((home / LEDGER).read_text())["accounts"]
    assert len(spent) == 1
    kept = [r for r in spent[0]["released"] if not r["purpose"].startswith("rows in")]
    assert len(kept) == 1


def test_what_is_kept_is_for_its_owner_only(sites, home):
    ask(sites.join("run"), AskHello(terms("dp(4)")))
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    for path in (home / LEDGER, *(home / VIEWS).iterdir()):
        if not path.name.endswith(".lock"):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        {"options": json.dumps({"privacy": "dp(3.9)"})},
        {"options": json.dumps({"privacy": "dp(4)", "min_cell": 6})},
        {"box": Box(np.zeros(2), np.array([1.0, 51.0]))},
        {"columns": ("v", "u")},
        {"columns": ("u",), "box": Box(np.zeros(1), np.ones(1))},
    ],
)
def test_another_view_is_another_release(sites, change):
    ask(sites.join("a", budget=5.0), AskHello(terms("dp(4)", "a")))
    folder = sites.join("b", budget=5.0)
    with pytest.raises(RejectedMessage, match="site-0: this data has spent epsilon 4"):
        ask(folder, AskHello(terms("dp(4)", "b", **change)))
    with pytest.raises(RejectedMessage, match="has spent epsilon 4"):
        ask(folder, AskStep(terms("dp(4)", "b", **change), 1, 1, PLAN))


@pytest.mark.parametrize("first", ["hello", "step"])
def test_a_synopsis_is_paid_for_whatever_asks_for_it(sites, home, first):
    folder = sites.join("run", budget=3.9)
    step = AskStep(terms("dp(4)"), 1, 1, PLAN)
    request = AskHello(terms("dp(4)")) if first == "hello" else step
    with pytest.raises(RejectedMessage, match="has spent epsilon 0 of 3.9"):
        ask(folder, request)
    assert not (home / LEDGER).exists()
    assert [p.name for p in (home / VIEWS).iterdir() if p.suffix != ".lock"] == []


@pytest.mark.parametrize("how", ["sorted", "copied", "both", "renamed columns' order"])
def test_neither_sorting_nor_copying_begins_a_new_account(sites, how):
    ask(sites.join("a", budget=5.0), AskHello(terms("dp(4)", "a")))
    rows = X[np.argsort(X[:, 0])] if how in ("sorted", "both") else X
    data = sites.rows(rows, "rows.csv" if how == "sorted" else "copy.csv")
    if how.startswith("renamed"):
        pl.DataFrame(X[:, ::-1], schema=["v", "u"]).write_csv(data)
    folder = sites.join("b", budget=5.0, data=data)
    with pytest.raises(RejectedMessage, match="has spent epsilon 4 of 5"):
        ask(folder, AskHello(terms("dp(5)", "b")))


def test_rows_that_have_changed_must_be_owned_up_to(sites):
    ask(sites.join("a", budget=5.0), AskHello(terms("dp(4)", "a")))
    sites.rows(X[1:])
    with pytest.raises(RejectedMessage, match="have changed since.*--changed"):
        ask(sites.join("b", budget=5.0), AskHello(terms("dp(4)", "b")))
    with pytest.raises(RejectedMessage, match="has spent epsilon 4 of 5"):
        ask(sites.join("c", budget=5.0, changed=True), AskHello(terms("dp(4)", "c")))
    paid = sites.join("d", budget=9.0, changed=True)
    ask(paid, AskHello(terms("dp(4)", "d")))
    # Named otherwise, they are other rows.
    ask(sites.join("e", budget=5.0, dataset="new"), AskHello(terms("dp(4)", "e")))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("summary", "grouped(5)"),
        ("grouped(5)", "summary"),
        ("summary", "summary"),
        ("secure", "secure"),
    ],
)
def test_only_so_many_runs_describe_rows_without_an_epsilon(sites, first, second):
    ask(sites.join("a", runs=1), AskHello(terms(first, "a")))
    with pytest.raises(RejectedMessage, match="described in 1 run already.*--runs 2"):
        ask(sites.join("b", runs=1), AskHello(terms(second, "b")))
    ask(sites.join("c", runs=2), AskHello(terms(second, "c")))


@pytest.mark.parametrize("second", ["grouped(6)", "secure+grouped(6)"])
def test_groups_of_another_size_are_not_shown_in_any_run(sites, home, second):
    """However many runs are allowed; and what is refused counts as no run."""
    ask(sites.join("a", runs=9), AskHello(terms("grouped(5)", "a")))
    before = (home / "ledger.json").read_bytes()
    with pytest.raises(RejectedMessage, match="groups of 5 rows were told before"):
        ask(sites.join("b", runs=9), AskHello(terms(second, "b")))
    assert (home / "ledger.json").read_bytes() == before


def test_who_has_only_announced_itself_may_take_part_in_another_run(sites):
    """Extremes are the same in every run, and told once."""
    for run in "ab":
        ask(sites.join(run, runs=1), AskAnnouncement(run, True))
    ask(sites.join("c", runs=1), AskHello(terms("summary", "c")))


def test_what_follows_from_a_kept_view_is_said_in_any_number_of_runs(sites):
    for run in "abcdef":
        folder = sites.join(run, runs=1, budget=4.0)
        for level in ("grouped(5)",) if run < "d" else ("dp(4)",):
            ask(folder, AskHello(terms(level, run)))
            ask(folder, AskStep(terms(level, run), 1, 1, PLAN))


def test_a_view_that_is_lost_is_paid_for_again(sites, home):
    ask(sites.join("a", budget=9.0), AskHello(terms("dp(4)", "a")))
    (view,) = (p for p in (home / VIEWS).iterdir() if p.suffix != ".lock")
    whole = view.read_bytes()
    view.write_bytes(whole[:-1])
    with pytest.raises(InputError, match="restore it from a copy, or delete it"):
        ask(sites.join("b", budget=9.0), AskHello(terms("dp(4)", "b")))
    view.unlink()
    ask(sites.join("c", budget=9.0), AskHello(terms("dp(4)", "c")))
    assert view.read_bytes() != whole
    (account,) = json.loads((home / LEDGER).read_text())["accounts"]
    assert len(account["released"]) == 2


def test_a_full_disk_says_nothing(sites, home, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    folder = sites.join("run")
    monkeypatch.setattr("afcl.runtime.live.views.write_private", fail)
    with pytest.raises(InputError, match="nothing is sent: No space left"):
        ask(folder, AskHello(terms("dp(4)")))
    assert not (home / LEDGER).exists()


def test_a_ledger_in_the_sites_folder_moves_to_its_home(sites, home):
    """It was kept beside the results; what it says stays true."""
    first = sites.join("a")
    ask(first, AskHello(terms("grouped(5)", "a")))
    print_of = open_membership(first).fingerprint
    (home / LEDGER).unlink()
    folder = sites.join("b", budget=5.0)
    older = {"format": "afcl-ledger", "version": 1}
    content = {**older, "accounts": {print_of: {"x 0": 1.5}}}
    (folder / LEDGER).write_text(json.dumps(content))
    with pytest.raises(RejectedMessage, match="has spent epsilon 7.05 of 5"):
        ask(folder, AskHello(terms("dp(4)", "b")))
    assert not (folder / LEDGER).exists()
    assert (folder / f"{LEDGER}.moved").is_file()
    assert (home / LEDGER).is_file()


def test_where_a_home_is(monkeypatch, tmp_path):
    monkeypatch.delenv("AFCL_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert home_folder() == tmp_path / "afcl"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_folder() == tmp_path / ".local" / "state" / "afcl"


def test_a_site_names_its_own_home_and_ledger(sites, home, tmp_path):
    own = {"home": str(tmp_path / "h"), "ledger": str(tmp_path / "l" / "x.json")}
    ask(sites.join("a", **own), AskHello(terms("dp(4)", "a")))
    assert not home.exists()
    assert (tmp_path / "h" / VIEWS).is_dir()
    path = tmp_path / "l" / "x.json"
    assert len(Ledger(path, None)._read()) == 1


# ------------------------------------------------------------------ gaps


def with_gaps():
    rows = X.copy()
    rows[::7, 1] = np.nan
    rows[3] = np.nan
    return rows


@pytest.mark.parametrize("missing", ["impute", "available"])
def test_gaps_are_filled_before_anything_is_said(sites, missing):
    data = sites.rows(with_gaps(), "gaps.csv")
    folder = sites.join("run", data=data, missing=missing)
    announced = ask(folder, AskAnnouncement("run", True))
    assert announced.n_rows == 59
    assert announced.low.tolist() == np.nanmin(with_gaps(), axis=0).tolist()
    assert announced.middle.tolist() == np.nanmedian(with_gaps(), axis=0).tolist()
    hello = ask(folder, AskHello(terms()))
    assert hello.n_rows == hello.payload.counts.sum()
    assert 50 <= hello.n_rows <= 59
    centers = np.array([[0.2, 0.2], [0.8, 0.8]])
    end = Answer.of(Clustering(centers, np.array([30.0, 29.0]), {}))
    facts = json.dumps({"columns": ["u", "v"]})
    answer(folder, encode(Finish(terms(), end, facts)))
    labels = (folder / "labels.csv").read_text().split()[1:]
    assert len(labels) == 60
    assert labels[3] == "-1"
    scaled = with_gaps() / [1.0, 50.0]
    known = np.where(np.isnan(scaled)[:, None], 0.0, scaled[:, None] - centers)
    nearest = (known**2).sum(axis=2).argmin(axis=1)
    assert [int(label) for label in labels if label != "-1"] == np.delete(
        nearest, 3
    ).tolist()


@pytest.fixture
def mixed(sites):
    """Twenty rows, half of them red, one green, the others blue."""
    colours = ["red", "blue"] * 9 + ["Red ", "green"]
    table = {"u": range(20), "colour": colours, "code": [1, 2] * 10}
    pl.DataFrame(table).write_csv(sites.folder / "texts.csv")
    return str(sites.folder / "texts.csv")


def test_a_site_names_levels_that_enough_of_its_rows_have(sites, mixed):
    folder = sites.join("run", data=mixed)
    said = ask(folder, AskAnnouncement("run", True))
    assert said.columns == ("u", "colour", "code")
    assert said.categories == (Category("colour", ("blue", "red")),)
    assert np.isnan(said.low).tolist() == [False, True, False]
    assert (said.high[0], said.middle[0]) == (19.0, 9.5)


def test_codes_are_categories_if_the_coordinator_says_so(sites, mixed):
    folder = sites.join("run", data=mixed)
    asked = (Category("Code"), Category("colour", ("red", "pink")), Category("other"))
    said = ask(folder, AskAnnouncement("run", True, categories=asked))
    assert said.categories == (Category("colour"), Category("code", ("1", "2")))
    assert np.isnan(said.low).tolist() == [False, True, True]
    with pytest.raises(RejectedMessage, match="in another way before"):
        ask(folder, AskAnnouncement("run", True))


def test_a_site_may_declare_which_levels_are_told(sites, mixed):
    allowed = {"colour": ("red", "pink"), "code": ()}
    folder = sites.join("run", data=mixed, categories=allowed)
    said = ask(folder, AskAnnouncement("run", True))
    assert said.categories == (
        Category("colour", ("red", "pink")),
        Category("code", ("1", "2")),
    )


@pytest.mark.parametrize(
    ("own", "asked"),
    [({"privacy": "secure"}, "clear"), ({}, "hashed"), ({"names_key": "key"}, "clear")],
)
def test_names_are_hashed_if_either_side_wants_it(sites, mixed, own, asked):
    (sites.folder / "key").write_bytes(b"secret")
    if "names_key" in own:
        own = {"names_key": str(sites.folder / "key")}
    folder = sites.join("run", data=mixed, **own)
    said = ask(folder, AskAnnouncement("run", True, 5, names=asked))
    (colour,) = said.categories
    assert colour.hashed
    assert all(re.fullmatch("#[0-9a-f]{8}", level) for level in colour.levels)
    key = b"secret" if own.get("names_key") else b"public"
    assert set(colour.levels) == {hashed(c, "colour", key) for c in ("red", "blue")}
    assert (said.names_key == "public") == ("names_key" not in own)


def test_names_travel_in_known_ways_only(sites, mixed):
    with pytest.raises(RejectedMessage, match="as one of clear, hashed, declared"):
        ask(sites.join("run", data=mixed), AskAnnouncement("run", True, names="all"))


def test_with_noise_rows_do_not_tell_levels(sites, mixed):
    folder = sites.join("run", data=mixed, privacy="dp(1)")
    said = ask(folder, AskAnnouncement("run", False))
    assert said.categories == (Category("colour"),)
    told = sites.join("told", data=mixed, categories={"colour": ("red", "blue")})
    said = ask(told, AskAnnouncement("told", False, names="declared"))
    assert said.categories == (Category("colour", ("red", "blue")),)


def test_a_rare_level_takes_part_if_others_have_named_it(sites, mixed):
    """`green` has one row here; `pink` none, and `blue` is not among the agreed."""
    folder = sites.join("run", data=mixed)
    agreed = (Category("colour", ("green", "pink", "red")),)
    columns = ("u", "colour=green", "colour=pink", "colour=red")
    box = Box(np.zeros(4), np.ones(4))
    asked = terms(columns=columns, box=box, categories=agreed)
    cells = ask(folder, AskHello(asked)).payload
    sums = (cells.counts[:, None] * cells.means).sum(axis=0)
    assert sums.round(6).tolist() == [190.0, 1.0, 0.0, 10.0]


@pytest.mark.parametrize(
    ("columns", "agreed", "text"),
    [
        (("u", "colour"), None, "categories here, and no numbers: 'colour'"),
        (("u", "colour=a"), (Category("colour", ("b",)),), "not those of the categ"),
        (("u", "x=a"), (Category("x", ("a",)),), "lacks 'x': join with --missing imp"),
        ((), None, "not those of the categories"),
    ],
)
def test_terms_that_do_not_fit_a_site_s_columns(sites, mixed, columns, agreed, text):
    folder = sites.join("run", data=mixed)
    box = Box(np.zeros(len(columns)), np.ones(len(columns)))
    asked = terms(columns=columns, box=box, categories=agreed)
    with pytest.raises(RejectedMessage, match=text):
        ask(folder, AskHello(asked))


def test_streamed_rows_have_no_categories(sites, mixed):
    folder = sites.join("run", data=mixed, stream=True)
    with pytest.raises(InputError, match=r"categories \(colour\) need all rows in mem"):
        ask(folder, AskAnnouncement("run", True))


def test_a_column_without_any_value_is_not_announced(sites):
    rows = pl.DataFrame({"u": range(20), "v": pl.Series([None] * 20, dtype=pl.Float64)})
    rows.write_csv(sites.folder / "empty.csv")
    data = str(sites.folder / "empty.csv")
    said = ask(
        sites.join("run", data=data, missing="impute", units={"v": "kg"}),
        AskAnnouncement("run", True),
    )
    assert said.columns == ("u",)
    assert said.may_lack


def test_a_site_whose_rows_would_all_be_guesses_takes_no_part(sites):
    """Of two columns one is not there: nobody can tell where such a row lies."""
    pl.DataFrame({"u": X[:, 0]}).write_csv(sites.folder / "half.csv")
    folder = sites.join("run", data=str(sites.folder / "half.csv"), missing="impute")
    assert ask(folder, AskHello(terms())) == Aside("run")
    first, second = open_membership(folder).notes
    assert first == "site-0: what is usual at the others stands for 'v'"
    assert "0 rows whose gaps can be filled, fewer than 5: it takes no" in second
