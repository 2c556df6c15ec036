# SPDX-License-Identifier: Apache-2.0
"""A site's own record of what has left it, against what the coordinator received."""

from __future__ import annotations

import hashlib
import json
import stat
from collections import Counter
from dataclasses import replace

import pytest

from afcl.cli import main
from afcl.core.terms import AskAnnouncement
from afcl.exceptions import InputError
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import keep_membership, open_membership
from afcl.runtime.live.sent import KEPT, REFUSAL, SENT, read_sent
from afcl.runtime.live.server import serve_run
from afcl.runtime.live.trouble import KEPT_HERE, answer_or_reason

from .test_federation import COLUMNS, ListEngine, events, plan, write_sites

ASK = encode(AskAnnouncement("run", True))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    init = Admission.__init__

    def patched(self, *args, **kwargs):
        ticks = iter(range(10**9))
        kwargs |= {"clock": lambda: float(next(ticks)), "sleep": lambda seconds: None}
        init(self, *args, **kwargs)

    monkeypatch.setattr(Admission, "__init__", patched)


def joined(folders, **changes):
    for folder in folders.values():
        member = replace(open_membership(folder), coordinator="hub:8000", **changes)
        keep_membership(folder, member)


LEVELS = {
    "summary": {"privacy": "summary"},
    "secure+summary": {"privacy": "secure+summary"},
    "dp(8)": {"privacy": "dp(8)"},
}


@pytest.mark.parametrize("level", LEVELS)
def test_the_record_adds_up_to_what_the_coordinator_received(tmp_path, level, seed):
    _, folders = write_sites(tmp_path, seed=seed)
    joined(folders)
    bounds = {"ranges": dict.fromkeys(COLUMNS, (-1.0, 7.0))} if "dp" in level else {}
    run = plan(tmp_path / "run", options=LEVELS[level], **bounds)
    serve_run(ListEngine(folders), run)

    received: Counter[str] = Counter()
    announced: Counter[str] = Counter()
    clients = {e["client"]: e["name"] for e in events(run, "ranges")}
    for event in events(run, "hello", "update"):
        received[clients[event["client"]]] += event["bytes"]
    for event in events(run, "ranges"):
        announced[event["name"]] += event["bytes"]
    assert len(clients) == len(folders)
    for folder in folders.values():
        sent, damaged = read_sent(folder)
        assert damaged == []
        first, *answers, last = sent
        assert first.message.startswith("announcement")
        assert ("extremes" in first.message) is not bool(bounds)
        assert first.level == ""
        assert first.bytes == announced[first.site]
        assert last.message == "receipt"
        assert sum(entry.bytes for entry in answers) == received[first.site]
        assert {entry.level for entry in answers} == {level}
        assert {(entry.run, entry.to) for entry in sent} == {("run", "hub:8000")}


def test_what_is_sent_is_named(tmp_path):
    """Sums over sites: the announcement, a key, masked parts and the receipt."""
    _, folders = write_sites(tmp_path)
    joined(folders)
    options = {"privacy": "secure+summary"}
    serve_run(ListEngine(folders), plan(tmp_path / "run", options=options))
    sent, _ = read_sent(folders[100])
    assert [entry.message for entry in sent[:3]] == [
        "announcement with extremes and medians",
        "first summary and mask key",
        "masked part (count)",
    ]
    assert all(e.message.startswith("masked part (") for e in sent[2:-1])


def test_the_home_has_the_record_of_all_sites(tmp_path, home):
    _, folders = write_sites(tmp_path)
    joined(folders)
    serve_run(ListEngine(folders), plan(tmp_path / "run"))
    together, _ = read_sent(home)
    apart = [entry for folder in folders.values() for entry in read_sent(folder)[0]]
    assert sorted(together, key=repr) == sorted(apart, key=repr)


def test_what_is_sent_can_be_kept(tmp_path):
    _, folders = write_sites(tmp_path)
    joined(folders, keep_sent=True)
    reply = answer(folders[100], ASK)
    (entry,), _ = read_sent(folders[100])
    kept = folders[100] / entry.kept
    assert kept.parent.name == KEPT
    assert kept.read_bytes() == reply
    assert isinstance(decode(reply), Announcement)
    assert entry.sha256 == hashlib.sha256(reply).hexdigest()
    assert entry.bytes == len(reply)
    assert entry.at.endswith("+00:00")
    for path in (kept, folders[100] / SENT):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_same_again_has_left_again(tmp_path):
    _, folders = write_sites(tmp_path)
    first, second = answer(folders[100], ASK), answer(folders[100], ASK)
    sent, _ = read_sent(folders[100])
    assert first == second
    assert [entry.sha256 for entry in sent] == [hashlib.sha256(first).hexdigest()] * 2


def test_a_refusal_leaves_too(tmp_path):
    _, folders = write_sites(tmp_path)
    answer(folders[100], ASK)
    other = encode(AskAnnouncement("another", True))
    said, why = answer_or_reason(folders[100], other)
    assert said == b""
    entry = read_sent(folders[100])[0][-1]
    assert (entry.message, entry.run) == (REFUSAL, "another")
    assert entry.sha256 == hashlib.sha256(why.encode()).hexdigest()


