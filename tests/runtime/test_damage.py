# SPDX-License-Identifier: Apache-2.0
"""Live runs whose journal or trace was damaged while they were not running."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.runtime.test_federation import (
    Crash,
    ListEngine,
    absorbed,
    assert_same,
    events,
    in_order,
    no_waiting,
    plan,
    replayed,
    write_sites,
)

from afcl.runtime.frames import read_frames
from afcl.runtime.journal import LAYOUT
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result
from afcl.trace import read_trace

__all__ = ["no_waiting"]


def records(data, run="run"):
    """Return where every record of a journal begins, and where the last one ends."""
    contents = read_frames(data, f"{LAYOUT} {run}".encode())
    assert contents is not None
    return [frame.end for frame in contents.frames]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["summary", "secure+summary"])
@pytest.mark.parametrize("hit", [0, 4, 10, 11, 14, -1])
def test_a_damaged_record_is_named_and_the_run_ends_as_it_would(tmp_path, level, hit):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level})
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=16), folder)
    path = folder / "journal.bin"
    ends = [0, *records(path.read_bytes())]
    number = hit if hit >= 0 else len(ends) - 2
    flip(path, (ends[number] + ends[number + 1]) // 2)

    serve_run(ListEngine(folders), folder)

    assert read_result(folder)["n_clusters"] == 4
    (note,) = (e["text"] for e in events(folder, "note") if "damaged" in e["text"])
    assert note.startswith(f"journal.bin was damaged: record {number} could not")
    assert (folder / "journal.damaged-1").is_file()
    assert len(absorbed(folder)) == len(set(absorbed(folder)))
    assert_near(folder, tables)


@pytest.mark.parametrize("level", ["summary", "secure+summary"])
def test_a_damaged_journal_may_be_resumed_twice(tmp_path, level):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level})
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=16), folder)
    path = folder / "journal.bin"
    flip(path, records(path.read_bytes())[10] + 40)
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=4), folder)
    serve_run(ListEngine(folders), folder)
    assert len(events(folder, "resumed")) == 2
    assert not (folder / "journal.damaged-2").exists()
    assert_near(folder, tables)


def assert_near(folder, tables):
    """What is asked for again comes later than it did: the last digits differ."""
    outcome = replayed(folder, in_order(tables, folder))
    centers = outcome.finished.terms.box.unscale(outcome.finished.clustering.centers)
    assert np.allclose(np.array(read_result(folder)["centers"]), centers, atol=0.05)


def stages(folder):
    """Return what was told, without the times and what a resumption adds."""
    told = events(folder, "run", "ranges", "agreed", "hello", "update", "prepare")
    told += events(folder, "send")
    return [{k: v for k, v in e.items() if k not in ("at", "round")} for e in told]


@pytest.mark.no_cover
@pytest.mark.parametrize("line", [0, 3, 5, 12, 17])
@pytest.mark.parametrize("junk", [b"\xff", b"", b'{"event":7}\n'])
def test_a_damaged_trace_is_made_again(tmp_path, line, junk):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    path = folder / "trace.jsonl"
    before = stages(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    # Something in the middle of a line; two lines that became one; a line lost.
    if junk == b"":
        lines[line] = lines[line][:-1]
    else:
        lines[line] = lines[line][:9] + junk + lines[line][10:]
    path.write_bytes(b"".join(lines))
    spoilt = path.read_bytes()

    serve_run(ListEngine(folders), folder)

    assert (folder / "trace.damaged-1").read_bytes() == spoilt
    (note,) = (e["text"] for e in events(folder, "note") if "damaged" in e["text"])
    assert note.startswith("trace.jsonl was damaged (line")
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 12
    after = stages(folder)
    assert [e for e in before if e["event"] != "send" and e not in after] == []
    told = list(read_trace(folder / "trace.jsonl"))
    first = [e["event"] for e in told].index("resumed")
    ticks = [e["tick"] for e in told[:first]]
    assert ticks == sorted(ticks)
    # When it was, is known of what was left.
    times = [e["at"] for e in events(folder, "hello", "update")]
    assert sum(a > b for a, b in pairwise(times)) <= 1


def test_a_trace_that_is_gone_is_made_again(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    before = stages(folder)
    (folder / "trace.jsonl").unlink()
    serve_run(ListEngine(folders), folder)
    after = stages(folder)
    assert [e for e in before if e["event"] != "send" and e not in after] == []
    assert read_result(folder)["n_clusters"] == 4


def test_a_trace_that_is_damaged_before_anything_was_agreed(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=2), folder)
    flip(folder / "trace.jsonl", 3)
    serve_run(ListEngine(folders), folder)
    assert read_trace(folder / "trace.jsonl").events[0]["event"] == "run"
    assert_same(folder, tables)
