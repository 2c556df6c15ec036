# SPDX-License-Identifier: Apache-2.0
"""`serve`, `join`, `enrol`, `keygen`, `status`: what they say without an engine."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.keys import make_key
from tests.report.folders import result_of

from afcl.cli import main
from afcl.cli.addresses import shown, with_port
from afcl.cli.engine_watch import EngineWatch
from afcl.cli.status import RunLog
from afcl.cli.waiting import Waiting
from afcl.core.terms import CLEAR, DECLARED, HASHED, Category
from afcl.exceptions import InputError
from afcl.runtime.agreement import MAX_ROWS
from afcl.runtime.heartbeat import HEARTBEAT, Beat
from afcl.runtime.live.engine import EngineSilent
from afcl.runtime.live.farewell import EndState
from afcl.runtime.live.membership import (
    DONE,
    JOINED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import FAILED, RunPlan
from afcl.trace import EVENTS, to_line

PLAN = RunPlan("run", "afcl", {}, 0, 100, 3, parameters={})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    (tmp_path / "empty.key").touch()
    return tmp_path


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs stop when they have begun, with their plan written."""

    class Dying:
        def certificates(self, *given: object) -> object:
            return SimpleNamespace(ca="ca.crt")

        @contextmanager
        def serve(self, folder: Path, *given: object) -> Iterator[Any]:
            log = folder / "engine" / "log"
            yield SimpleNamespace(
                begin=lambda: None, turned_away=list, alive=False, log=log
            )

    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: Dying())


