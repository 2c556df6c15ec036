# SPDX-License-Identifier: Apache-2.0
"""Files that say what the flags of `serve` and `join` can say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from afcl.cli import app, main
from afcl.cli.tables import items, quoted
from afcl.exceptions import InputError
from afcl.runtime.live.membership import open_membership
from afcl.runtime.live.server import RunPlan


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """How engines were started: nothing is."""
    monkeypatch.chdir(tmp_path)
    found: list[tuple[Any, ...]] = []

    class Launcher:
        @contextmanager
        def serve(self, folder: Path, *how: object) -> Iterator[SimpleNamespace]:
            found.append((folder, *how))
            yield SimpleNamespace(
                begin=lambda: None, turned_away=list, alive=False, log=folder / "log"
            )

        def join(self, folder: Path, *how: object) -> None:
            found.append((folder, *how))
            raise InputError("nothing is started")

    for name in ("serve", "join"):
        module = import_module(f"afcl.cli.{name}")
        monkeypatch.setattr(module, "get_launcher", lambda name: Launcher())
    return found


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    line = capsys.readouterr().err.splitlines()[-1].removeprefix("afcl: ")
    if "the engine ended by itself" in line:  # it was started
        assert ended.value.code == 3
        return "nothing is started"
    assert ended.value.code == 2
    return line


SERVE = """
out = "run"
insecure = true
host = "0.0.0.0"
port = 9000
min-clients = 4
patience = 5
columns = ["age", "last, first"]
ranges = ["age=0:120", "last, first=0:1"]
min_cell = 7
criterion = "bic"
"""
SITE = """
address = "hub:8000"
data = "rows.csv"
name = "site-a"
out = "mine"
insecure = true
drop = ["last, first"]
unit = ["x=cm"]
budget = 8
"""


def test_a_coordinator_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], started: list[Any]
):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "coordinator.toml").write_text(SERVE)
    typed(capsys, "serve", "--config", "below/coordinator.toml")
    folder = tmp_path / "below" / "run"  # relative to the file
    assert started == [(folder, "0.0.0.0", 9000, None)]
    plan = RunPlan.read(folder)
    assert (plan.min_clients, plan.patience) == (4, 5)
    assert plan.columns == ("age", "last, first")
    assert {name: tuple(both) for name, both in (plan.ranges or {}).items()} == {
        "age": (0, 120),
        "last, first": (0, 1),
    }
    assert plan.options["min_cell"] == 7
    assert plan.options["criterion"] == "bic"
    # The same again goes on; what is typed wins.
    typed(capsys, "serve", "--config", "below/coordinator.toml", "--port", 9001)
    assert started[1:] == [(folder, "0.0.0.0", 9001, None)]
    line = typed(capsys, "serve", "--config", "below/coordinator.toml", "--min-cell", 6)
    assert "--min-cell is 7 in this run" in line


def test_a_site_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], started: list[Any]
):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "site.toml").write_text(SITE)
    rows = 'x,y,"last, first"\n' + "1,2,3\n3,4,5\n" * 5
    (tmp_path / "below" / "rows.csv").write_text(rows)
    typed(capsys, "join", "--config", "below/site.toml")
    folder = tmp_path / "below" / "mine"
    assert started == [(folder, "hub:8000", None, None, 0)]
    member = open_membership(folder)
    assert member.data == str(tmp_path / "below" / "rows.csv")
    assert (member.name, member.drop) == ("site-a", ("last, first",))
    assert (member.units, member.budget) == ({"x": "cm"}, 8)
    assert member.coordinator == "hub:8000"
    typed(capsys, "join", "other:1", "--config", "below/site.toml")
    assert started[1][1] == "other:1"


@pytest.mark.parametrize(
    ("command", "text", "line"),
    [
        ("serve", "min-client = 3", "unknown key 'min-client'; did you mean 'min-cli"),
        ("serve", "Max_Round = 3", "did you mean 'max-rounds'?"),
        ("serve", "zzz = 3", "unknown key 'zzz'; known are allow-one, "),
        ("serve", 'config = "x"', "unknown key 'config'"),
        ("serve", 'port = "8000"', "port must be a whole number, not '8000'"),
        ("serve", "port = true", "port must be a whole number, not True"),
        ("serve", 'patience = "1"', "patience must be a number"),
        ("serve", "insecure = 1", "insecure must be true or false"),
        ("serve", 'hostname = "a"', "hostname must be a list of texts"),
        ("serve", "host = 1", "host must be a text"),
        ("serve", "min-cell = 1.5", "min-cell must be a whole number"),
        ("serve", "port = ", "is not TOML"),
        ("serve", "min-clients = 0", "0 is not in the range"),
        ("join", "privcy = 1", "did you mean 'privacy'?"),
        ("join", "port-number = 1", "unknown key 'port-number'"),
        ("join", "columns = [1]", "columns must be a list of texts"),
    ],
)
def test_bad_files_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    text: str,
    line: str,
):
    (tmp_path / "bad.toml").write_text(text + "\n")
    assert line in typed(capsys, command, "--out", "r", "--config", "bad.toml")
    assert not list(tmp_path.glob("*/"))


@pytest.mark.parametrize("command", ["serve", "join"])
def test_a_file_can_say_all_that_flags_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
):
    """Every flag is known by its name, though not every value is any good."""
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    typed_as = [each.opts[-1].strip("-") for each in parameters if each.opts]
    known = {flag for flag in typed_as if flag not in ("config", "help")}
    assert len(known) > 15
    for flag in known:
        (tmp_path / "one.toml").write_text(f"{flag} = {{}}\n")
        line = typed(capsys, command, "--out", "r", "--config", "one.toml")
        assert f"{flag} must be" in line, line


@given(st.text(st.characters(exclude_characters="\r\n\0"), min_size=1))
def test_quoted_items_stay_whole(text: str):
    assert items("--drop", [quoted(text)]) == ((text.strip(),) if text.strip() else ())
