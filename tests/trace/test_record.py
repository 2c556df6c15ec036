# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.trace import EVENTS, SCHEMA, Trace, check, read_trace, to_line


def small_trace() -> Trace:
    trace = Trace()
    trace.add(
        "run", schema=SCHEMA, run="r", method="afcl", parameters={}, seed=0, clients=[]
    )
    trace.add("left", tick=1, client=0)
    trace.add("left", tick=2, client=1)
    return trace


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "trace.jsonl"
    small_trace().write(path)
    return path


# ------------------------------------------------------------------ in memory


def test_events_keep_their_order_and_fields():
    trace = small_trace()

    assert len(trace) == 3
    assert [event["event"] for event in trace] == ["run", "left", "left"]
    assert trace.events[1] == {"event": "left", "tick": 1, "client": 0}


def test_of_returns_the_kinds_asked_for_in_order():
    trace = small_trace()

    assert [event["tick"] for event in trace.of("left")] == [1, 2]
    assert trace.of("run", "left") == trace.events
    assert trace.of("end") == []
    assert trace.of() == []


def test_numpy_values_become_plain_ones():
    trace = Trace()

    trace.add(
        "prepare",
        seeds=np.array([[1.5, 2.0], [3.0, np.float64(4)]]),
        counts=np.array([1, 2], dtype=np.int64),
        flags=np.array([True, False]),
        k=np.int64(3),
        objective=np.float32(0.5),
        fine=np.bool_(True),
        nested={"a": (np.int32(1), [np.float64(2)])},
    )

    assert trace.events[0] == {
        "event": "prepare",
        "seeds": [[1.5, 2.0], [3.0, 4.0]],
        "counts": [1, 2],
        "flags": [True, False],
        "k": 3,
        "objective": 0.5,
        "fine": True,
        "nested": {"a": [1, [2.0]]},
    }
    assert type(trace.events[0]["k"]) is int
    assert type(trace.events[0]["fine"]) is bool


def test_an_event_does_not_change_with_what_it_was_made_of():
    trace, centers = Trace(), np.zeros(2)
    told = {"a": [1]}
    trace.add("prepare", centers=centers, told=told)

    centers[:] = 7
    told["a"].append(2)

    assert trace.events[0] == {
        "event": "prepare",
        "centers": [0, 0],
        "told": {"a": [1]},
    }


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j])
def test_what_json_does_not_know_is_refused_and_not_kept(value):
    trace = Trace()

    with pytest.raises(TypeError, match="a trace cannot hold a"):
        trace.add("prepare", value=value)

    assert len(trace) == 0


def test_the_listener_hears_every_event_as_it_is_kept():
    heard: list[dict[str, object]] = []
    trace = Trace(heard.append)

    trace.add("left", tick=np.int64(1), client=0)
    assert heard == [{"event": "left", "tick": 1, "client": 0}]

    trace.add("left", tick=2, client=1)
    assert heard == trace.events


def test_a_line_is_one_line_of_ascii():
    line = to_line({"event": "run", "run": "Zürich\n\u2028"})

    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["run"] == "Zürich\n\u2028"


# ------------------------------------------------------------------ on disk


def test_a_written_trace_reads_back_equal(written):
    assert read_trace(written).events == small_trace().events
    assert read_trace(str(written)).events == small_trace().events


@pytest.mark.parametrize("clients", [["Zürich\u2028"], ["a\x85b\x0cc"], ["\ud800"]])
def test_odd_characters_do_not_break_lines(tmp_path, clients):
    trace = small_trace()
    trace.events[0]["clients"] = clients
    trace.write(tmp_path / "odd.jsonl")

    assert read_trace(tmp_path / "odd.jsonl").events == trace.events


def test_a_last_line_cut_anywhere_is_left_out(written):
    whole = written.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for end in range(start, len(whole) - 1):
        written.write_bytes(whole[:end])
        assert read_trace(written).events == small_trace().events[:2]

    written.write_bytes(whole[:-1])
    assert read_trace(written).events == small_trace().events


def test_a_last_line_of_rubbish_is_left_out(written):
    with open(written, "ab") as file:
        file.write(b'{"event":"left","tick":\xff\xfe')

    assert read_trace(written).events == small_trace().events