def said(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out = capsys.readouterr()
    assert ended.value.code == code, out
    if code == 2:
        assert out.err.count("\n") == 1, out.err
        return out.err
    return out.out


JOIN = ("join", "127.0.0.1:1", "--data", "a.csv", "--name", "a", "--out", "mine")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("serve",), "give --out DIR for a new run, or --resume DIR"),
        (("serve", "--out", "r", "--resume", "r"), "give --out DIR"),
        (("serve", "--out", "r", "--insecure", "--tls", "t"), "exclude each other"),
        (("serve", "--resume", "nothing"), "holds no run"),
        (("serve", "--out", "r", "--ranges", "age"), "COLUMN=LOW:HIGH"),
        (("serve", "--out", "r", "--ranges", "age=9:1"), "COLUMN=LOW:HIGH"),
        (("serve", "--out", "r", "--config", "no.toml"), "cannot read no.toml"),
        (("serve", "--out", "r", "--granularity", "mid"), "one of coarse, auto, fine"),
        (("serve", "--out", "r", "--patience", "-1"), "--patience"),
        (("serve", "--out", "r", "--linger", "-1"), "--linger"),
        (("serve", "--out", "r", "--serve-end", "-1"), "--serve-end"),
        (("serve", "--out", "r", "--engine-patience", "-1"), "--engine-patience"),
        (("serve", "--out", "r", "--max-rounds", "0"), "--max-rounds"),
        (("join", "http://h", *JOIN[2:]), "write it as HOST or HOST:PORT"),
        (("join", "h:port", *JOIN[2:]), "write it as HOST or HOST:PORT"),
        (("join", "::1", *JOIN[2:]), "an IPv6 one in brackets"),
        (JOIN, "--insecure"),
        ((*JOIN, "--ca", "a.csv"), "--ca needs --key"),
        ((*JOIN, "--ca", "no.crt", "--key", "no"), "no file no.crt"),
        ((*JOIN, "--ca", "a.csv", "--key", "a.csv"), "private key of this site cannot"),
        ((*JOIN, "--insecure", "--members", "a.csv"), "--members needs --key"),
        ((*JOIN, "--insecure", "--unit", "x"), "COLUMN=UNIT"),
        ((*JOIN, "--insecure", "--min-cell", "11"), "rows"),
        ((*JOIN, "--insecure", "--names-key", "no.key"), "--names-key"),
        ((*JOIN, "--insecure", "--names-key", "empty.key"), "is empty: put a secret"),
        ((*JOIN, "--insecure", "--category", "z"), "no column in use; these are x, y"),
        ((*JOIN, "--insecure", "--category", "x", "--stream"), "need all rows in mem"),
        ((*JOIN, "--insecure", "--missing", "mend"), "'impute' or 'available'"),
        (("join", "h:1", "--name", "a", "--out", "m", "--data", "b.csv"), "--insecure"),
        (("enrol", "no.pub", "--run", "r"), "no file no.pub"),
        (("enrol", "a.csv", "--run", "r"), "no public key"),
        (("enrol", "k.pub"), "0 runs in"),
        (("status", "nothing"), "holds no run"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    assert line in said(capsys, 2, *words)


def test_categories_travel_with_the_run(here: Path, no_engine: None):
    words = ("--category", "cp", "--category", "sex=male|female")
    with pytest.raises(SystemExit):
        main(["serve", "--out", "r", "--insecure", *words])
    plan = RunPlan.read(here / "r")
    assert plan.categories == {"cp": (), "sex": ("male", "female")}
    request = plan.request()
    assert request.categories == (
        Category("cp"),
        Category("sex", ("male", "female")),
    )
    assert request.names == HASHED


@pytest.mark.parametrize(
    ("level", "names"),
    [("summary", CLEAR), ("grouped(5)", CLEAR), ("dp(8)", DECLARED)],
)
def test_how_names_of_levels_travel(level: str, names: str):
    plan = replace(PLAN, options={"privacy": level}, ranges={"x": (0.0, 1.0)})
    assert plan.request().names == names


def test_a_site_keeps_what_it_was_told_of_its_columns(here: Path):
    told = Membership(
        "a.csv", "a", categories={"x": ("1", "3"), "y": ()}, date=("d",), notes=("n",)
    )
    keep_membership(here / "mine", told)
    assert open_membership(here / "mine") == told


@pytest.mark.parametrize(
    ("words", "level", "line"),
    [
        ((), "secure+summary", "sums over sites, of which there are 3"),
        (
            ("--min-clients", "2"),
            "summary",
            "sums over sites take 3 of them, there are 2",
        ),
        (("--privacy", "grouped(5)"), "grouped(5)", ""),
    ],
)
def test_the_level_of_a_run_is_told(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    no_engine: None,
    words: tuple[str, ...],
    level: str,
    line: str,
):
    with pytest.raises(SystemExit):
        main(["serve", "--out", "r", "--insecure", *words])
    told = [text for text in capsys.readouterr().err.splitlines() if "privacy" in text]
    assert told == ([f"privacy {level}: {line}"] if line else [])
    plan = RunPlan.read(here / "r")
    assert plan.options["privacy"] == level
    assert plan.parameters is not None
    assert plan.parameters["privacy"] == level
    assert plan.parameters.get("privacy_reason", "") == line


@pytest.mark.parametrize(
    ("words", "one", "granularity"),
    [
        ((), True, "auto"),
        (("--at-least-two", "--granularity", "fine"), False, "fine"),
        (("--config", "run.toml"), False, "coarse"),
        (("--config", "run.toml", "--granularity", "fine"), False, "fine"),
    ],
)
def test_how_fine_the_answer_is_travels_with_the_run(
    here: Path,
    no_engine: None,
    words: tuple[str, ...],
    one: bool,
    granularity: str,
):
    (here / "run.toml").write_text('allow-one = false\ngranularity = "coarse"\n')
    with pytest.raises(SystemExit):
        main(["serve", "--out", "r", "--insecure", *words])
    plan = RunPlan.read(here / "r")
    assert plan.parameters is not None
    for kept in (plan.options, plan.parameters):
        assert kept["allow_one"] is one
        assert kept["granularity"] == granularity


@pytest.mark.parametrize(
    ("changes", "lines", "warned"),
    [
        ({}, ["3 clusters in ROWS rows at 4 sites."], True),
        (
            {
                "structure": {"verdict": "unclear", "gain": None},
                "confidence": {"k": 0.6, "by_k": {"3": 0.6, "5": 0.4}, "clusters": []},
                "levels": [3, 5],
            },
            [
                "3 clusters in ROWS rows at 4 sites.",
                "Cannot tell whether there are clusters: ",
                "k = 3 came out of 60% of the resamples; also 5 (40%).",
                "Also worth a look: k = 5 (granularity fine).",
            ],
            True,
        ),
        (
            {"k": 1, "structure": {"verdict": "none", "gain": 0.0}},
            ["No clusters found in ROWS rows at 4 sites.", "Nothing parts the rows: "],
            False,
        ),
    ],
)
def test_the_end_of_a_run_is_told(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    lines: list[str],
    warned: bool,
):
    result = result_of(**changes)
    rows = sum(site["rows"] for site in result["sites"])

    class Quick:
        @contextmanager
        def serve(self, folder: Path, *given: object) -> Iterator[Any]:
            (folder / "result.json").write_text(json.dumps(result))
            yield SimpleNamespace(begin=lambda: None)

    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: Quick())
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--out", "r", "--insecure"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    said = out.splitlines()[1:]
    for line, begins in zip(said, lines, strict=True):
        assert line.startswith(begins.replace("ROWS", str(rows)))
    assert ("warning: sites hold about" in err) is warned


