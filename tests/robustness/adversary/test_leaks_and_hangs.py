# SPDX-License-Identifier: Apache-2.0
"""Nothing else leaks or hangs: errors, silence, memory, texts, formulas, modes."""

from __future__ import annotations

import csv
import json
import os
import struct
import tracemalloc
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from afcl.cli.report import write
from afcl.cli.status import describe
from afcl.cli.waiting import Waiting
from afcl.core.messages import Cells, Hello, check_cells
from afcl.core.terms import (
    AskAnnouncement,
    AskHello,
    Finish,
    Refusal,
    Terms,
)
from afcl.exceptions import CodecError, RejectedMessage
from afcl.runtime import results
from afcl.runtime.codec import FORMAT, HEADER_LIMIT, VALUE_LIMIT, decode, encode
from afcl.runtime.journal import Entry, Journal
from afcl.runtime.live.announcement import LONGEST, MOST_COLUMNS, Announcement, check
from afcl.runtime.live.facts import read_facts
from afcl.runtime.live.member import LEDGER, SECRET, answer
from afcl.runtime.live.membership import (
    DONE,
    REFUSED,
    SITE,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import PLAN, RunPlan, serve_run
from afcl.runtime.live.take_home import LABELED, MEMORY
from afcl.runtime.live.trouble import (
    KEPT_HERE,
    TROUBLE,
    answer_or_reason,
    for_the_other_side,
    read_trouble,
)
from afcl.runtime.results import JOURNAL, RESULT, TRACE
from afcl.runtime.transport import Failure, Reply
from afcl.scale import Box
from afcl.trace import RunHistory, read_trace

#: What must not leave a site: a cell, and where its files are.
CELL = "Mrs Smith"
HOME = "private-home"
ESCAPE = "\x1b]0;owned\x07\x1b[2Jlie\r\n"


def site(tmp_path, content="a,b\n" + "1,2\n3,4\n" * 4, **changes):
    """Make a site of few rows in a folder whose name is a secret."""
    folder = tmp_path / HOME
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text(content)
    made = Membership(str(folder / "rows.csv"), "north", **changes)
    keep_membership(folder, made)
    return folder


def terms(**changes):
    columns = ("a", "b")
    sound = Terms("run", "afcl", "{}", 0, 0, Box(np.zeros(2), np.ones(2)), 8, columns)
    return replace(sound, **changes)


# ------------------------------------------------------------------ errors


def bad_cell(folder):
    (folder / "rows.csv").write_text(f"a,b\n1,2\n{CELL},4\n5,6\n")


def bad_width(folder):
    (folder / "rows.csv").write_text(f"a,b\n1,2\n3,4,{CELL}\n")


def no_file(folder):
    (folder / "rows.csv").unlink()


def own_program(folder):
    path = folder / "rows.py"
    path.write_text(f"def rows():\n    raise KeyError({CELL!r})\n")
    keep_membership(folder, replace(open_membership(folder), data=str(path)))


def program_that_exits(folder):
    own_program(folder)
    (folder / "rows.py").write_text(f"raise SystemExit({CELL!r})\n")


def no_membership(folder):
    (folder / SITE).write_text(f"{CELL}")


def damaged_ledger(folder):
    (folder / LEDGER).write_text(CELL)


@pytest.mark.parametrize(
    "spoil",
    [
        *(bad_cell, bad_width, no_file, own_program, program_that_exits),
        *(no_membership, damaged_ledger),
    ],
)
def test_no_error_carries_a_cell_or_a_path(tmp_path, spoil):
    level = "dp(1)" if spoil is damaged_ledger else "summary"
    folder, options = site(tmp_path, privacy=level), json.dumps({"privacy": level})
    spoil(folder)
    for ask in (AskAnnouncement("run", False), AskHello(terms(options=options))):
        said, why = answer_or_reason(folder, encode(ask))
        assert (said, why) == (b"", KEPT_HERE)
    told = read_trouble(folder)
    assert told
    assert CELL in told or HOME in told


@pytest.mark.parametrize("error", [MemoryError, OSError, RuntimeError, SystemExit])
def test_an_error_that_nobody_foresaw_stays_at_home(tmp_path, monkeypatch, error):
    folder = site(tmp_path)

    def fail(*_):
        raise error(f"{CELL} in /{HOME}")

    monkeypatch.setattr("afcl.runtime.live.trouble.answer", fail)
    assert answer_or_reason(folder, b"") == (b"", KEPT_HERE)
    assert read_trouble(folder) == f"{error.__name__}: {CELL} in /{HOME}"
    assert (folder / TROUBLE).stat().st_mode & 0o777 == 0o600


def test_an_odd_request_meets_a_number_of_the_rows(tmp_path, monkeypatch):
    """What the rows make of a request that makes no sense is not told."""
    folder = site(tmp_path)

    def fail(*_):
        raise ValueError("cannot take 1234.5")

    monkeypatch.setattr("afcl.runtime.live.member.introduction", fail)
    _, why = answer_or_reason(folder, encode(AskAnnouncement("run", True)))
    assert why == KEPT_HERE
    assert "1234.5" in read_trouble(folder)


def test_a_refusal_is_told_as_it_is(tmp_path):
    folder = site(tmp_path)
    request = encode(AskHello(terms(method="afcl-paper")))
    said, _ = answer_or_reason(folder, request)
    assert decode(said).reason.startswith("north takes part in afcl only")
    assert read_trouble(folder).startswith("north takes part in afcl only")
    assert for_the_other_side(RejectedMessage(f"no{ESCAPE}")) == "nolie"


def test_a_site_in_good_health_has_no_trouble(tmp_path):
    folder = site(tmp_path)
    said, why = answer_or_reason(folder, encode(AskAnnouncement("run", True)))
    assert said
    assert not why
    assert read_trouble(folder) == ""


def test_trouble_that_cannot_be_kept_is_no_trouble(tmp_path):
    (tmp_path / "file").write_text("x")
    assert answer_or_reason(tmp_path / "file", b"") == (b"", KEPT_HERE)


def test_flower_hears_no_more(tmp_path, monkeypatch):
    """The engine's own report of an exception holds its text: there is none."""
    pytest.importorskip("flwr")
    from afcl.runtime.flower import client_app
    from afcl.runtime.flower.engine import packed, unpacked

    def message(content, reply_to=None):
        return SimpleNamespace(content=content)

    monkeypatch.setattr(client_app, "Message", message)
    folder = site(tmp_path)
    bad_cell(folder)
    asked = message(packed(encode(AskAnnouncement("run", True))))
    assert unpacked(client_app.answered(asked, folder).content) == (b"", KEPT_HERE)


def test_the_owner_reads_it_where_the_site_was_joined(tmp_path, capsys, monkeypatch):
    join = import_module("afcl.cli.attending")
    folder, steps = site(tmp_path), iter(range(3))
    node = SimpleNamespace(trouble=lambda: None, absent=lambda: None, alive=True)

    def pause(_):
        if next(steps) == 0:
            bad_cell(folder)
            answer_or_reason(folder, encode(AskAnnouncement("run", True)))
        else:
            keep_membership(folder, replace(open_membership(folder), state=DONE))

    monkeypatch.setattr(join, "time", SimpleNamespace(sleep=pause))
    join._watch(folder, node, Waiting(None))
    told = capsys.readouterr().err
    assert told.startswith("could not answer: ")
    assert CELL in told
    assert told.count("\n") == 1


# ------------------------------------------------------------------ memory


def framed(header, arrays=b""):
    return struct.pack("<4sBI", b"AFCL", FORMAT, len(header)) + header + arrays


def filled(unit, size):
    """Return a message whose header is a list of the same thing, again and again."""
    return framed(b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]")


def peak_of(data):
    """Return how much memory it takes to decode a message, and what comes of it."""
    tracemalloc.start()
    try:
        decode(data)
        said = ""
    except CodecError as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, said


FILLINGS = {
    "empty lists": b"[]",
    "empty objects": b"{}",
    "objects": b'{"a":0}',
    "zeros": b"0",
    "numbers": b"1.5",
    "texts": b'"ab"',
    "wide texts": b'"\\u0100"',
    "nests": b"[" * 30 + b"]" * 30,
    "arrays": b'{"array":"<f8","shape":[0],"at":0}',
}


@pytest.mark.no_cover
@pytest.mark.parametrize("unit", FILLINGS.values(), ids=FILLINGS)
def test_a_message_of_33_megabytes_costs_little_more(unit):
    """Up to 67 times its size before values were counted."""
    data = filled(unit, HEADER_LIMIT - 100)
    peak, said = peak_of(data)
    assert "more values than any message needs" in said
    assert peak < 2 * len(data)


@pytest.mark.no_cover
def test_one_long_text_costs_a_few_times_its_size():
    """An emoji makes every letter beside it four bytes long."""
    long = b'"\\ud83d\\ude00' + b"a" * (HEADER_LIMIT - 100) + b'"'
    peak, _ = peak_of(framed(long))
    assert peak < 8 * len(long)
    raw = '"\U0001f600'.encode() + b"a" * (HEADER_LIMIT - 100) + b'"'
    peak, said = peak_of(framed(raw))
    assert "malformed" in said
    assert peak < 3 * len(raw)


@pytest.mark.no_cover
def test_as_many_values_as_pass_cost_a_bounded_amount():
    """The worst that was found: texts up to the limit, and one long wide one."""
    texts = filled(b'"ab"', 5 * (VALUE_LIMIT - 10))[9:]
    wide = b'"\\ud83d\\ude00' + b"a" * (HEADER_LIMIT - len(texts) - 100) + b'"'
    data = framed(b"[" + texts + b"," + wide + b"]")
    peak, said = peak_of(data)
    assert not said
    assert peak < 9 * len(data)


def test_as_many_cells_as_fit_cost_a_few_times_their_size():
    r = 100_000
    ones = np.ones(r, dtype=np.int64)
    data = encode(Hello(r, Cells(ones, np.zeros((r, 1)), np.zeros(r))))
    tracemalloc.start()
    check_cells(decode(data).payload, 1, r)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(data)


@pytest.mark.parametrize("shape", [[0, 2**31 + 1], [2**62, 0], [2**40, 2**40]])
def test_shapes_beyond_the_bytes_are_refused_before_they_are_made(shape):
    low = {"array": "<f8", "shape": shape, "at": 0}
    fields = {"n_rows": 1, "n_features": 1, "low": low, "high": low}
    header = json.dumps({"type": "Ranges", "fields": fields}).encode()
    peak, said = peak_of(framed(header))
    assert said
    assert peak < 100_000


def test_as_many_columns_as_there_may_be_still_travel():
    columns = tuple(f"column, [{i}]" for i in range(MOST_COLUMNS))
    empty = np.empty(0)
    said = Announcement("n", 5, columns, ("",) * MOST_COLUMNS, empty, empty, empty)
    assert check(decode(encode(said)), False).columns == columns


def test_options_are_not_parsed_if_they_are_long():
    with pytest.raises(RejectedMessage, match="options of at most"):
        terms(options="[" * (1 << 16) + "]")
    tree = {"type": "AskAnnouncement", "fields": {"run": "a" * 300, "extremes": True}}
    with pytest.raises(CodecError, match="printable characters"):
        decode(framed(json.dumps(tree).encode()))


# ------------------------------------------------------------------ silence


class Clocked:
    """An engine of lists whose clock moves a second with every look."""

    def __init__(self, folders, silent, wakes=10**9):
        self.folders, self.silent, self.wakes = folders, silent, wakes
        self.looks, self.sent, self.flying = 0, 0, {}

    def nodes(self):
        self.looks += 1
        assert self.looks < 2000, "the run does not end"
        return [*self.folders, *self.silent(self.looks)]

    def send(self, address, data):
        self.sent += 1
        self.flying[self.sent] = (address, data)
        return self.sent

    def poll(self):
        arrived = []
        for ticket, (address, data) in list(self.flying.items()):
            home = self.folders.get(address % 1000)
            if home is None or (address >= 1000 and self.looks < self.wakes):
                continue
            del self.flying[ticket]
            said, why = answer_or_reason(home, data)
            failed = Failure(ticket, address, why)
            arrived.append(failed if why else Reply(ticket, address, said))
        return arrived

    def close(self):
        pass


@pytest.fixture
def one_clock(monkeypatch):
    """One clock for all, which moves with every look at it, and a sleep that does."""
    now = [0.0]

    def look():
        now[0] += 0.1
        return now[0]

    from afcl.runtime.live.admission import Admission

    init = Admission.__init__

    def patched(self, *args, **kwargs):
        kwargs |= {"clock": look, "sleep": lambda _: now.__setitem__(0, now[0] + 1)}
        init(self, *args, **kwargs)

    monkeypatch.setattr(Admission, "__init__", patched)
    now_is = SimpleNamespace(time=look, monotonic=look)
    monkeypatch.setattr("afcl.runtime.live.server.time", now_is)


def federation(tmp_path, count=2, **changes):
    rng, folders = np.random.default_rng(0), {}
    for number in range(count):
        folder = tmp_path / f"site-{number}"
        folder.mkdir()
        rows = rng.normal(np.repeat([[0, 0], [9, 9]], 10, axis=0), 0.3)
        lines = "\n".join(f"{a},{b}" for a, b in rows)
        (folder / "rows.csv").write_text(f"a,b\n{lines}\n")
        made = Membership(str(folder / "rows.csv"), f"site-{number}")
        keep_membership(folder, made)
        folders[number] = folder
    options = {"privacy": "summary"}
    plan = RunPlan("run", "afcl", options, 0, 100, 2, patience=60.0, grace=30.0)
    replace(plan, **changes).write(tmp_path / "run")
    return folders, tmp_path / "run"


def notes(folder):
    return [e["text"] for e in read_trace(folder / TRACE).of("note")]


@pytest.mark.usefixtures("one_clock")
def test_a_silent_node_does_not_block_the_start(tmp_path):
    folders, run = federation(tmp_path)
    serve_run(Clocked(folders, lambda look: [1007]), run)
    result = results.read_result(run)
    assert [each["name"] for each in result["sites"]] == ["site-0", "site-1"]
    assert any("node 1007 does not say who it is" in text for text in notes(run))
    assert sum("node 1007" in text for text in notes(run)) == 1


@pytest.mark.usefixtures("one_clock")
def test_ever_new_silent_nodes_do_not_block_it_either(tmp_path):
    """Each of them alone would be waited for."""
    folders, run = federation(tmp_path)
    engine = Clocked(folders, lambda look: range(1010, 1010 + look // 20))
    serve_run(engine, run)
    assert len(results.read_result(run)["sites"]) == 2
    assert engine.looks < 400


@pytest.mark.usefixtures("one_clock")
def test_a_node_that_went_away_before_it_said_who_it_is(tmp_path):
    folders, run = federation(tmp_path)
    engine = Clocked(folders, lambda look: [1007] if look < 3 else [])
    serve_run(engine, run)
    assert len(results.read_result(run)["sites"]) == 2
    assert not any("1007" in text for text in notes(run))


@pytest.mark.usefixtures("one_clock")
def test_who_wakes_up_later_is_let_in(tmp_path, monkeypatch):
    folders, run = federation(tmp_path, count=3, linger=50.0)
    engine = Clocked(folders, lambda look: [1002], wakes=75)
    monkeypatch.setattr(
        engine, "nodes", lambda: [a for a in Clocked.nodes(engine) if a != 2]
    )
    serve_run(engine, run)
    names = [each["name"] for each in results.read_result(run)["sites"]]
    assert names == ["site-0", "site-1", "site-2"]
    assert any("node 1002 does not say" in text for text in notes(run))


# ------------------------------------------------------------------ texts


@pytest.mark.parametrize("text", [ESCAPE, "a" * 10**6, "\u202eevil"])
def test_reasons_are_plain_lines_from_the_moment_they_are_made(text):
    for made in (Refusal("run", text), decode(encode(Refusal("run", text)))):
        assert made.reason.isprintable()
        assert len(made.reason) <= 300
    reason = Failure(1, 2, text).reason
    assert reason.isprintable()
    assert len(reason) <= 300


def test_a_hostile_refusal_on_the_wire_is_kept_as_a_plain_line(tmp_path):
    folder = site(tmp_path)
    fields = {"run": "run", "reason": ESCAPE + "x" * 10**5}
    header = json.dumps({"type": "Refusal", "fields": fields}).encode()
    answer(folder, framed(header))
    kept = open_membership(folder)
    assert kept.state == REFUSED
    assert kept.reason.startswith("lie  xxx")
    assert len(kept.reason) <= 300


@pytest.mark.parametrize("run", ["a" * 201, "\x1b[31m", "two\nlines"])
def test_the_name_of_a_run_is_fit_for_a_file(run):
    for make in (
        lambda: terms(run=run),
        lambda: AskAnnouncement(run, True),
        lambda: Refusal(run, ""),
    ):
        with pytest.raises(RejectedMessage, match="printable"):
            make()


NONE = np.empty(0)


def test_odd_names_of_columns_are_cleaned_where_they_are_shown():
    """A line break in a name is no lie: spreadsheets write such."""
    columns = ["Age\n(years)", ESCAPE, *(f"c{i}" * 80 for i in range(1000))]
    event = {"event": "agreed", "tick": 0, "columns": columns, "rows": 9}
    line = describe(event, RunHistory())
    assert line.isprintable()
    assert "Age (years), lie" in line
    assert len(line) < 10 * LONGEST
    assert check(
        Announcement("n", 5, ("Age\n(y)",), ("",), NONE, NONE, NONE), False
    ).columns == ("Age\n(y)",)


FACTS = {
    "n_clusters": 2,
    "columns": ["a", "b"],
    "centers": [[0.0, 0.0], [1.0, 1.0]],
    "sizes": [4, 4],
    "scores": {"silhouette": 0.5},
    "path": [{"k": 2, "scores": {"silhouette": 0.5}}],
    "scale": {"low": [0.0, 0.0], "span": [1.0, 1.0]},
    "parameters": {},
    "versions": {},
}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "5", "null", '"x"', "{", "[" * 10**5, "{}", '{"columns": ["a"]}'),
        '{"columns": ["a", "b"], "n_clusters": NaN}',
        '{"columns": ["a", "b"], "n_clusters": 1e999}',
        '{"columns": ["a", "b"], "x": ' + "[" * 40 + "]" * 40 + "}",
        '{"columns": ["a", "b"], "x": [' + "[]," * 300_000 + "[]]}",
    ],
    ids=lambda text: text[:30],
)
def test_facts_that_are_none_are_refused(text):
    with pytest.raises(RejectedMessage, match="no result|more values"):
        read_facts(text, ("a", "b"))


