# SPDX-License-Identifier: Apache-2.0
"""The same command again: what a begun run remembers, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afcl.cli import main
from afcl.cli.continuing import Served
from afcl.cli.waiting import Waiting
from afcl.exceptions import InputError
from afcl.runtime.live.membership import (
    JOINED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import RunPlan


class Launcher:
    """Writes down how it is started, and starts nothing."""

    def __init__(self) -> None:
        self.served: list[tuple[Any, ...]] = []
        self.joined: list[tuple[Any, ...]] = []
        self.certified: list[tuple[Any, ...]] = []

    def certificates(self, folder: Path, hosts: list[str], say: object) -> object:
        self.certified.append((folder, *hosts))
        return SimpleNamespace(ca="ca.crt")

    @contextmanager
    def serve(
        self, folder: Path, host: str, port: int, tls: object
    ) -> Iterator[SimpleNamespace]:
        self.served.append((host, port, tls is not None))
        log = folder / "engine" / "log"
        yield SimpleNamespace(
            begin=lambda: None, turned_away=list, alive=False, log=log
        )

    def join(self, folder: Path, address: str, *more: object) -> None:
        self.joined.append((address, *more))
        raise InputError("nothing is started")


@pytest.fixture(autouse=True)
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    made = Launcher()
    for name in ("serve", "join"):
        module = import_module(f"afcl.cli.{name}")
        monkeypatch.setattr(module, "get_launcher", lambda name: made)
    return made


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Type a command that starts nothing; return its last line."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    line = capsys.readouterr().err.splitlines()[-1].removeprefix("afcl: ")
    if "the engine ended by itself" in line:  # it was started
        assert ended.value.code == 3
        return STARTED
    assert ended.value.code == 2
    return line


STARTED = "nothing is started"
SERVE = ("serve", "--out", "r", "--insecure")


def test_the_same_command_goes_on(
    capsys: pytest.CaptureFixture[str], launcher: Launcher
):
    words = (*SERVE, "--min-cell", 7, "--privacy", "grouped", "--ranges", "x=0:9")
    assert typed(capsys, *words) == STARTED
    first = RunPlan.read(Path("r"))
    assert typed(capsys, *words) == STARTED
    assert typed(capsys, "serve", "--out", "r") == STARTED
    assert typed(capsys, "serve", "--resume", "r") == STARTED
    assert RunPlan.read(Path("r")) == first
    assert launcher.served == [("127.0.0.1", 8000, False)] * 4


def test_where_a_run_listens_is_remembered_and_may_change(
    capsys: pytest.CaptureFixture[str], launcher: Launcher, tmp_path: Path
):
    words = ("--host", "0.0.0.0", "--port", 9001, "--hostname", "hub.example")
    typed(capsys, "serve", "--out", "r", *words, "--tls", "certificates")
    typed(capsys, "serve", "--resume", "r")
    typed(capsys, "serve", "--out", "r", "--port", 9002, "--patience", 5, "--linger", 6)
    typed(capsys, "serve", "--out", "r")
    ports = [9001, 9001, 9002, 9002]
    assert launcher.served == [("0.0.0.0", port, True) for port in ports]
    folder = tmp_path / "certificates"
    assert launcher.certified == [(folder, "hub.example", "0.0.0.0")] * 4
    plan = RunPlan.read(Path("r"))
    assert (plan.patience, plan.linger) == (5, 6)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--min-cell", 6), "--min-cell is 5 in this run and cannot be changed"),
        (("--min-clients", 4), "--min-clients is 3 in this run"),
        (("--seed", 1), "--seed is 0 in this run"),
        (("--columns", "x"), "--columns is x, y in this run"),
        (("--privacy", "dp(4)"), "--privacy is grouped(5) in this run"),
        (("--at-least-two",), "--at-least-two is not set in this run"),
        (("--ranges", "x=0:9"), "--ranges is x=0:120, y=1:2 in this run"),
        (("--max-rows", 7), "--max-rows is 99 in this run"),
        (("--config", "other.toml"), "--criterion is auto in this run"),
    ],
)
def test_what_a_run_is_cannot_be_changed(
    capsys: pytest.CaptureFixture[str],
    launcher: Launcher,
    words: tuple[object, ...],
    line: str,
):
    given = ("--columns", "x,y", "--privacy", "grouped(5)", "--max-rows", 99)
    bounds = ("--ranges", "x=0:120", "--ranges", "y=1:2")
    typed(capsys, *SERVE, *given, *bounds)
    Path("other.toml").write_text('criterion = "bic"\nport = 9000\n')
    plan, served = RunPlan.read(Path("r")), Served.read(Path("r"))
    assert line in typed(capsys, "serve", "--out", "r", *words)
    assert line in typed(capsys, "serve", "--resume", "r", *words)
    assert (RunPlan.read(Path("r")), Served.read(Path("r"))) == (plan, served)
    assert len(launcher.served) == 1


def test_a_run_with_tls_does_not_go_on_without(capsys: pytest.CaptureFixture[str]):
    typed(capsys, "serve", "--out", "r")
    assert "cannot go on without: leave out --insecure" in typed(capsys, *SERVE)


def test_a_new_run_knows_nothing_of_an_older_one(
    capsys: pytest.CaptureFixture[str], launcher: Launcher
):
    typed(capsys, "serve", "--out", "r", "--port", 9001)
    Path("r", "plan.json").unlink()
    assert typed(capsys, *SERVE) == STARTED
    assert launcher.served == [("127.0.0.1", 9001, True), ("127.0.0.1", 8000, False)]


def test_a_finished_run_stays_finished(capsys: pytest.CaptureFixture[str]):
    typed(capsys, *SERVE)
    Path("r", "result.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main([*SERVE])
    assert ended.value.code == 0
    assert "is finished; nothing to resume" in capsys.readouterr().out
    assert "--seed is 0 in this run" in typed(capsys, *SERVE, "--seed", 1)


def test_what_is_remembered_and_damaged_is_named(capsys: pytest.CaptureFixture[str]):
    typed(capsys, *SERVE)
    Path("r", "serve.json").write_text("[]")
    assert "serve.json cannot be read" in typed(capsys, *SERVE)


# ------------------------------------------------------------------ a site

JOIN = ("join", "hub:1", "--data", "a.csv", "--name", "a", "--out", "mine")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--name", "b"), "--name is a in mine and cannot be changed to b"),
        (("--min-cell", 4), "--min-cell is 5 in mine and cannot be changed to 4"),
        (("--unit", "x=cm"), "--unit is not set in mine and cannot be changed to x=cm"),
        (("--privacy", "dp(4)"), "--privacy is summary in mine"),
        (("--one-cohort",), "--one-cohort is not set in mine"),
    ],
)
def test_a_site_is_told_which_setting_differs(
    capsys: pytest.CaptureFixture[str], words: tuple[object, ...], line: str
):
    assert typed(capsys, *JOIN, "--insecure") == STARTED
    told = typed(capsys, *JOIN, "--insecure", *words)
    assert line in told
    assert told.endswith("type it as it was, or choose another --out")


def test_a_site_may_follow_its_coordinator_and_keep_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, launcher: Launcher
):
    told = Membership(str(tmp_path / "a.csv"), "a", run="run", state=JOINED)
    keep_membership(tmp_path / "mine", told)
    words = ("join", "other:2", *JOIN[2:], "--insecure", "--keep-sent")
    assert typed(capsys, *words) == STARTED
    assert launcher.joined == [("other:2", None, None, 0)]


def test_a_site_remembers_its_home(
    capsys: pytest.CaptureFixture[str],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Also one that was not typed: elsewhere its account would begin anew."""
    assert typed(capsys, *JOIN, "--insecure") == STARTED
    assert open_membership(tmp_path / "mine").home == str(home.resolve())
    monkeypatch.setenv("AFCL_HOME", str(tmp_path / "another"))
    assert f"--home is {home.resolve()} in mine" in typed(capsys, *JOIN, "--insecure")
    assert typed(capsys, *JOIN, "--insecure", "--home", home) == STARTED