def test_a_site_that_is_told_something_else(
    capsys: pytest.CaptureFixture[str], here: Path
):
    from afcl.runtime.live.membership import JOINED, Membership, keep_membership

    told = Membership(str(here / "a.csv"), "a", run="run", state=JOINED)
    keep_membership(here / "mine", told)
    line = said(capsys, 2, *JOIN, "--insecure", "--drop", "y")
    assert "--drop is not set in mine and cannot be changed to y" in line


def test_a_site_that_is_done(capsys: pytest.CaptureFixture[str], here: Path):
    from afcl.runtime.live.membership import DONE, Membership, keep_membership

    told = Membership(str(here / "a.csv"), "a", run="run", state=DONE)
    keep_membership(here / "mine", told)
    assert "result already" in said(capsys, 0, *JOIN, "--insecure")


def test_keys_are_made_and_enrolled(capsys: pytest.CaptureFixture[str], here: Path):
    pytest.importorskip("cryptography", reason="comes with 'afcl[flower]'")
    PLAN.write(here / "r")
    text = said(capsys, 0, "keygen", "--out", "keys", "--name", "site-a")
    assert "stays here" in text
    said(capsys, 2, "keygen", "--out", "keys", "--name", "site-a")
    said(capsys, 0, "enrol", "keys/site-a.pub")
    key = (here / "keys" / "site-a.pub").read_bytes()
    assert (here / "r" / "enrolled" / "site-a.pub").read_bytes() == key
    PLAN.write(here / "r2")
    assert "2 runs in" in said(capsys, 2, "enrol", "keys/site-a.pub")


# ------------------------------------------------------------------ the status


def tell(folder: Path, *events: dict[str, Any]) -> None:
    PLAN.write(folder)
    with (folder / "trace.jsonl").open("a") as file:
        for event in events:
            file.write(to_line({"tick": 0, "at": 100.0, **event}) + "\n")


def ranges(client: int, tick: int = 0) -> dict[str, Any]:
    name = f"site-{client}"
    return {
        "event": "ranges",
        "tick": tick,
        "client": client,
        "name": name,
        "rows": 1000,
        "bytes": 9,
    }


def event(kind: str, client: int, at: float, **more: Any) -> dict[str, Any]:
    whole = dict.fromkeys(EVENTS[kind], 0)
    return {**whole, "event": kind, "client": client, "contact": 1, "at": at, **more}


AGREED = {"event": "agreed", "columns": ["x", "y"], "rows": 2000}
PREPARE = {"event": "prepare", "k": 4, "movement": 0.25, "objective": 0.5} | {
    "round": 0,
    "version": 1,
}


def beating(folder: Path, at: float, **more: Any) -> None:
    """Leave a sign of life of this process."""
    beat = Beat(os.getpid(), socket.gethostname(), at)
    (folder / HEARTBEAT).write_text(json.dumps({**asdict(beat), **more}))