@pytest.mark.parametrize("rubbish", [b"{", b"", b"\xff\xfe", b'{"event":"left"'])
def test_a_damaged_line_in_the_middle_is_named(written, rubbish):
    lines = written.read_bytes().splitlines()
    written.write_bytes(b"\n".join([lines[0], rubbish, lines[2], b""]))

    with pytest.raises(InputError, match=r"line 2 of .*trace\.jsonl is not JSON"):
        read_trace(written)


@pytest.mark.parametrize("line", ["[1]", "3", "null", '"run"', "{}", '{"event":[1]}'])
@pytest.mark.parametrize("position", [0, 1])
def test_json_that_is_no_event_is_named(written, line, position):
    lines = written.read_text().splitlines()
    lines[position] = line
    written.write_text("\n".join(lines) + "\n")

    with pytest.raises(InputError, match=rf"line {position + 1} of .* is not an event"):
        read_trace(written)


# ------------------------------------------------------------------ the schema


def test_check_returns_the_events_of_any_iterable():
    assert check(event for event in small_trace()) == small_trace().events


@pytest.mark.parametrize(
    "events", [[], [{"event": "left", "tick": 0, "client": 0}], [{}]]
)
def test_a_trace_starts_with_run(events):
    with pytest.raises(InputError, match="not a trace: the first event must be 'run'"):
        check(events)


def test_an_empty_file_is_no_trace(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")

    with pytest.raises(InputError, match="not a trace"):
        read_trace(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("schema", [SCHEMA + 1, 0, None, "1"])
def test_another_schema_is_refused(written, schema):
    lines = written.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "schema": schema})
    written.write_text("\n".join(lines) + "\n")

    with pytest.raises(
        InputError, match=f"trace schema {schema} is not schema {SCHEMA}"
    ):
        read_trace(written)


def test_a_missing_schema_is_refused():
    with pytest.raises(InputError, match="trace schema None is not schema"):
        check([{"event": "run"}])


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_every_field_of_every_event_is_needed(kind):
    texts = dict.fromkeys(set(EVENTS[kind]) & {"name", "text", "reason"}, "words")
    whole = {"event": kind, **dict.fromkeys(EVENTS[kind], 0), **texts}
    if kind == "agreed":
        whole["columns"] = ["x"]
    first = small_trace().events[0]
    if kind == "run":
        first = {}
        whole["schema"] = SCHEMA
    assert check([*([first] if first else []), whole])[-1] == whole

    for field in set(EVENTS[kind]) - {"schema"}:
        lacking = {name: value for name, value in whole.items() if name != field}
        number = 2 if first else 1
        with pytest.raises(
            InputError, match=f"event {number} of the trace lacks {field}"
        ):
            check([*([first] if first else []), lacking])


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("left", "client", "0"),
        ("left", "tick", None),
        ("note", "text", 7),
        ("agreed", "columns", "x"),
        ("hello", "rows", 1.5),
    ],
)
def test_a_field_that_holds_something_else_is_named(kind, field, value):
    texts = dict.fromkeys(set(EVENTS[kind]) & {"name", "text", "reason"}, "words")
    event = {"event": kind, **dict.fromkeys(EVENTS[kind], 0), **texts, field: value}
    with pytest.raises(InputError, match=f"event 2 of the trace has a strange {field}"):
        check([small_trace().events[0], event])


def test_all_missing_fields_are_named():
    with pytest.raises(InputError, match="event 2 of the trace lacks tick, client"):
        check([small_trace().events[0], {"event": "left"}])


def test_unknown_events_and_fields_are_let_through():
    later = {"event": "invented later", "anything": 1}
    more = {"event": "left", "tick": 0, "client": 0, "mood": "fine"}

    assert check([small_trace().events[0], later, more])[1:] == [later, more]


def test_numbers_that_are_not_finite_become_null():
    line = to_line(
        {"event": "prepare", "objective": float("nan"), "seeds": [np.inf, 1]}
    )
    assert json.loads(line) == {
        "event": "prepare",
        "objective": None,
        "seeds": [None, 1],
    }
