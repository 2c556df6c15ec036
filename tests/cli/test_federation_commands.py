# SPDX-License-Identifier: Apache-2.0
"""`enrol`, `revoke`, `certificates`, `serve --federation`: what they say and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.test_live_commands import JOIN, PLAN, said
from tests.keys import make_key

from afcl.cli import main
from afcl.exceptions import InputError
from afcl.runtime.live.enrolment import ENROLLED
from afcl.runtime.live.federation import Federation
from afcl.runtime.live.server import RunPlan

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,4\n" * 5)
    for name in ("site-a", "site-b"):
        make_key(tmp_path / "keys", name)
    return tmp_path


class Told:
    """A launcher that notes what it is asked for, and starts nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def certificates(self, folder: Path, hosts: list[str], say: Any) -> object:
        self.asked.append((folder, hosts))
        say("server.crt ends in 12 days")
        return SimpleNamespace(ca="ca.crt")

    def renew(self, folder: Path, hosts: list[str], say: Any) -> None:
        self.asked.append((folder, hosts))
        say("server.crt is new")

    def describe_certificates(self, folder: Path) -> list[str]:
        self.asked.append((folder,))
        return ["server.crt: 800 days left"]

    def ending_soon(self, address: str, ca: Path) -> list[str]:
        self.asked.append((address, ca))
        return ["the coordinator's certificate ends in 12 days"]

    @contextmanager
    def serve(self, folder: Path, *given: object) -> Iterator[SimpleNamespace]:
        log = folder / "engine" / "log"
        yield SimpleNamespace(
            begin=lambda: None, turned_away=list, alive=False, log=log
        )

    def join(self, *given: object) -> None:
        raise InputError("no engine here")


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    for name in ("serve", "join", "federation"):
        module = import_module(f"afcl.cli.{name}")
        monkeypatch.setattr(module, "get_launcher", lambda name: told)
    return told