def test_status_tells_who_waits_for_whom(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = here / "r"
    PLAN.write(folder)
    beating(folder, 299.0)
    monkeypatch.setattr("time.time", lambda: 300.0)
    assert "waiting for 3 sites" in said(capsys, 0, "status", "r")
    tell(
        folder,
        *(ranges(0), ranges(1), AGREED, PREPARE),
        *(event("send", 0, 100.0), event("send", 1, 100.0)),
        *(event("update", 0, 110.0), event("left", 1, 150.0)),
        {"event": "refused", "name": "site-9", "reason": "it lacks 'x'"},
        ranges(2, tick=3),
        event("send", 2, 160.0),
    )
    text = said(capsys, 0, "status", "r")
    assert "running, about 3 answers to come, perhaps 20 s" in text
    assert "k = 4 so far; the seeds have moved by 0.25" in text
    assert "site-0: 1,000 rows, 1 answers" in text
    assert "site-1: 1,000 rows, gone after 0 answers" in text
    assert "site-2: 1,000 rows, 0 answers, asked 140 s ago, late" in text
    assert "site-9: refused, it lacks 'x'" in text
    (folder / FAILED).write_text(json.dumps({"reason": "no client said hello"}))
    with pytest.raises(SystemExit) as ended:
        main(["status", "r"])
    assert ended.value.code == 2
    assert "failed: no client said hello" in capsys.readouterr().out
    (folder / "result.json").write_text("{}")
    assert "done, 3 sites" in said(capsys, 0, "status", "r")


def test_the_log_goes_on_where_it_stopped(here: Path):
    folder = here / "r"
    log = RunLog(folder)
    assert log.new_lines() == []
    tell(folder, ranges(0), AGREED)
    assert log.new_lines() == [
        "site-0 joined: 1,000 rows",
        "agreed on 2 columns: x, y",
    ]
    assert log.new_lines() == []
    with (folder / "trace.jsonl").open("a") as file:
        file.write('{"event":"resu')
    assert log.new_lines() == []
    with (folder / "trace.jsonl").open("a") as file:
        file.write('med","tick":1}\n')
    assert log.new_lines() == ["resumed"]


def test_every_event_has_its_words(here: Path):
    folder = here / "r"
    tell(
        folder,
        ranges(0),
        event("hello", 0, 1.0),
        event("rejected", 0, 2.0, reason="counts"),
        event("failure", 0, 3.0, reason="no answer"),
        event("left", 0, 4.0),
        ranges(0, tick=5),
        {"event": "note", "text": "column 'x' is constant"},
        ranges(1, tick=6),
        {"event": "end", "k": 2, "reason": "done"}
        | {"round": 6, "messages": 1, "bytes": 9},
    )
    assert RunLog(folder).new_lines() == [
        "site-0 joined: 1,000 rows",
        "site-0 said hello",
        "rejected a message of site-0: counts",
        "no answer of site-0: no answer",
        "site-0 is gone; what it said stays",
        "site-0 is back",
        "note: column 'x' is constant",
        "site-1 joined late: 1,000 rows",
        "the end (done): k = 2",
    ]


@pytest.mark.parametrize("words", [("--insecure",), ()])
def test_a_run_with_keys_wants_signed_sites(
    here: Path, no_engine: None, words: tuple[str, ...]
):
    with pytest.raises(SystemExit):
        main(["serve", "--out", "r", *words])
    assert RunPlan.read(here / "r").signed is not bool(words)
    with pytest.raises(SystemExit):
        main(["serve", "--resume", "r"])
    assert RunPlan.read(here / "r").signed is not bool(words)
    # As it is served now, whatever it was before.
    with pytest.raises(SystemExit):
        main(["serve", "--resume", "r", "--tls", "certificates"])
    assert RunPlan.read(here / "r").signed


def test_a_site_says_whom_it_is_summed_with(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    module = import_module("afcl.cli.attending")
    marks = ("0123 4567", "89ab cdef")
    member = Membership("a.csv", "a", state=JOINED)
    states = [
        member,
        member,
        replace(member, met=marks[:1]),
        replace(member, state=DONE, met=marks),
    ]
    keep_membership(here, states.pop(0))
    monkeypatch.setattr(
        module.time, "sleep", lambda seconds: keep_membership(here, states.pop(0))
    )
    node = SimpleNamespace(trouble=lambda: None, absent=lambda: None, alive=True)
    monkeypatch.setattr(module, "PAUSE", 0)
    states.append(states[-1])
    module._watch(here, node, Waiting(None))
    out = capsys.readouterr()
    assert out.err == ""
    assert out.out.splitlines() == [
        "a: joined",
        "a: summed with the members 0123 4567",
        "a: done",
        "a: summed with the members 89ab cdef",
    ]


@pytest.mark.parametrize(
    ("most", "line"),
    [(500, "a: joined; it may have 500 rows"), (MAX_ROWS, "a: joined")],
)
def test_a_site_says_how_many_rows_were_agreed(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    line: str,
):
    module = import_module("afcl.cli.attending")
    member = Membership("a.csv", "a", state=JOINED, max_rows=most)
    keep_membership(here, member)
    done = replace(member, state=DONE)
    monkeypatch.setattr(module.time, "sleep", lambda s: keep_membership(here, done))
    node = SimpleNamespace(trouble=lambda: None, absent=lambda: None, alive=True)
    module._watch(here, node, Waiting(None))
    assert capsys.readouterr().out.splitlines() == [line, "a: done"]


def test_a_site_may_come_back_with_another_key(here: Path):
    """The engine may have refused the first one; later the coordinator would."""
    module = import_module("afcl.cli.join")
    asked = Membership("a.csv", "a", key="wrong")
    keep_membership(here, replace(asked, run="run", state=JOINED, met=("0123",)))
    right = replace(asked, key="right", members="list")
    back = module._come_back(here, right)
    assert back == replace(right, run="run", state=JOINED, met=("0123",))


def test_a_list_of_members_is_read_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], here: Path
):
    make_key(here, "a")
    (here / "members").write_text("# none\nnorth\n")
    words = ("--ca", "a.csv", "--key", "a", "--members", "members")
    assert "line 2 of the public keys" in said(capsys, 2, *JOIN, *words)
    assert not (here / "mine").exists()


