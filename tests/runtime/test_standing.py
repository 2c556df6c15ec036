# SPDX-License-Identifier: Apache-2.0
"""A federation that goes on, without an engine: real folders, an engine of lists."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import Crash, ListEngine

from afcl.core.terms import AskHello, AskNews, AskStep
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.going_on import serve_folder
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import (
    DONE,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.numbered import (
    Answers,
    Standing,
    State,
    ask_to_forget,
    ask_to_renew,
    forget_site,
)
from afcl.runtime.live.server import RunPlan
from afcl.runtime.live.staying import answer_folder, split_run
from afcl.runtime.results import read_result
from afcl.trace import read_trace

SPOTS = [(0, 0), (0, 12), (12, 0), (12, 12)]
FAR = [*SPOTS, (40, 40)]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """A clock that moves by a second with every look, and a sleep that does not."""
    init = Admission.__init__

    def patched(self, *args, **kwargs):
        ticks = iter(range(10**9))
        kwargs |= {"clock": lambda: float(next(ticks)), "sleep": lambda seconds: None}
        init(self, *args, **kwargs)

    monkeypatch.setattr(Admission, "__init__", patched)


def write_rows(path, spots=SPOTS, seed=0, n=25):
    rng = np.random.default_rng(seed)
    rows = np.vstack([rng.normal(spot, 1, (n, 2)) for spot in spots])
    pl.DataFrame(rows, schema=["height", "weight"]).write_csv(path)


class Federation:
    """Sites in folders, a coordinator's folder, and what happens when it is idle."""

    def __init__(self, root, names="abcd", **settings):
        self.root, self.folder = root, root / "run"
        self.engine = ListEngine({}, last_look=5000)
        for name in names:
            self.site(name)
        self.then: list[Callable[[], None]] = []
        self.seconds = 0.0
        settings = {"answers": 9, "look": 10.0, "quiet": 5.0, **settings}
        options = {"privacy": settings.pop("privacy", "summary")}
        RunPlan(
            "fed",
            "afcl",
            options,
            0,
            100,
            3,
            patience=500.0,
            parameters={},
            standing=Standing(**settings),
        ).write(self.folder)

    def site(self, name, spots=SPOTS, **settings):
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "rows.csv", spots, seed=ord(name[0]))
        settings = {"stays": True, "changed": True, "runs": 99, **settings}
        member = Membership(
            str(folder / "rows.csv"), name, home=str(folder / "home"), **settings
        )
        keep_membership(folder, member)
        self.engine.folders[100 + ord(name[0])] = folder

    def leaves(self, name):
        self.engine.leaves[100 + ord(name[0])] = 0

    def returns(self, name):
        del self.engine.leaves[100 + ord(name[0])]

    def serve(self, *then):
        """Serve; what follows is done one by one, each after an idle look."""
        self.then = [*then, self._stop]
        try:
            serve_folder(self.engine, self.folder, clock=self._clock, sleep=self._sleep)
        except StopIteration:
            pass

    def _clock(self):
        return self.seconds

    def _sleep(self, seconds):
        self.seconds += seconds
        state = State.read(self.folder)
        if state.stage == "waiting" and int(self.seconds) % 100 == 0:
            self.then.pop(0)()
        if self.seconds > 10_000:
            raise AssertionError(f"stuck at {state}")

    def _stop(self):
        raise StopIteration

    @property
    def result(self):
        return read_result(self.folder)

    def changes(self):
        return [change["text"] for change in self.result["changes"]]


def test_a_changed_file_and_a_new_site_bring_new_answers(tmp_path):
    fed = Federation(tmp_path)
    fed.serve(
        lambda: write_rows(tmp_path / "a" / "rows.csv", SPOTS, seed=99, n=40),
        lambda: fed.site("e", FAR),
    )
    assert fed.result["answer"] == 3
    assert fed.changes() == ["c4 is new"]
    trace = read_trace(answer_folder(fed.folder, 3) / "trace.jsonl")
    assert [event["kind"] for event in trace.of("change")] == ["born"]
    assert [len(a["clients"]) for a in fed.result["history"]] == [4, 4, 5]
    for name in "abcde":
        own = read_result(tmp_path / name)
        assert own["answer"] == 3
        assert own["cluster_names"] == fed.result["cluster_names"]
        assert "history" not in own
        rows = pl.read_csv(tmp_path / name / "rows.csv").height
        assert pl.read_csv(tmp_path / name / "labels.csv").height == rows
    assert State.read(fed.folder).stage == "waiting"


