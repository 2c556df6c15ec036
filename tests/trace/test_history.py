# SPDX-License-Identifier: Apache-2.0
"""What a trace adds up to, and who took part when, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from afcl.trace import (
    EVENTS,
    Attendance,
    Event,
    TraceTail,
    attendance,
    history_of,
    to_line,
)
from afcl.trace.attendance import rounds_by_tick

NONE, ASKED, GONE = Attendance.NOT_ASKED, Attendance.ASKED, Attendance.GONE
ANSWERED, LATE = Attendance.ANSWERED, Attendance.LATE
HELLO, TROUBLE = Attendance.HELLO, Attendance.TROUBLE


def event(kind: str, tick: int, client: int = 0, **more: Any) -> Event:
    """An event with all fields of its kind."""
    whole = dict.fromkeys(EVENTS[kind], 0)
    return {**whole, "event": kind, "tick": tick, "client": client, **more}


def run(*names: str) -> Event:
    return event("run", 0, parameters={}, method="afcl", clients=list(names))


def rounds_of(*events: Event) -> dict[int, list[int]]:
    table = attendance(history_of(events))
    return {client: states.tolist() for client, states in table.items()}


# ------------------------------------------------------------------ attendance


def test_who_did_what_by_hand():
    found = rounds_of(
        run("a", "b", "c"),
        event("send", 0, 0),
        event("hello", 0, 0),
        event("send", 0, 1),
        event("failure", 0, 1),
        event("prepare", 0, round=0),
        event("send", 1, 0),
        event("send", 1, 1),
        event("hello", 1, 1),
        event("prepare", 1, round=1),
        # The request of round 1 is answered a round later: the answer counts where it
        # came, and the round of the request shows that it was asked.
        event("update", 2, 0, staleness=1),
        event("left", 2, 1),
        event("prepare", 2, round=2),
        event("send", 4, 0),
        event("update", 4, 0),
        event("hello", 4, 1),
    )
    assert found == {
        0: [HELLO, ASKED, LATE, NONE, ANSWERED],
        1: [TROUBLE, HELLO, GONE, GONE, HELLO],
        2: [NONE, NONE, NONE, NONE, NONE],
    }


def test_of_several_things_in_a_round_the_weightiest_is_shown():
    assert rounds_of(
        event("send", 0), event("update", 0), event("rejected", 0, reason="NaN")
    ) == {0: [TROUBLE]}
    assert rounds_of(event("hello", 0), event("update", 0)) == {0: [HELLO]}
    # A site that answers and leaves has answered; one that is asked and leaves is gone.
    assert rounds_of(event("update", 0), event("left", 0)) == {0: [ANSWERED]}
    assert rounds_of(event("send", 0), event("left", 0)) == {0: [GONE]}


def test_a_site_that_was_shut_out_stays_gone_whatever_it_sends():
    found = rounds_of(
        event("left", 0), event("rejected", 1, contact=-1), event("prepare", 2, round=2)
    )
    assert found == {0: [GONE, TROUBLE, GONE]}


def test_the_ticks_of_an_event_clock_share_their_round():
    found = rounds_of(
        event("send", 1),
        event("prepare", 1, round=1),
        event("update", 2),
        event("prepare", 3, round=1),
    )
    assert found == {0: [NONE, ANSWERED]}


def test_a_server_that_was_started_again_goes_by_ticks():
    found = rounds_of(
        event("update", 1),
        event("prepare", 1, round=1),
        event("resumed", 1),
        event("update", 2),
        event("prepare", 2, round=1),  # it counts its rounds anew
    )
    assert found == {0: [NONE, ANSWERED, ANSWERED]}


def test_rounds_of_ticks():
    assert rounds_by_tick({}, 2) == [0, 1, 2]
    assert rounds_by_tick({2: 1, 3: 4}, 5) == [0, 0, 1, 4, 5, 6]
    assert rounds_by_tick({0: 0}, -1) == []


def test_sites_of_a_live_run_are_named_as_they_join():
    history = history_of(
        [run(), event("ranges", 0, 1, name="south"), event("hello", 0)]
    )
    named = {client: site.name for client, site in history.sites.items()}
    assert named == {0: "site 0", 1: "south"}
    assert list(attendance(history)) == [0, 1]


# ------------------------------------------------------------------ the rest


def test_a_message_that_answers_nothing_leaves_the_question_open():
    asked = event("send", 1, at=5.0)
    for contact, open_since in ((-1, 5.0), (1, None)):
        history = history_of([asked, event("rejected", 1, contact=contact)])
        assert history.sites[0].asked_at == open_since


def test_bytes_are_counted_by_round():
    history = history_of(
        [
            event("hello", 0, bytes=5),
            event("prepare", 0, round=0),
            event("update", 1, bytes=7),
            event("update", 2, bytes=1),
            event("prepare", 2, round=1),
        ]
    )
    assert history.uploaded() == [5 + 7, 1]
    assert (history.sites[0].messages, history.sites[0].answers) == (3, 2)


# ------------------------------------------------------------------ growing files


def test_a_growing_trace_is_read_line_by_line(tmp_path):
    path = tmp_path / "trace.jsonl"
    tail = TraceTail(path)
    assert tail.read() == []
    first, second = to_line(event("left", 1)), to_line(event("left", 2, 1))
    path.write_text(first + "\n" + second[:9])
    assert [e["tick"] for e in tail.read()] == [1]
    path.write_text(first + "\n" + second + "\n")
    assert [e["tick"] for e in tail.read()] == [2]
    assert tail.read() == []


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "\ufffd",
        '{"event": "left", "tick": 1}',
        '{"event": "left", "tick": "1", "client": 0}',
        '{"event": "note", "tick": 1, "text": null}',
    ],
)
def test_a_damaged_line_is_passed_over_and_counted(tmp_path, line):
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{line}\n{{"event": "left", "tick": 2, "client": 1}}\n{line}\n')
    tail = TraceTail(path)
    assert [event["tick"] for event in tail.read()] == [2]
    assert tail.damaged == 2
    assert not tail.began_anew


def test_a_trace_that_was_made_again_is_read_again(tmp_path):
    path, other = tmp_path / "trace.jsonl", tmp_path / "other"
    lines = [f'{{"event": "left", "tick": {tick}, "client": 1}}\n' for tick in range(4)]
    path.write_text("{\n" + lines[1])
    tail = TraceTail(path)
    assert [event["tick"] for event in tail.read()] == [1]
    other.write_text("".join(lines[:3]))
    other.replace(path)
    assert [event["tick"] for event in tail.read()] == [0, 1, 2]
    assert tail.began_anew
    assert tail.damaged == 0
    # The same, only another file: nothing is told twice.
    other.write_text("".join(lines))
    other.replace(path)
    assert [event["tick"] for event in tail.read()] == [3]
    assert not tail.began_anew