def test_the_most_rows_of_a_site_are_in_the_plan(here: Path, no_engine: None):
    (here / "coordinator.toml").write_text("max_rows = 7000\n")
    for folder, words, most in (
        ("a", (), MAX_ROWS),
        ("b", ("--max-rows", "5000"), 5000),
        ("c", ("--config", "coordinator.toml"), 7000),
    ):
        with pytest.raises(SystemExit):
            main(["serve", "--out", folder, "--insecure", *words])
        assert RunPlan.read(here / folder).request().max_rows == most


# ------------------------------------------------------------------ waiting


def test_how_long_is_waited_is_in_the_plan(here: Path, no_engine: None):
    words = ("--patience", "5", "--serve-end", "0", "--max-rounds", "7")
    for folder, given, found in (
        ("a", (), (600.0, 86_400.0, 100)),
        ("b", words, (5.0, 0.0, 7)),
    ):
        with pytest.raises(SystemExit):
            main(["serve", "--out", folder, "--insecure", *given])
        plan = RunPlan.read(here / folder)
        assert (plan.patience, plan.serve_end, plan.max_rounds) == found


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("h", "h:8000"),
        ("h:1", "h:1"),
        ("10.0.0.1", "10.0.0.1:8000"),
        ("[::1]", "[::1]:8000"),
        ("[::1]:9", "[::1]:9"),
    ],
)
def test_an_address_may_leave_out_its_port(address: str, found: str):
    assert with_port(address) == found


@pytest.mark.parametrize(
    "address",
    ["", ":", ":1", "h:", "h:0", "h:65536", "h:-1", "[]", "[]:1", "a b", "[h"],
)
def test_what_is_no_address(address: str):
    with pytest.raises(InputError, match="is no address: write it as HOST"):
        with_port(address)