def test_honest_facts_come_back_as_they_were():
    assert read_facts(json.dumps(FACTS), ("a", "b")) == FACTS


def test_a_site_keeps_and_shows_nothing_of_a_lying_end(tmp_path):
    """Escapes, markup and long texts, everywhere that the facts have room for."""
    folder = site(tmp_path)
    answer(folder, encode(AskAnnouncement("run", True)))
    evil = f"<script>alert(1)</script>{ESCAPE}"
    facts = {
        **FACTS,
        "note": evil + "x" * 10**5,
        "scores": {evil: 0.5, "silhouette": 0.5},
        "parameters": {"method": evil, "privacy": evil, evil: evil, "deep": [[evil]]},
        "versions": {evil: evil},
        evil: [evil],
    }
    from afcl.core.terms import Answer

    centers = np.array([[0.0, 0.0], [1.0, 1.0]])
    sizes, scores = np.array([4.0, 4.0]), np.array([0.5])
    end = Answer(centers, sizes, ("silhouette",), scores, (), (), ())
    answer(folder, encode(Finish(terms(), end, json.dumps(facts))))
    assert open_membership(folder).state == DONE
    kept = (folder / RESULT).read_text()
    assert "\\u001b" not in kept
    assert "\x1b" not in kept
    assert len(kept) < 10_000
    page = write(folder).read_text()
    assert "<script>alert" not in page
    assert "\x1b" not in page