def warned(capsys: Capture, *words: object) -> list[str]:
    """Return the lines of a command that ends without an engine."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code in (2, 3)
    lines = capsys.readouterr().err.splitlines()
    assert "no engine here" in lines[-1] or "engine ended by itself" in lines[-1]
    return lines[:-1]


# ------------------------------------------------------------------ enrol


def test_a_broken_key_is_refused_by_name(capsys: Capture, here: Path):
    whole = (here / "keys" / "site-a.pub").read_text()
    (here / "keys" / "short.pub").write_text(whole[:80])
    PLAN.write(here / "r")
    line = said(capsys, 2, "enrol", "keys/site-b.pub", "keys/short.pub")
    assert "keys/short.pub cannot be enrolled: cut off or damaged" in line
    assert not (here / "r" / ENROLLED).exists()


def test_a_key_is_enrolled_under_the_name_it_is_given(capsys: Capture, here: Path):
    text = said(
        *(capsys, 0, "enrol", "keys/site-a.pub", "--federation", "fed"),
        *("--name", "St. Mary"),
    )
    assert text.startswith("St. Mary may join the federation in fed: key SHA256:")
    assert (here / "fed" / ENROLLED / "St. Mary.pub").is_file()
    line = said(capsys, 2, "enrol", "keys/site-a.pub", "keys/site-b.pub", "--name", "x")
    assert "--name is for one key" in line
    line = said(
        capsys, 2, "enrol", "keys/site-b.pub", "--federation", "fed", "--name", "a/b"
    )
    assert "'a/b': a site's name must do as a file name" in line


def test_a_name_goes_over_only_if_that_is_typed(capsys: Capture, here: Path):
    make_key(here / "new", "site-a")
    said(capsys, 0, "enrol", "keys/site-a.pub", "--run", "fed")
    line = said(capsys, 2, "enrol", "new/site-a.pub", "--run", "fed")
    assert "ask its people, then type --replace" in line
    said(capsys, 0, "enrol", "new/site-a.pub", "--run", "fed", "--replace")
    line = said(capsys, 2, "enrol", "keys/site-a.pub", "--run", "fed", "--replace")
    assert "the key of site-a was revoked" in line
    line = said(capsys, 2, "enrol", "keys/site-b.pub", "keys/site-b.pub", "--run", "f")
    assert "two keys for site-b" in line


def test_how_many_rows_a_site_may_have_is_agreed_when_it_is_enrolled(
    capsys: Capture, here: Path
):
    def enrol(*words: object) -> str:
        return said(capsys, 0, "enrol", *words, "--federation", "fed").strip()

    def agreed() -> list[int]:
        return [member.max_rows for member in Federation(here / "fed").members()]

    assert "rows" not in enrol("keys/site-a.pub")
    assert enrol("keys/site-b.pub", "--max-rows", 500).endswith(", 500 rows at most")
    assert agreed() == [0, 500]
    # The same key again: as agreed, or as agreed now.
    assert enrol("keys/site-b.pub").endswith(", 500 rows at most")
    assert enrol("keys/site-b.pub", "--max-rows", 700).endswith(", 700 rows at most")
    make_key(here / "new", "site-b")
    text = enrol("new/site-b.pub", "--replace")
    assert text.endswith(", 700 rows at most")  # agreed with the site, not the key
    assert agreed() == [0, 700, 700]
    assert "--max-rows" in said(capsys, 2, "enrol", "keys/site-a.pub", "--max-rows", 0)


# ------------------------------------------------------------------ revoke


def test_a_key_is_revoked_for_good(capsys: Capture, here: Path):
    said(capsys, 0, "enrol", "keys/site-a.pub", "keys/site-b.pub", "--run", "fed")
    text = said(capsys, 0, "revoke", "site-a")
    assert text.startswith("site-a may join no more: key SHA256:")
    assert "no key of 'site-a' here: there is site-b" in said(
        capsys, 2, "revoke", "site-a"
    )
    assert [key.name for key in Federation(here / "fed").enrolment().keys] == ["site-b"]


# ------------------------------------------------------------------ the folder


def test_many_runs_share_one_federation(capsys: Capture, here: Path, launcher: Told):
    for run in ("run1", "run2"):
        words = ("serve", "--federation", "fed", "--out", f"fed/{run}")
        notes = warned(capsys, *words)
        assert "note: server.crt ends in 12 days" in notes
        plan = RunPlan.read(here / "fed" / run)
        assert plan.federation == ".."
        assert plan.members(here / "fed" / run).folder == here / "fed"
        # A resumed run knows where it belongs, and to nobody else.
        warned(capsys, "serve", "--resume", f"fed/{run}")
        line = said(capsys, 2, "serve", "--resume", f"fed/{run}", "--federation", "x")
        assert "belongs to the federation in" in line
    assert [asked[0] for asked in launcher.asked] == [here / "fed" / "tls"] * 4
    # Whichever run is named, the federation is meant.
    said(capsys, 0, "enrol", "keys/site-a.pub", "--run", "fed/run2")
    assert (here / "fed" / ENROLLED / "site-a.pub").is_file()


def test_a_run_without_a_federation_is_its_own(
    capsys: Capture, here: Path, launcher: Told
):
    warned(capsys, "serve", "--out", "r")
    assert RunPlan.read(here / "r").federation == ""
    assert launcher.asked == [(here / "r" / "tls", ["127.0.0.1"])]
    said(capsys, 0, "enrol", "keys/site-a.pub")
    assert (here / "r" / ENROLLED / "site-a.pub").is_file()


def test_the_federation_in_which_one_stands_is_meant(
    capsys: Capture, here: Path, monkeypatch: pytest.MonkeyPatch
):
    said(capsys, 0, "enrol", "keys/site-a.pub", "--federation", "fed")
    said(capsys, 0, "enrol", "keys/site-b.pub")  # the only one here
    monkeypatch.chdir(here / "fed")
    assert "site-b may join no more" in said(capsys, 0, "revoke", "site-b")
    line = said(capsys, 2, "revoke", "x", "--run", ".", "--federation", ".")
    assert "exclude each other" in line


def test_without_tls_no_name_is_bound_and_that_is_said(
    capsys: Capture, here: Path, launcher: Told
):
    lines = warned(capsys, "serve", "--out", "r", "--insecure")
    assert any("anybody can join, under any name" in line for line in lines)


# ------------------------------------------------------------------ certificates


def test_certificates_are_shown_and_renewed(
    capsys: Capture, here: Path, launcher: Told
):
    (here / "fed" / "tls").mkdir(parents=True)
    text = said(capsys, 0, "certificates", "fed")
    assert text == "server.crt: 800 days left\n"
    words = ("certificates", "fed/tls", "--renew", "--hostname", "b.example.org")
    assert said(capsys, 0, *words).splitlines() == [
        "server.crt is new",
        "server.crt: 800 days left",
    ]
    tls = Path("fed") / "tls"
    assert launcher.asked == [(tls,), (tls, ["b.example.org"]), (tls,)]
    line = said(capsys, 2, "certificates", "fed", "--hostname", "b.example.org")
    assert "--hostname needs --renew" in line


def test_a_site_is_warned_of_certificates_that_end(
    capsys: Capture, here: Path, launcher: Told
):
    (here / "ca.crt").write_text("")
    lines = warned(capsys, *JOIN, "--ca", "ca.crt", "--key", "keys/site-a")
    assert "warning: the coordinator's certificate ends in 12 days" in lines
    assert launcher.asked == [("127.0.0.1:1", Path("ca.crt"))]


def test_a_new_key_shows_what_people_compare(capsys: Capture, here: Path):
    pytest.importorskip("flwr", reason="keys are made by 'afcl[flower]'")
    text = said(capsys, 0, "keygen", "--out", "mine", "--name", "north")
    said(capsys, 0, "enrol", "mine/north.pub", "--federation", "fed")
    (member,) = Federation(here / "fed").members()
    assert text.rstrip().endswith(f"compare on the telephone: {member.fingerprint}")