@pytest.mark.parametrize(
    ("host", "names", "found"),
    [
        ("0.0.0.0", [], "machine.example.org:8000"),
        ("::", [], "machine.example.org:8000"),
        ("0.0.0.0", ["c.example.org", "other"], "c.example.org:8000"),
        ("127.0.0.1", [], "127.0.0.1:8000"),
        ("2001:db8::1", [], "[2001:db8::1]:8000"),
    ],
)
def test_the_welcome_names_an_address_that_can_be_joined(
    monkeypatch: pytest.MonkeyPatch, host: str, names: list[str], found: str
):
    monkeypatch.setattr("socket.getfqdn", lambda: "machine.example.org")
    assert shown(host, 8000, names) == found


class Stalling:
    """A launcher whose engine stalls for some seconds of a clock that we move."""

    def __init__(self, clock: Any, result: dict[str, Any], stall: float) -> None:
        self.clock, self.result, self.stall = clock, result, stall
        self.alive, self.log = True, Path("engine.log")

    @contextmanager
    def serve(self, folder: Path, *given: object) -> Iterator[Any]:
        self.folder = folder
        yield self

    def begin(self) -> None:
        pass

    def trouble(self) -> None:
        if self.clock.now < 70.0 + self.stall:
            raise EngineSilent("nobody answers at 127.0.0.1:8000")
        (self.folder / "result.json").write_text(json.dumps(self.result))


class Seconds:
    """A clock that moves when somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("stall", "code"), [(15.0, 0), (500.0, 2)])
def test_a_stalled_engine_does_not_end_the_coordinator(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stall: float,
    code: int,
):
    clock = Seconds()
    launcher = Stalling(clock, result_of(), stall)
    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: launcher)
    monkeypatch.setattr("afcl.cli.coordinating.time", clock)
    watch = partial(EngineWatch, clock=clock.monotonic)
    monkeypatch.setattr("afcl.cli.engine_watch.EngineWatch", watch)
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--out", "r", "--insecure"])
    out, err = capsys.readouterr()
    assert ended.value.code == code, err
    assert out.count("the engine does not answer") == 1
    assert ("the engine answers again" in out) is (code == 0)
    assert ("the engine has not answered for" in err) is (code == 2)
    assert clock.now < 70.0 + 150.0


class AtTheEnd:
    """A launcher of a run that has its result, and serves the end for somebody."""

    alive = True

    def __init__(self, result: dict[str, Any], stopped: bool) -> None:
        self.result, self.stopped = result, stopped

    @contextmanager
    def serve(self, folder: Path, *given: object) -> Iterator[Any]:
        self.folder = folder
        EndState("serving", 4e9, ("site-a",), ("site-c",)).write(folder)
        (folder / "result.json").write_text(json.dumps(self.result))
        yield self

    def begin(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        """Go on: Ctrl-C, or the site is back."""
        if self.stopped:
            raise KeyboardInterrupt
        EndState("over", 4e9, ("site-a", "site-c")).write(self.folder)


@pytest.mark.parametrize("stopped", [True, False])
def test_the_end_stays_served_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stopped: bool
):
    launcher = AtTheEnd(result_of(), stopped)
    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: launcher)
    monkeypatch.setattr("afcl.cli.serve_end.time.sleep", launcher.sleep)
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--out", "r", "--insecure"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    headline, end = out.index("clusters in"), out.index("The result is final.")
    assert headline < end
    assert "stays served until 2096-" in out
    assert "for site-c: the same 'afcl join' brings the labels. Ctrl-C stops" in out
    assert ("stopped; the result in" in out) is stopped


def test_a_finished_run_is_resumed_for_who_missed_its_end(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    no_engine: None,
):
    PLAN.write(here / "r")
    (here / "r" / "result.json").write_text(json.dumps(result_of()))
    words = ("serve", "--resume", "r", "--insecure")
    for end in (
        None,
        EndState("over", 4e9, ("site-a",), ()),
        EndState("serving", 4.0, (), ("site-a",)),
    ):
        if end is not None:
            end.write(here / "r")
        assert "nothing to resume" in said(capsys, 0, *words)
    EndState("serving", 4e9, (), ("site-a",)).write(here / "r")
    assert "the engine ended by itself; the result in" in said(capsys, 0, *words)