# ------------------------------------------------------------------ formulas


def test_a_column_named_like_a_formula_is_no_formula(tmp_path):
    result = {
        **FACTS,
        "columns": ["=cmd|'/C calc'!A0", "-1"],
        "centers": [[-1.5, 2.0], [0.0, -3.0]],
        "path": [{"k": 2, "scores": {"@index": -0.5}}],
    }
    results.write_result(tmp_path, result, {})
    with (tmp_path / "centers.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["cluster", "rows", "'=cmd|'/C calc'!A0", "-1"]
    assert rows == [["0", "4", "-1.5", "2.0"], ["1", "4", "0.0", "-3.0"]]
    with (tmp_path / "path.csv").open() as file:
        assert list(csv.reader(file)) == [["k", "'@index"], ["2", "-0.5"]]


# ------------------------------------------------------------------ modes


@pytest.fixture
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("open_to_all", "one_clock")
def test_what_a_live_run_writes_is_for_its_owner_alone(tmp_path):
    folders, run = federation(tmp_path)
    assert mode(run) == 0o700
    assert mode(run / PLAN) == 0o600
    serve_run(Clocked(folders, lambda look: ()), run)
    assert mode(run / TRACE) == 0o600
    for home in folders.values():
        assert mode(home) == 0o777  # was there before
        write(home)
        for name in (SITE, LABELED, RESULT, SECRET, "report.html"):
            assert mode(home / name) == 0o600, name


@pytest.mark.usefixtures("open_to_all")
def test_a_folder_that_a_site_makes_is_for_its_owner_alone(tmp_path):
    keep_membership(tmp_path / "new" / "site", Membership("rows.csv", "north"))
    assert mode(tmp_path / "new" / "site") == 0o700
    assert mode(tmp_path / "new" / "site" / SITE) == 0o600


@pytest.mark.usefixtures("open_to_all")
def test_journals_memories_and_ledgers_are_for_their_owner_alone(tmp_path, home):
    with Journal(tmp_path / JOURNAL, "run") as journal:
        assert mode(tmp_path / JOURNAL) == 0o600
        journal.record(Entry(0, 0, b"said"))
    os.chmod(tmp_path / JOURNAL, 0o644)  # an older version's
    with Journal(tmp_path / JOURNAL, "run") as journal:
        assert mode(tmp_path / JOURNAL) == 0o600
        assert len(journal.log) == 1
    results.write_labels(tmp_path / "labels" / "a.csv", np.arange(3))
    assert mode(tmp_path / "labels" / "a.csv") == 0o600
    folder = site(tmp_path, privacy="dp(1)")
    options = json.dumps({"privacy": "dp(1)"})
    answer(folder, encode(AskHello(terms(options=options))))
    assert mode(home / LEDGER) == 0o600


@pytest.mark.usefixtures("open_to_all")
def test_a_memory_is_for_its_owner_alone(tmp_path, monkeypatch):
    folder = site(tmp_path)

    def remember(self, request):
        self.memory = Refusal("run", "kept")
        nothing = Cells(np.empty(0, dtype=np.int64), np.empty((0, 2)), np.empty(0))
        return encode(Hello(0, nothing))

    monkeypatch.setattr("afcl.runtime.site.Site.answer", remember)
    answer(folder, encode(AskHello(terms())))
    assert mode(folder / MEMORY) == 0o600