def test_a_site_of_an_older_version_is_given_its_home(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path
):
    told = Membership(str(tmp_path / "a.csv"), "a", run="run", state=JOINED)
    keep_membership(tmp_path / "mine", told)
    assert typed(capsys, *JOIN, "--insecure") == STARTED
    assert open_membership(tmp_path / "mine").home == str(home.resolve())


def test_a_coordinator_is_waited_for_with_one_line():
    now = [0.0]
    waiting = Waiting(None, clock=lambda: now[0])
    assert waiting.news(None) == ""
    assert waiting.news("nobody is there.") == "nobody is there. It is waited for."
    for now[0] in (10.0, 1e9):
        assert waiting.news("nobody is there.") == ""
    assert waiting.news(None) == "the coordinator answers"
    assert waiting.news(None) == ""


@pytest.mark.parametrize("limit", [0.0, 20.0])
def test_a_coordinator_is_waited_for_so_long(limit: float):
    now = [0.0]
    waiting = Waiting(limit, clock=lambda: now[0])
    if limit:
        assert waiting.news("nobody.") != ""
    now[0] = limit - 0.5
    assert waiting.news("nobody.") == "" if limit else True
    now[0] = limit
    with pytest.raises(InputError, match="--wait"):
        waiting.news("nobody.")
