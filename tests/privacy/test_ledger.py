# SPDX-License-Identifier: Apache-2.0
"""The ledger: it adds up, refuses, and survives being killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from afcl.exceptions import InputError
from afcl.privacy import files
from afcl.privacy.accountant import epsilon_of, mu_of
from afcl.privacy.ledger import DataSet, Ledger, Overdrawn

FOUR = mu_of(4.0, 1e-5)
ROWS, OTHER = DataSet("rows", ("r",)), DataSet("other", ("o",))
FIVE, SIX = "groups of 5 rows", "groups of 6 rows"


def test_costs_compose_and_a_repetition_is_free(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", budget=None)
    assert ledger.spent(ROWS) == 0.0
    ledger.charge(ROWS, "run 1, hello", FOUR)
    assert ledger.spent(ROWS) == pytest.approx(4.0)
    ledger.charge(ROWS, "run 1, hello", FOUR)
    assert ledger.spent(ROWS) == pytest.approx(4.0)
    # Two equal releases: the root of 2 times mu, which is less than twice epsilon.
    ledger.charge(ROWS, "run 2, hello", FOUR)
    expected = epsilon_of(2**0.5 * FOUR, 1e-5)
    assert 4.0 < expected < 8.0
    assert ledger.spent(ROWS) == pytest.approx(expected)
    assert ledger.spent(OTHER) == 0.0


@pytest.mark.parametrize("kept", [True, False], ids=["file", "memory"])
def test_the_budget_holds(tmp_path, kept):
    path = tmp_path / "ledger.json" if kept else None
    ledger = Ledger(path, budget=6.0)
    ledger.charge(ROWS, "first", FOUR)
    before = path.read_bytes() if path else None
    with pytest.raises(InputError) as refused:
        ledger.charge(ROWS, "second", mu_of(5.0, 1e-5))
    text = str(refused.value)
    assert "has spent epsilon 4 of 6; this run asks for 5" in text
    assert "raise --budget" in text
    assert "\n" not in text
    assert ledger.spent(ROWS) == pytest.approx(4.0)
    if path:
        assert path.read_bytes() == before
    ledger.charge(OTHER, "second", mu_of(5.0, 1e-5))  # another account
    ledger.charge(ROWS, "third", mu_of(2.0, 1e-5))  # what still fits


def test_a_refused_first_release_leaves_no_file(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(InputError, match="has spent epsilon 0 of 1"):
        Ledger(path, budget=1.0).charge(ROWS, "first", FOUR)
    assert not path.exists()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 33.3])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_exactly_the_budget_may_be_spent(epsilon, delta):
    ledger = Ledger(None, epsilon, delta)
    ledger.charge(ROWS, "all of it", mu_of(epsilon, delta))
    assert ledger.spent(ROWS) == pytest.approx(epsilon)
    with pytest.raises(InputError, match="raise --budget"):
        ledger.charge(ROWS, "a little more", 1e-3)


def test_another_ledger_on_the_file_sees_what_was_spent(tmp_path):
    path = tmp_path / "deep" / "ledger.json"
    first, second = Ledger(path, 5.0), Ledger(path, 5.0)
    first.charge(ROWS, "first", FOUR)
    assert second.spent(ROWS) == pytest.approx(4.0)
    with pytest.raises(InputError, match="has spent epsilon 4 of 5"):
        second.charge(ROWS, "second", FOUR)


def test_the_same_purpose_cannot_cost_something_else():
    ledger = Ledger(None, None)
    ledger.charge(ROWS, "hello", FOUR)
    with pytest.raises(InputError, match="'hello' was already charged"):
        ledger.charge(ROWS, "hello", FOUR / 2)


@pytest.mark.parametrize("mu", [-1.0, float("nan"), float("inf")])
def test_a_cost_must_be_a_cost(mu):
    with pytest.raises(InputError, match="must not be negative"):
        Ledger(None, None).charge(ROWS, "hello", mu)


def test_limits_must_make_sense():
    with pytest.raises(InputError, match="budget is 0"):
        Ledger(None, 0)
    with pytest.raises(InputError, match="delta is 1"):
        Ledger(None, 1.0, delta=1)


GOOD = {"format": "afcl-ledger", "version": 1, "accounts": {"r": {"hello": 1.0}}}


NEW: dict[str, Any] = {
    "format": "afcl-ledger",
    "version": 2,
    "accounts": [
        {
            "names": ["rows"],
            "rows": ["r"],
            "released": [{"purpose": "hello", "run": "a", "mu": 1.0}],
        }
    ],
}


def changed(**change):
    """Return the file with something else in its only account."""
    (account,) = NEW["accounts"]
    return {**NEW, "accounts": [{**account, **change}]}


def released(**change):
    """Return the file with something else in its only release."""
    release = {"purpose": "hello", "run": "a", "mu": 1.0}
    return changed(released=[{**release, **change}])


@pytest.mark.parametrize(
    "content",
    [
        {**NEW, "accounts": [1]},
        changed(more=1),
        changed(names="rows"),
        changed(names=[1]),
        changed(rows=[None]),
        changed(released=[1]),
        released(more=1),
        released(purpose=1),
        released(run=None),
        released(mu="1"),
        released(mu=-1.0),
        released(mu=True),
        released(mu=float("inf")),
    ],
)
def test_a_damaged_account_is_never_an_empty_one(tmp_path, content):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="damaged or no ledger"):
        Ledger(path, None).spent(ROWS)
    path.write_text(json.dumps(NEW))
    assert Ledger(path, None).spent(ROWS) == pytest.approx(epsilon_of(1.0, 1e-5))


def test_either_the_name_or_the_rows_tell_data_again():
    """Neither a copy of the file nor a new name begin a new account."""
    ledger = Ledger(None, budget=6.0)
    ledger.charge(DataSet("a", ("1",)), "first", FOUR)
    for known in (DataSet("a", ("2",)), DataSet("b", ("1",)), DataSet("b", ("9", "1"))):
        assert ledger.spent(known) == pytest.approx(4.0)
    assert ledger.spent(DataSet("b", ("2",))) == 0.0
    # Two accounts that turn out to be of one data set are added up.
    ledger.charge(DataSet("b", ("2",)), "first", FOUR / 2)
    with pytest.raises(InputError, match="has spent epsilon 4"):
        ledger.charge(DataSet("a", ("2",)), "second", FOUR)
    both = ledger.spent(DataSet("a", ("2",)))
    assert both == pytest.approx(epsilon_of(1.25**0.5 * FOUR, 1e-5))


def test_only_so_many_runs_say_something_that_has_no_epsilon(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", None, runs=2)
    ledger.charge(ROWS, "groups of 5", run="a")
    ledger.charge(ROWS, "groups of 6", run="a")  # once in, a run may
    ledger.charge(ROWS, "synopsis", FOUR, run="c")  # has an epsilon
    ledger.charge(ROWS, "groups of 5", run="d")  # said before
    ledger.charge(ROWS, "extremes")  # said in every run alike
    ledger.charge(ROWS, "groups of 7", run="b")
    with pytest.raises(Overdrawn, match="described in 2 runs already.*--runs 3"):
        ledger.charge(ROWS, "groups of 8", run="e")
    ledger.charge(ROWS, "groups of 8", run="b")
    ledger.charge(OTHER, "groups of 8", run="e")
    # Who allows fewer than there were is not locked out of these.
    ledger = Ledger(tmp_path / "ledger.json", None, runs=1)
    ledger.charge(ROWS, "groups of 9", run="a")
    with pytest.raises(Overdrawn, match="--runs 3"):
        ledger.charge(ROWS, "groups of 10", run="f")


def test_what_every_run_hears_is_told_in_one_way(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", None, runs=50)
    ledger.charge(ROWS, "extremes of groups of 5 rows")
    ledger.charge(ROWS, "groups of 6", run="a")  # counted by runs
    for again in (ROWS, DataSet("rows", ("s",)), DataSet("copy", ("r",))):
        with pytest.raises(Overdrawn, match="groups of 5 rows were told before") as no:
            ledger.charge(again, "extremes of groups of 6 rows")
        assert "\n" not in str(no.value)
        ledger.again(again, "extremes of groups of 5 rows", 0.0, "")
    ledger.charge(OTHER, "extremes of groups of 6 rows")


TOLD = "extremes and medians of "


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((FIVE, "a"), (SIX, "a")),
        ((FIVE + " (box)", "a"), (SIX + " (box)", "b")),
        ((FIVE, "a"), (TOLD + SIX, "")),
        ((FIVE, "a"), (TOLD + "rows", "")),
        ((TOLD + FIVE, ""), (SIX, "a")),
        ((TOLD + FIVE, ""), (TOLD + SIX, "")),
    ],
)
def test_rows_are_told_in_groups_of_one_size(tmp_path, first, then):
    """In agreements and first messages alike, however many runs are allowed."""
    ledger = Ledger(tmp_path / "ledger.json", None, runs=50)
    ledger.again(ROWS, first[0], 0.0, first[1])
    for again in (ROWS, DataSet("rows", ("s",)), DataSet("copy", ("r",))):
        for refuse in (ledger.check, ledger.charge):
            with pytest.raises(Overdrawn, match="of 5 rows were told before") as no:
                refuse(again, then[0], run=then[1])
            assert "\n" not in str(no.value)
            assert "(box)" not in str(no.value)
            assert ("--ranges" in str(no.value)) == (not then[1])
        with pytest.raises(Overdrawn, match="ask for groups of 5 again"):
            ledger.check_groups(again, 6)
        ledger.check_groups(again, 5)
        for kept in ((FIVE + " (another box)", "b"), (TOLD + FIVE, "")):
            ledger.check(again, kept[0], run=kept[1])
    ledger.charge(ROWS, "30 cells of 5 rows", run="c")  # in no groups
    ledger.charge(OTHER, then[0], run=then[1])


def test_groups_after_extremes_of_rows_are_a_further_run():
    ledger = Ledger(None, None, runs=1)
    ledger.charge(ROWS, TOLD + "rows")
    ledger.charge(ROWS, "rows in run a", run="a")
    with pytest.raises(Overdrawn, match="--runs 2"):
        ledger.charge(ROWS, FIVE, run="b")
    Ledger(None, None, runs=1).check_groups(ROWS, 6)


def test_a_ledger_that_has_two_sizes_keeps_both(tmp_path):
    """As older ones may: what was told is told."""
    path = tmp_path / "ledger.json"
    both = [{"purpose": each, "run": "a", "mu": 0.0} for each in (FIVE, SIX)]
    path.write_text(json.dumps(changed(released=both)))
    ledger = Ledger(path, None, runs=1)
    for kept in (FIVE, SIX):
        ledger.charge(ROWS, f"{kept} (box)", run="a")
    with pytest.raises(Overdrawn, match="groups of 7 rows would tell"):
        ledger.charge(ROWS, "groups of 7 rows", run="a")


def test_what_must_be_made_anew_is_paid_for_again():
    ledger = Ledger(None, budget=None)
    for times in range(3):
        assert ledger.times(ROWS, "synopsis") == times
        ledger.again(ROWS, "synopsis", 1.0, "a")
    assert ledger.spent(ROWS) == pytest.approx(epsilon_of(3**0.5, 1e-5))
    assert ledger.times(ROWS, "synop") == 0


def test_an_older_file_is_read_and_never_reset(tmp_path):
    """Its accounts go by what the rows were, in their order."""
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(GOOD))
    ledger = Ledger(path, budget=None)
    data = DataSet("file", ("in any order", "r"))
    assert ledger.spent(data) == pytest.approx(epsilon_of(1.0, 1e-5))
    ledger.charge(data, "synopsis", 1.0)
    assert json.loads(path.read_text())["version"] == 2
    assert ledger.spent(DataSet("file")) == pytest.approx(epsilon_of(2**0.5, 1e-5))


def test_rows_are_found_by_their_place_too():
    """Also where an older account does not have it: by its name then."""
    ledger = Ledger(None, budget=6.0)
    ledger.charge(DataSet("file a b", ("1",)), "first", FOUR)
    ledger.charge(DataSet("file a b", ("1",), "file"), "third", mu_of(1.0, 1e-5))
    other = DataSet("file a", ("2",), "file")
    with pytest.raises(Overdrawn, match="has spent epsilon 4"):
        ledger.charge(other, "second", FOUR)
    assert not ledger.account(other).in_groups
    ledger.charge(other, FIVE, run="a")
    assert ledger.account(other).in_groups


def test_another_file_is_taken_over_once(tmp_path):
    older, path = tmp_path / "older.json", tmp_path / "ledger.json"
    older.write_text(json.dumps(GOOD))
    ledger = Ledger(path, budget=None)
    ledger.charge(DataSet("rows", ("s", "r")), "synopsis", 1.0)
    for _ in range(2):
        ledger.adopt(older)
        assert ledger.spent(ROWS) == pytest.approx(epsilon_of(2**0.5, 1e-5))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        json.dumps({**GOOD, "format": "other"}).encode(),
        json.dumps({**GOOD, "version": 3}).encode(),
        json.dumps({**GOOD, "version": 2}).encode(),
        json.dumps({**GOOD, "accounts": []}).encode(),
        json.dumps({**GOOD, "accounts": {"r": 1.0}}).encode(),
        json.dumps({**GOOD, "accounts": {"r": {"hello": "1"}}}).encode(),
        json.dumps({**GOOD, "accounts": {"r": {"hello": True}}}).encode(),
        json.dumps({**GOOD, "accounts": {"r": {"hello": -1.0}}}).encode(),
        json.dumps({**GOOD, "accounts": {"r": {"hello": float("nan")}}}).encode(),
    ],
)
def test_a_damaged_file_is_never_an_empty_account(tmp_path, content):
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    ledger = Ledger(path, 100.0)
    with pytest.raises(InputError, match="damaged or no ledger"):
        ledger.spent(ROWS)
    with pytest.raises(InputError, match="damaged or no ledger"):
        ledger.charge(ROWS, "second", FOUR)
    assert path.read_bytes() == content


def test_every_cut_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "ledger.json"
    Ledger(path, None).charge(ROWS, "hello", FOUR)
    whole = path.read_bytes()
    for length in range(len(whole.rstrip())):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged"):
            Ledger(path, None).spent(ROWS)


def test_what_cannot_be_opened_is_said(tmp_path):
    (tmp_path / "ledger.json").mkdir()
    with pytest.raises(InputError, match="cannot read"):
        Ledger(tmp_path / "ledger.json", None).spent(ROWS)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot lock"):
        Ledger(tmp_path / "file" / "ledger.json", None).charge(ROWS, "hello", FOUR)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_stops_the_release(tmp_path, monkeypatch, call):
    ledger = Ledger(tmp_path / "ledger.json", None)
    ledger.charge(ROWS, "first", FOUR)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(InputError, match="nothing is sent: No space left"):
            ledger.charge(ROWS, "second", FOUR)
    assert ledger.spent(ROWS) == pytest.approx(4.0)
    ledger.charge(ROWS, "second", FOUR)
    assert ledger.spent(ROWS) > 5


def test_folders_are_synced_where_they_can_be(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def watched(path, *more):
        if os.path.isdir(path):
            opened.append(path)
        return real(path, *more)

    monkeypatch.setattr(os, "open", watched)
    Ledger(tmp_path / "ledger.json", None).charge(ROWS, "first", FOUR)
    assert opened == [tmp_path]
    monkeypatch.setattr("afcl.durable._CAN_SYNC_FOLDERS", False)
    Ledger(tmp_path / "ledger.json", None).charge(ROWS, "second", FOUR)
    assert opened == [tmp_path]


CHARGE = """
import os, signal, sys
from pathlib import Path
from afcl.privacy.ledger import DataSet, Ledger

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
Ledger(path, 100.0).charge(DataSet("rows", ("r",)), "second", 1.0)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 needs POSIX")
@pytest.mark.parametrize("moment", ["fsync", "before", "after"])
def test_kill_at_any_moment_leaves_a_whole_file(tmp_path, moment):
    path = tmp_path / "ledger.json"
    Ledger(path, 100.0).charge(ROWS, "first", 1.0)
    ended = subprocess.run(
        [sys.executable, "-c", CHARGE, str(path), moment], timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    ledger = Ledger(path, 100.0)
    releases = 2 if moment == "after" else 1
    assert ledger.spent(ROWS) == pytest.approx(epsilon_of(releases**0.5, 1e-5))
    ledger.charge(ROWS, "second", 1.0)  # neither locked nor in doubt
    assert ledger.spent(ROWS) == pytest.approx(epsilon_of(2**0.5, 1e-5))


MANY = """
import sys
from pathlib import Path
from afcl.privacy import files
from afcl.privacy.ledger import DataSet, Ledger
if sys.argv[3] == "no-fcntl":
    files.fcntl = None
ROWS = DataSet("rows", ("r",))
for i in range(20):
    Ledger(Path(sys.argv[1]), None).charge(ROWS, f"{sys.argv[2]} {i}", 1.0)
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
    assert Ledger(path, None).spent(ROWS) == pytest.approx(epsilon_of(40**0.5, 1e-5))


def test_without_locks_of_the_system_a_file_left_behind_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    path = tmp_path / "ledger.json"
    ledger = Ledger(path, None)
    ledger.charge(ROWS, "first", FOUR)
    left = tmp_path / "ledger.json.lock"
    assert not left.exists()
    left.touch()
    with pytest.raises(InputError, match="delete the file if there is none"):
        ledger.charge(ROWS, "second", FOUR)
    left.unlink()
    ledger.charge(ROWS, "second", FOUR)