def test_nothing_new_means_no_new_answer(tmp_path):
    fed = Federation(tmp_path)
    fed.serve(lambda: (tmp_path / "a" / "rows.csv").touch(), lambda: None)
    assert fed.result["answer"] == 1
    asked = [decode(data) for _, data in fed.engine.requests]
    assert sum(isinstance(a, AskHello) for a in asked) == 4
    assert sum(isinstance(a, AskNews) for a in asked) > 8


def test_on_demand(tmp_path):
    fed = Federation(tmp_path)
    fed.serve(lambda: ask_to_renew(fed.folder))
    assert fed.result["answer"] == 2


def test_when_the_time_has_come_and_how_it_ends(tmp_path):
    fed = Federation(tmp_path, every=50.0, answers=3)
    fed.serve(*[lambda: None] * 9)
    assert fed.result["answer"] == 3
    assert fed.changes() == []
    assert State.read(fed.folder).stage == "over"
    assert [open_membership(tmp_path / name).state for name in "abcd"] == [DONE] * 4
    one, two = (read_result(answer_folder(fed.folder, n)) for n in (1, 2))
    assert one["centers"] == two["centers"]  # the same rows, numbers and seed


@pytest.mark.no_cover
@pytest.mark.parametrize("privacy", ["summary", "secure+summary"])
def test_forgotten_is_as_if_it_had_never_been_there(tmp_path, privacy):
    """The answer after `forget` equals that of the others alone, to the last bit."""
    fed = Federation(tmp_path / "one", "abcde", privacy=privacy)
    fed.site("c", FAR)
    fed.serve(lambda: ask_to_forget(fed.folder, "c"), lambda: fed.site("c", FAR))
    assert fed.result["answer"] == 2
    assert sorted(a for a in fed.result["history"][1]["clients"]) == list("abde")

    # A federation whose third site is another one, which is forgotten as well.
    twin = Federation(tmp_path / "two", "abcde", privacy=privacy)
    twin.site("c", [(7, 7)])
    twin.serve(lambda: ask_to_forget(twin.folder, "c"))
    np.testing.assert_allclose(
        fed.result["centers"], twin.result["centers"], rtol=0, atol=1e-12
    )
    assert fed.result["scores"] == twin.result["scores"]


def in_the_folder(folder, *wanted):
    """Return the files that hold any of these bytes, packed arrays laid open."""
    found = []
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                content += b"".join(arrays[name].tobytes() for name in arrays.files)
        if any(each in content for each in wanted):
            found.append(path.name)
    return found


def test_what_is_left_of_a_forgotten_site(tmp_path):
    """Right after it, whether or not there will be a next answer."""
    fed = Federation(tmp_path, "abde")
    fed.site("zoe", FAR)
    fed.serve()
    names, centers = fed.result["cluster_names"], fed.result["centers"]
    assert len(names) == 5
    (own,) = [center for center in centers if center[0] > 30]
    traces = [b"zoe", *(np.float64(each).tobytes() for each in own)]
    traces += [str(each).encode() for each in own]
    held = in_the_folder(fed.folder, *traces)
    assert {"lineage.npz", "lineage.json", "result.json"} <= set(held)
    state = forget_site(fed.folder, State.read(fed.folder), "zoe")
    assert in_the_folder(fed.folder, *traces) == []
    first = answer_folder(fed.folder, 1)
    left = {"answer": 1, "withdrawn": True, "cluster_names": names}
    assert json.loads((first / "result.json").read_text()) == left == fed.result
    kept = sorted(path.name for path in first.iterdir())
    assert kept == ["lineage.json", "lineage.npz", "result.json"]
    with np.load(first / "lineage.npz") as arrays:
        assert arrays.files == []
    assert state.has_forgotten("zoe")
    # Nothing is left to compare with: no old name comes back.
    fed.leaves("zoe")
    fed.serve(lambda: None)
    assert fed.result["answer"] == 2
    assert not set(fed.result["cluster_names"]) & set(names)
    assert fed.changes() == []


def test_what_is_left_of_a_forgotten_site_when_there_is_a_next_answer(tmp_path):
    fed = Federation(tmp_path, "abcde")
    fed.serve(lambda: ask_to_forget(fed.folder, "c"))
    first = answer_folder(fed.folder, 1)
    assert sorted(path.name for path in first.iterdir()) == ["result.json"]
    kept = json.loads((first / "result.json").read_text())
    assert kept == {
        "answer": 1,
        "withdrawn": True,
        "cluster_names": ["c0", "c1", "c2", "c3"],
    }
    for path in fed.folder.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".jsonl"):
            assert '"c"' not in path.read_text(), path
    assert Answers.read(fed.folder, 2).roster == ("a", "b", "", "d", "e")
    before = fed.result["history"][0]
    assert (before["withdrawn"], before["sizes"]) == (True, [])