@pytest.mark.parametrize("garbage", [b"", b"\x00" * 9, b"no request"])
def test_garbage_is_refused_and_recorded(tmp_path, garbage):
    _, folders = write_sites(tmp_path)
    _, why = answer_or_reason(folders[100], garbage)
    entry = read_sent(folders[100])[0][-1]
    assert (entry.message, entry.run, entry.bytes) == (REFUSAL, "", len(why.encode()))


def test_what_cannot_be_recorded_is_not_sent(tmp_path):
    _, folders = write_sites(tmp_path)
    (folders[100] / SENT).mkdir()
    with pytest.raises(InputError, match="so nothing is sent"):
        answer(folders[100], ASK)
    assert answer_or_reason(folders[100], ASK) == (b"", KEPT_HERE)


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path):
    _, folders = write_sites(tmp_path)
    answer(folders[100], ASK)
    path = folders[100] / SENT
    with path.open("ab") as file:
        file.write(b'{"at": "20')
    answer(folders[100], ASK)
    sent, damaged = read_sent(folders[100])
    assert len(sent) == 2
    assert damaged == [f"line 2 of {path} cannot be read"]


# ------------------------------------------------------------------ afcl log


def told(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["log", *map(str, words)])
    assert ended.value.code == code
    out = capsys.readouterr()
    return out.err if code else out.out


def test_the_log_in_words_and_as_json(tmp_path, capsys, home):
    _, folders = write_sites(tmp_path)
    joined(folders, budget=9.0)
    bounds = dict.fromkeys(COLUMNS, (-1.0, 7.0))
    run = plan(tmp_path / "run", options={"privacy": "dp(8)"}, ranges=bounds)
    serve_run(ListEngine(folders), run)
    sent, _ = read_sent(folders[100])
    total = sum(entry.bytes for entry in sent)

    lines = told(capsys, folders[100]).splitlines()
    assert len(lines) == len(sent) + 3
    assert lines[1].endswith(f"at dp(8), sha256 {sent[1].sha256}")
    ends = f"{len(sent)} messages, {total:,} bytes, to hub:8000 (run run)"
    assert lines[len(sent)] == f"site-0 has sent {ends}"
    assert lines[-2].startswith("the ledger has 1 releases of ")
    assert "epsilon 8 of 9 is spent" in lines[-2]

    content = json.loads(told(capsys, folders[100], "--json"))
    assert [entry["sha256"] for entry in content["sent"]] == [e.sha256 for e in sent]
    assert [sum["bytes"] for sum in content["totals"]] == [total]
    assert content["ledger"][0]["epsilon"] == pytest.approx(8)

    content = json.loads(told(capsys, home, "--json"))
    assert len(content["totals"]) == len(content["ledger"]) == len(folders)


def test_a_site_that_stays_sees_its_account(tmp_path, capsys, monkeypatch):
    """Its rows are known by those of its answers, and its home by its folder."""
    _, folders = write_sites(tmp_path)
    joined(folders, stays=True, runs=5, home=str(tmp_path / "own"))
    for number in (1, 2):
        options = {"privacy": "summary"}
        run = plan(tmp_path / f"run{number}", options=options, run=f"fed.{number}")
        serve_run(ListEngine(folders), run)
    monkeypatch.setenv("AFCL_HOME", str(tmp_path / "of another shell"))
    member = open_membership(folders[100])
    assert (member.rows, member.fingerprint, member.begun) == ("", "", 2)
    text = told(capsys, folders[100])
    assert "epsilon 0 is spent; 2 of 5 runs have told something" in text
    (account,) = json.loads(told(capsys, folders[100], "--json"))["ledger"]
    assert (account["runs"], account["runs_allowed"]) == (2, 5)
    # Of a home nobody knows what is allowed.
    for account in json.loads(told(capsys, tmp_path / "own", "--json"))["ledger"]:
        assert (account["runs"], account["runs_allowed"]) == (2, None)
    assert "; 2 runs have told something" in told(capsys, tmp_path / "own")


def test_a_site_that_has_sent_nothing(tmp_path, capsys):
    _, folders = write_sites(tmp_path)
    assert told(capsys, folders[100]) == "nothing has left this site\n"


def test_a_damaged_record_does_not_say_that_nothing_has_left(tmp_path, capsys):
    _, folders = write_sites(tmp_path)
    path = folders[100] / SENT
    path.write_text("no line of ours\n")
    for words in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            main(["log", str(folders[100]), *words])
        out, err = capsys.readouterr()
        assert ended.value.code == 2
        assert f"line 1 of {path} cannot be read" in out
        assert "nothing has left" not in out
        assert "is damaged (1 of its lines cannot be read)" in err
        assert ("what has left this site is not known" in out) is (not words)
    answer(folders[100], ASK)
    with pytest.raises(SystemExit) as ended:
        main(["log", str(folders[100])])
    out, _ = capsys.readouterr()
    assert ended.value.code == 2
    assert "has sent 1 messages" in out  # what is known is said
    assert "not known" not in out


def test_a_folder_of_something_else(tmp_path, capsys):
    assert "give the --out of 'afcl join'" in told(capsys, tmp_path, code=2)
