# SPDX-License-Identifier: Apache-2.0
"""The ledger: it adds up, refuses, and survives being killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from afcl.exceptions import InputError
from afcl.privacy import ledger as ledger_module
from afcl.privacy.accountant import epsilon_of, mu_of
from afcl.privacy.ledger import Ledger

FOUR = mu_of(4.0, 1e-5)


def test_costs_compose_and_a_repetition_is_free(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", budget=None)
    assert ledger.spent("rows") == 0.0
    ledger.charge("rows", "run 1, hello", FOUR)
    assert ledger.spent("rows") == pytest.approx(4.0)
    ledger.charge("rows", "run 1, hello", FOUR)
    assert ledger.spent("rows") == pytest.approx(4.0)
    # Two equal releases: the root of 2 times mu, which is less than twice epsilon.
    ledger.charge("rows", "run 2, hello", FOUR)
    expected = epsilon_of(2**0.5 * FOUR, 1e-5)
    assert 4.0 < expected < 8.0
    assert ledger.spent("rows") == pytest.approx(expected)
    assert ledger.spent("other rows") == 0.0


@pytest.mark.parametrize("kept", [True, False], ids=["file", "memory"])
def test_the_budget_holds(tmp_path, kept):
    path = tmp_path / "ledger.json" if kept else None
    ledger = Ledger(path, budget=6.0)
    ledger.charge("rows", "first", FOUR)
    before = path.read_bytes() if path else None
    with pytest.raises(InputError) as refused:
        ledger.charge("rows", "second", mu_of(5.0, 1e-5))
    text = str(refused.value)
    assert "has spent epsilon 4 of 6; this run asks for 5" in text
    assert "raise --budget" in text
    assert "\n" not in text
    assert ledger.spent("rows") == pytest.approx(4.0)
    if path:
        assert path.read_bytes() == before
    ledger.charge("other rows", "second", mu_of(5.0, 1e-5))  # another account
    ledger.charge("rows", "third", mu_of(2.0, 1e-5))  # what still fits


def test_a_refused_first_release_leaves_no_file(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(InputError, match="has spent epsilon 0 of 1"):
        Ledger(path, budget=1.0).charge("rows", "first", FOUR)
    assert not path.exists()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 33.3])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_exactly_the_budget_may_be_spent(epsilon, delta):
    ledger = Ledger(None, epsilon, delta)
    ledger.charge("rows", "all of it", mu_of(epsilon, delta))
    assert ledger.spent("rows") == pytest.approx(epsilon)
    with pytest.raises(InputError, match="raise --budget"):
        ledger.charge("rows", "a little more", 1e-3)


def test_another_ledger_on_the_file_sees_what_was_spent(tmp_path):
    path = tmp_path / "deep" / "ledger.json"
    first, second = Ledger(path, 5.0), Ledger(path, 5.0)
    first.charge("rows", "first", FOUR)
    assert second.spent("rows") == pytest.approx(4.0)
    with pytest.raises(InputError, match="has spent epsilon 4 of 5"):
        second.charge("rows", "second", FOUR)


def test_the_same_purpose_cannot_cost_something_else():
    ledger = Ledger(None, None)
    ledger.charge("rows", "hello", FOUR)
    with pytest.raises(InputError, match="'hello' was already charged"):
        ledger.charge("rows", "hello", FOUR / 2)


@pytest.mark.parametrize("mu", [0.0, -1.0, float("nan"), float("inf")])
def test_a_cost_must_be_a_cost(mu):
    with pytest.raises(InputError, match="must be positive"):
        Ledger(None, None).charge("rows", "hello", mu)


def test_limits_must_make_sense():
    with pytest.raises(InputError, match="budget is 0"):
        Ledger(None, 0)
    with pytest.raises(InputError, match="delta is 1"):
        Ledger(None, 1.0, delta=1)


GOOD = {"format": "afcl-ledger", "version": 1, "accounts": {"rows": {"hello": 1.0}}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        json.dumps({**GOOD, "format": "other"}).encode(),
        json.dumps({**GOOD, "version": 2}).encode(),
        json.dumps({**GOOD, "accounts": []}).encode(),
        json.dumps({**GOOD, "accounts": {"rows": 1.0}}).encode(),
        json.dumps({**GOOD, "accounts": {"rows": {"hello": "1"}}}).encode(),
        json.dumps({**GOOD, "accounts": {"rows": {"hello": True}}}).encode(),
        json.dumps({**GOOD, "accounts": {"rows": {"hello": -1.0}}}).encode(),
        json.dumps({**GOOD, "accounts": {"rows": {"hello": float("nan")}}}).encode(),
    ],
)
def test_a_damaged_file_is_never_an_empty_account(tmp_path, content):
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    ledger = Ledger(path, 100.0)
    with pytest.raises(InputError, match="damaged or no ledger"):
        ledger.spent("rows")
    with pytest.raises(InputError, match="damaged or no ledger"):
        ledger.charge("rows", "second", FOUR)
    assert path.read_bytes() == content


def test_every_cut_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "ledger.json"
    Ledger(path, None).charge("rows", "hello", FOUR)
    whole = path.read_bytes()
    for length in range(len(whole.rstrip())):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged"):
            Ledger(path, None).spent("rows")


def test_what_cannot_be_opened_is_said(tmp_path):
    (tmp_path / "ledger.json").mkdir()
    with pytest.raises(InputError, match="cannot read"):
        Ledger(tmp_path / "ledger.json", None).spent("rows")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot lock"):
        Ledger(tmp_path / "file" / "ledger.json", None).charge("rows", "hello", FOUR)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_stops_the_release(tmp_path, monkeypatch, call):
    ledger = Ledger(tmp_path / "ledger.json", None)
    ledger.charge("rows", "first", FOUR)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(InputError, match="nothing is sent: No space left"):
            ledger.charge("rows", "second", FOUR)
    assert ledger.spent("rows") == pytest.approx(4.0)
    ledger.charge("rows", "second", FOUR)
    assert ledger.spent("rows") > 5


def test_folders_are_synced_where_they_can_be(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def watched(path, *more):
        if os.path.isdir(path):
            opened.append(path)
        return real(path, *more)

    monkeypatch.setattr(os, "open", watched)
    Ledger(tmp_path / "ledger.json", None).charge("rows", "first", FOUR)
    assert opened == [tmp_path]
    monkeypatch.setattr(ledger_module, "_CAN_SYNC_FOLDERS", False)
    Ledger(tmp_path / "ledger.json", None).charge("rows", "second", FOUR)
    assert opened == [tmp_path]


CHARGE = """
import os, signal, sys
from pathlib import Path
from afcl.privacy.ledger import Ledger

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