def test_who_serves_meanwhile_still_knows_the_names(tmp_path):
    fed = Federation(tmp_path, "abde")
    fed.site("c", FAR)
    fed.serve(lambda: ask_to_forget(fed.folder, "c"))
    assert fed.changes() == ["c4 is gone"]
    assert sorted(fed.result["cluster_names"]) == ["c0", "c1", "c2", "c3"]


def test_how_far_it_is_names_no_forgotten_site(tmp_path):
    fed = Federation(tmp_path, "abcde")
    fed.serve()
    state = replace(
        State.read(fed.folder),
        stage="pending",
        reason="the rows of e have changed",
        waiting_for=("d", "e"),
        expected=("a", "e"),
    )
    state = forget_site(fed.folder, state, "e")
    assert (state.waiting_for, state.expected) == (("d",), ("a",))
    assert state.reason == "a site was forgotten"


def test_a_forgotten_site_is_not_let_in_again(tmp_path):
    fed = Federation(tmp_path, "abcde")
    fed.serve(
        lambda: ask_to_forget(fed.folder, "c"),
        lambda: write_rows(tmp_path / "c" / "rows.csv", FAR, seed=7),
        lambda: ask_to_renew(fed.folder),
    )
    assert fed.result["answer"] == 3
    assert sorted(fed.result["history"][-1]["clients"]) == list("abde")
    refused = open_membership(answer_folder(tmp_path / "c", 3))
    assert "was forgotten here" in refused.reason


def test_while_one_is_away_the_next_answer_is_pending(tmp_path):
    fed = Federation(tmp_path, "abcde")
    seen = []

    def look():
        state = State.read(fed.folder)
        seen.append((state.stage, state.waiting_for, read_result(fed.folder)))
        fed.returns("e")

    def forget_while_away():
        fed.leaves("e")
        fed.seconds += 100
        ask_to_forget(fed.folder, "a")
        sleep = fed._sleep

        def until_pending(seconds):
            sleep(seconds)
            if State.read(fed.folder).waiting_for == ("e",) and not seen:
                look()

        fed._sleep = until_pending  # type: ignore[method-assign]
        raise RestartError

    with pytest.raises(RestartError):
        fed.serve(forget_while_away)
    fed.serve()
    ((stage, waiting_for, old),) = seen
    assert (stage, waiting_for) == ("pending", ("e",))
    assert old == {
        "answer": 1,
        "cluster_names": ["c0", "c1", "c2", "c3"],
        "withdrawn": True,
    }
    assert sorted(fed.result["history"][-1]["clients"]) == list("bcde")


class RestartError(Exception):
    """The coordinator is started again."""


def test_who_is_away_for_too_long_is_left_out(tmp_path):
    fed = Federation(tmp_path, "abcde", forget_after=300.0)

    def leave():
        fed.leaves("e")
        ask_to_renew(fed.folder)

    fed.serve(leave, lambda: fed.returns("e"))
    history = fed.result["history"]
    assert [sorted(a["clients"]) for a in history] == [
        list("abcde"),
        list("abcd"),
        list("abcde"),
    ]
    assert Answers.read(fed.folder, 3).roster == tuple("abcde")  # numbers stay


@pytest.mark.no_cover
@pytest.mark.parametrize("crash_at", [3, 9, 14, 40])
def test_a_killed_coordinator_goes_on(tmp_path, crash_at):
    fed = Federation(tmp_path, answers=2, every=50.0)
    fed.engine.crash_at = crash_at
    for _ in range(3):
        try:
            fed.serve()
        except Crash:
            fed.engine = ListEngine(fed.engine.folders)
        else:
            break
    assert State.read(fed.folder).stage == "over"
    assert fed.result["answer"] == 2
    assert [a["number"] for a in fed.result["history"]] == [1, 2]


def test_a_refused_site_is_no_reason_for_ever(tmp_path):
    fed = Federation(tmp_path)

    def other_columns():
        fed.site("x")
        pl.DataFrame({"other": np.arange(30.0)}).write_csv(tmp_path / "x" / "rows.csv")

    fed.serve(other_columns, lambda: None, lambda: None)
    assert fed.result["answer"] == 2  # tried once
    assert sorted(fed.result["history"][-1]["clients"]) == list("abcd")


def test_news_that_come_back_during_an_answer_hold_nobody_up(tmp_path):
    fed = Federation(tmp_path)
    fed.engine.slow = {100 + ord("b"): 3}  # it is being asked when answer 2 begins
    fed.serve(lambda: ask_to_renew(fed.folder), lambda: ask_to_renew(fed.folder))
    assert fed.result["answer"] == 3
    assert fed.seconds < 500


