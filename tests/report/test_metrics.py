# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run for a monitoring system, read back by a parser of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from afcl import __version__
from afcl.dashboard.metrics import STATES, metrics
from afcl.dashboard.watch import Watcher
from afcl.report.run_state import STALL

from .folders import events_of, result_of, trust_of, write_run

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(\{(?P<label>[a-zA-Z_]\w*)="(?P<value>[^"\\\n]*)"\})? (?P<number>\S+)'
)


def parsed(text: str) -> dict[str, dict[str, float]]:
    """Read the text format: HELP and TYPE once before the samples of each name."""
    assert text.endswith("\n")
    found: dict[str, dict[str, float]] = {}
    helped, typed = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            assert helped not in found
        elif line.startswith("# TYPE "):
            typed, kind = line.split(" ", 3)[2:]
            assert typed == helped
            assert kind == ("counter" if typed.endswith("_total") else "gauge")
            found[typed] = {}
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] == typed
            values = found[typed]
            assert (sample["value"] or "") not in values
            values[sample["value"] or ""] = float(sample["number"])
    assert all(found.values())
    return found


def told(folder: Path, now: float) -> dict[str, dict[str, float]]:
    watcher = Watcher(folder, clock=lambda: now)
    seen, run = watcher.look()
    return parsed(metrics(run, seen.state, watcher.now()))


def the_state(found: dict[str, dict[str, float]]) -> str:
    assert set(found["afcl_state"]) == set(STATES)
    (state,) = [word for word, value in found["afcl_state"].items() if value]
    return state


def test_a_run_to_come_has_no_k_and_no_arrival(tmp_path: Path):
    found = told(tmp_path / "not-yet", 0.0)
    assert the_state(found) == "waiting"
    assert found["afcl_info"] == {__version__: 1}
    assert found["afcl_sites"] == {"here": 0, "gone": 0, "refused": 0}
    assert found["afcl_received_bytes_total"] == {"": 0}
    assert "afcl_clusters" not in found
    assert "afcl_seconds_since_last_arrival" not in found


def test_a_run_under_way(tmp_path: Path):
    """4 hellos, and 2 updates in each of 5 rounds, of 1000 bytes; then one leaves."""
    events = events_of(end=False)
    last = events[-1]["at"]
    arrived = max(e["at"] for e in events if e["event"] in ("hello", "update"))
    more: list[dict[str, Any]] = [
        {"event": "left", "tick": 5, "client": 1, "at": last + 1},
        {"event": "refused", "tick": 5, "name": "x", "reason": "no", "at": last + 2},
        {"event": "rejected", "tick": 5, "client": 0, "contact": 5, "reason": "no"}
        | {"at": last + 3},
    ]
    folder = write_run(tmp_path / "run", events=[*events, *more])
    found = told(folder, last + 10.0)
    assert the_state(found) == "running"
    assert found["afcl_sites"] == {"here": 3, "gone": 1, "refused": 1}
    assert found["afcl_rounds_total"] == {"": 6}
    assert found["afcl_received_bytes_total"] == {"": 14_000}
    assert found["afcl_received_messages_total"] == {"": 14}
    assert found["afcl_rejected_messages_total"] == {"": 1}
    assert found["afcl_clusters"] == {"": 3}
    assert found["afcl_seconds_since_last_arrival"] == {"": last + 10 - arrived}
    assert the_state(told(folder, last + STALL + 10)) == "stalled"


@pytest.mark.parametrize(
    ("trust", "state"), [({}, "done"), (trust_of("unclear", None, 0.6), "doubtful")]
)
def test_a_run_that_is_done(tmp_path: Path, trust: dict[str, Any], state: str):
    folder = write_run(tmp_path / "run", result_of(4, **trust), events_of())
    found = told(folder, 2000.0)
    assert the_state(found) == state
    assert found["afcl_clusters"] == {"": 4}


def test_a_run_that_failed(tmp_path: Path):
    folder = write_run(tmp_path / "run", failed={"reason": "no client said hello"})
    assert the_state(told(folder, 0.0)) == "failed"


def test_the_dashboard_has_them(tmp_path: Path):
    testclient = pytest.importorskip("fastapi.testclient")
    from afcl.dashboard.app import make_app

    folder = write_run(tmp_path / "run", result_of(), events_of())
    here = testclient.TestClient(
        make_app(folder, "127.0.0.1"), base_url="http://127.0.0.1:8050"
    )
    answer = here.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert the_state(parsed(answer.text)) == "done"
    assert here.get("/metrics", headers={"Host": "evil.example"}).status_code == 421