path, moment = Path(sys.argv[1]), sys.argv[2]
real = os.replace
if moment == "after":
    os.replace = lambda *names: (real(*names), die())
elif moment == "before":
    os.replace = die
else:
    os.fsync = die
Ledger(path, 100.0).charge("rows", "second", 1.0)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 needs POSIX")
@pytest.mark.parametrize("moment", ["fsync", "before", "after"])
def test_kill_at_any_moment_leaves_a_whole_file(tmp_path, moment):
    path = tmp_path / "ledger.json"
    Ledger(path, 100.0).charge("rows", "first", 1.0)
    ended = subprocess.run(
        [sys.executable, "-c", CHARGE, str(path), moment], timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    ledger = Ledger(path, 100.0)
    releases = 2 if moment == "after" else 1
    assert ledger.spent("rows") == pytest.approx(epsilon_of(releases**0.5, 1e-5))
    ledger.charge("rows", "second", 1.0)  # neither locked nor in doubt
    assert ledger.spent("rows") == pytest.approx(epsilon_of(2**0.5, 1e-5))


MANY = """
import sys
from pathlib import Path
from afcl.privacy import ledger
if sys.argv[3] == "no-fcntl":
    ledger.fcntl = None
for i in range(20):
    ledger.Ledger(Path(sys.argv[1]), None).charge("rows", f"{sys.argv[2]} {i}", 1.0)
"""


@pytest.mark.parametrize("how", ["fcntl", "no-fcntl"])
def test_two_processes_at_once_lose_nothing(tmp_path, how):
    if how == "fcntl":
        pytest.importorskip("fcntl")
    path = tmp_path / "ledger.json"
    both = [
        subprocess.Popen([sys.executable, "-c", MANY, str(path), name, how])
        for name in ("a", "b")
    ]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert Ledger(path, None).spent("rows") == pytest.approx(epsilon_of(40**0.5, 1e-5))


def test_without_locks_of_the_system_a_file_left_behind_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "fcntl", None)
    monkeypatch.setattr(ledger_module, "PATIENCE", 0.05)
    path = tmp_path / "ledger.json"
    ledger = Ledger(path, None)
    ledger.charge("rows", "first", FOUR)
    left = tmp_path / "ledger.json.lock"
    assert not left.exists()
    left.touch()
    with pytest.raises(InputError, match="delete the file if there is none"):
        ledger.charge("rows", "second", FOUR)
    left.unlink()
    ledger.charge("rows", "second", FOUR)