def test_a_folder_that_was_put_back_from_an_older_copy(tmp_path):
    """Sites are beyond it; answers since are lost, numbers are not given twice."""
    fed = Federation(tmp_path)
    fed.serve(lambda: shutil.copytree(fed.folder, tmp_path / "copy"))
    fed.serve(lambda: ask_to_renew(fed.folder))
    assert fed.result["answer"] == 2
    shutil.rmtree(fed.folder)
    (tmp_path / "copy").rename(fed.folder)
    fed.serve(lambda: ask_to_renew(fed.folder))
    assert [a["number"] for a in fed.result["history"]] == [1, 3]
    assert sorted(fed.result["history"][-1]["clients"]) == list("abcd")
    assert {read_result(tmp_path / name)["answer"] for name in "abcd"} == {3}


def test_forgetting_while_nobody_serves(tmp_path):
    fed = Federation(tmp_path, "abcde")
    fed.serve()
    state = forget_site(fed.folder, State.read(fed.folder), "b")
    assert state.has_forgotten("b")
    with pytest.raises(InputError, match="no site is called x here"):
        forget_site(fed.folder, state, "x")
    fed.leaves("b")
    fed.serve(lambda: None)
    assert sorted(fed.result["history"][-1]["clients"]) == list("acde")


def test_forgetting_during_an_answer_begins_it_anew(tmp_path):
    fed = Federation(tmp_path, "abcde", every=50.0, answers=2)
    fed.engine.crash_at = 60
    with pytest.raises(Crash):
        fed.serve()
    state = State.read(fed.folder)
    assert (state.number, state.finished) == (2, False)
    state = forget_site(fed.folder, state, "b")
    assert not answer_folder(fed.folder, 2).exists()
    fed.engine = ListEngine(fed.engine.folders)
    fed.leaves("b")
    fed.serve()
    assert [a["number"] for a in fed.result["history"]] == [1, 3]
    assert sorted(fed.result["history"][-1]["clients"]) == list("acde")


class TestSite:
    """What a site that stays holds itself to."""

    def folder(self, tmp_path, **settings):
        folder = tmp_path / "s"
        folder.mkdir()
        write_rows(folder / "rows.csv")
        settings = {"stays": True, "run": "fed", **settings}
        member = Membership(str(folder / "rows.csv"), "s", **settings)
        keep_membership(folder, member)
        return folder

    def test_is_in_one_federation(self, tmp_path):
        folder = self.folder(tmp_path)
        with pytest.raises(RejectedMessage, match="does not stay in this federation"):
            answer(folder, encode(AskNews("other")))

    def test_says_nothing_if_it_does_not_stay(self, tmp_path):
        folder = self.folder(tmp_path, stays=False)
        with pytest.raises(RejectedMessage, match="does not stay"):
            answer(folder, encode(AskNews("fed")))

    def test_answers_no_step_of_an_answer_that_has_not_begun(self, tmp_path):
        fed = Federation(tmp_path / "f")
        fed.serve()
        steps = [d for a, d in fed.engine.requests if a == 100 + ord("a")]
        step = next(d for d in steps if isinstance(decode(d), AskStep))
        folder = self.folder(tmp_path)
        with pytest.raises(RejectedMessage, match="is at answer 0, this is a request"):
            answer(folder, step)

    def test_an_older_answer_is_over(self, tmp_path):
        fed = Federation(tmp_path / "f", every=50.0, answers=2)
        fed.serve()
        for address, data in fed.engine.requests:
            asked = decode(data)
            if isinstance(asked, AskHello) and asked.terms.run == "fed.1":
                with pytest.raises(RejectedMessage, match="is at answer 2"):
                    answer(fed.engine.folders[address], data)

    def test_answers_count_as_runs(self, tmp_path):
        """A site says in how many answers something new may be said of its rows."""
        fed = Federation(tmp_path, "abcd", every=50.0, answers=3)
        fed.site("e", FAR, runs=1)
        fed.serve(
            lambda: write_rows(tmp_path / "e" / "rows.csv", FAR, seed=5, n=30),
        )
        took = [sorted(a["clients"]) for a in fed.result["history"]]
        assert took[0] == list("abcde")
        assert took[-1] == list("abcd")


@pytest.mark.parametrize(
    ("run", "parts"),
    [
        ("fed.12", ("fed", 12)),
        ("fed", ("fed", 0)),
        ("fed.", ("fed.", 0)),
        ("fed.x", ("fed.x", 0)),
        ("fed.²", ("fed.²", 0)),
        ("fed.12345678901", ("fed.12345678901", 0)),
    ],
)
def test_what_runs_are_called(run, parts):
    assert split_run(run) == parts
