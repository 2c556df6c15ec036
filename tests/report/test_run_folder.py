# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.report import read_run_folder, state_of
from afcl.report.run_folder import (
    COORDINATOR,
    MEMBER,
    SIMULATION,
    TrustFacts,
    read_so_far,
)
from afcl.trace import Attendance, attendance, history_of

from .folders import (
    events_of,
    prepare,
    result_of,
    scenarios,
    to_lines,
    trust_of,
    write_run,
)


def test_a_finished_run_is_read_whole(tmp_path):
    result = result_of()
    run = read_run_folder(write_run(tmp_path / "a" / "run", result, events_of()))

    assert run.name == "a/run"
    assert (run.kind, run.done, run.n_clusters) == (SIMULATION, True, 3)
    assert run.rows == sum(result["sizes"]) == sum(s.rows for s in run.sites)
    assert run.centers is not None
    assert np.array_equal(run.centers, result["centers"])
    assert run.path[0] == (2, result["path"][0]["scores"])
    assert run.tree is not None
    assert run.tree.merges[0] == (0, 1, 1.0, 20)
    assert run.criterion == "silhouette"


def test_trust_is_read_where_it_is(tmp_path):
    result = result_of(**trust_of(by_k={10: 0.01, 3: 0.96}, levels=(5, 3, 3)))
    trust = read_run_folder(write_run(tmp_path / "new", result)).trust
    assert trust == TrustFacts(
        "clusters", 0.5, 0.96, ((3, 0.96), (10, 0.01)), (0.98, 0.97, 0.95), (3, 5)
    )
    assert read_run_folder(write_run(tmp_path / "old", result_of())).trust is None
    silent = result_of(structure=None, confidence=None, levels=[])
    rival = write_run(tmp_path / "rival", silent)
    assert read_run_folder(rival).trust is None
    half = result_of(structure={"verdict": "none", "gain": None})
    part = read_run_folder(write_run(tmp_path / "half", half)).trust
    assert part == TrustFacts("none")
    # Rounding may push a share over 1; what is said of other clusters is left out.
    odd = trust_of(k=1 + 1e-12, clusters=(0.5, 0.5))
    part = read_run_folder(write_run(tmp_path / "odd", result_of(**odd))).trust
    assert part is not None
    assert (part.confidence, part.stabilities) == (1.0, ())


@pytest.mark.parametrize(
    "rubbish",
    [
        {"structure": "clusters"},
        {"structure": {"verdict": "splendid", "gain": 1.0}},
        {"structure": {"verdict": "none", "gain": "much"}},
        {"confidence": [0.9]},
        {"confidence": {"k": 7.0}},
        {"confidence": {"k": "high"}},
        {"confidence": {"k": 0.9, "by_k": {"three": 0.9}}},
        {"confidence": {"k": 0.9, "by_k": [3]}},
        {"confidence": {"k": 0.9, "clusters": [float("nan")]}},
        {"confidence": {"k": 0.9, "clusters": 3}},
        {"levels": 3},
        {"levels": ["all"]},
    ],
)
def test_rubbish_about_trust_ends_in_one_line(tmp_path, rubbish):
    folder = write_run(tmp_path, result_of(**{**trust_of(), **rubbish}))
    with pytest.raises(InputError, match=r"does not hold a result .*run it again"):
        read_run_folder(folder)


def test_every_kind_of_folder_is_recognised(tmp_path):
    kinds = {name: read_run_folder(f).kind for name, f in scenarios(tmp_path).items()}

    assert {name for name, kind in kinds.items() if kind == MEMBER} == {"site"}
    assert {name for name, kind in kinds.items() if kind == COORDINATOR} == {
        "coordinator",
        "failed",
        "waiting",
    }


def test_a_run_without_result_is_known_by_its_trace(tmp_path):
    folder = write_run(tmp_path / "run", None, events_of(end=False))
    # A crash cut the last line off.
    with open(folder / "trace.jsonl", "a") as lines:
        lines.write('{"event":"prep')
    run = read_run_folder(folder)

    assert not run.done
    assert (run.n_clusters, run.rounds, len(run.sites)) == (3, 5, 4)
    assert run.rows == 200
    assert run.sites[0].messages == 3  # hello and rounds 2 and 4
    assert run.centers is None


def test_an_only_just_opened_trace_is_a_run_to_come(tmp_path):
    (tmp_path / "trace.jsonl").write_text("")
    assert state_of(read_so_far(tmp_path)).word == "waiting"
    (tmp_path / "trace.jsonl").write_text('{"event":"ru')
    assert state_of(read_so_far(tmp_path)).word == "waiting"
    assert state_of(read_so_far(tmp_path / "nothing" / "here")).word == "waiting"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("result.json", "{"),
        ("result.json", "[]"),
        ("result.json", '{"n_clusters": 3}'),
        ("result.json", '{"n_clusters": "many", "columns": []}'),
        ("trace.jsonl", '{"event":"end"}\n{"event":"run"}\n'),
        ("trace.jsonl", '{"event":"run","schema":99}\n'),
        ("site.json", "null"),
    ],
)
def test_damaged_files_end_in_one_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    with pytest.raises(InputError) as said:
        read_run_folder(tmp_path)
    assert "\n" not in str(said.value)


def test_no_run_says_what_to_give(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="afcl run --out"):
            read_run_folder(folder)


def test_other_indices_judge_where_the_silhouette_is_not_known(tmp_path):
    path = [{"k": k, "scores": {"silhouette": None, "db": 1.0}} for k in (2, 3)]
    result = result_of(scores={"silhouette": None, "db": 1.0}, path=path)
    assert read_run_folder(write_run(tmp_path, result)).criterion == "db"
    result["parameters"]["criterion"] = "bic"
    result["scores"]["bic"] = 4.0
    assert read_run_folder(write_run(tmp_path, result)).criterion == "bic"


def test_the_method_is_named_with_its_preset(tmp_path):
    result = result_of()
    result["parameters"]["preset"] = "paper"
    assert read_run_folder(write_run(tmp_path, result)).method == "afcl-paper"


# ------------------------------------------------------------------ the trace


def test_who_did_what_when():
    events = events_of()
    # Site 3 answers odd rounds, two versions late; site 0 the even ones.
    history = history_of(events)

    table = attendance(history)
    assert table[3][1] == Attendance.LATE
    assert table[0][2] == Attendance.ANSWERED
    assert table[0][1] == Attendance.NOT_ASKED
    assert history.n_rounds == 6
    assert dict(history.staleness) == {0: 7, 2: 3}
    assert (history.sites[3].late, history.sites[3].worst) == (3, 2)
    assert history.bytes_up[0] == 4000
    assert history.bytes_down[1] == 1000
    assert history.seconds == len(events) - 1
    assert history.end is not None
    assert history.end["reason"] == "done"


def test_trouble_outweighs_an_answer():
    events = events_of(rounds=1)
    extra = {"tick": 1, "client": 1, "contact": 1, "reason": "NaN"}
    history = history_of(
        [
            *events,
            {"event": "rejected", **extra},
            {"event": "failure", **extra, "reason": "time out"},
            {"event": "left", "tick": 1, "client": 1},
        ]
    )

    assert attendance(history)[1][1] == Attendance.TROUBLE
    assert history.sites[1].rejected == ["NaN"]
    assert history.sites[1].failures == ["time out"]
    assert history.sites[1].gone


def test_live_events_name_sites_and_settle_the_scale():
    agreed = {"event": "agreed", "tick": 0, "columns": ["a"], "rows": 9}
    history = history_of(
        [
            {
                "event": "ranges",
                "tick": 0,
                "client": 2,
                "rows": 9,
                "bytes": 1,
                "name": "n",
            },
            {**agreed, "low": [1.0], "span": [2.0]},
            {"event": "refused", "tick": 0, "name": "m", "reason": "other columns"},
            {"event": "note", "tick": 0, "text": "look"},
            {"event": "resumed", "tick": 0},
            {"event": "something new", "tick": 0},
        ]
    )

    assert history.sites[2].name == "n"
    assert history.low is not None
    assert history.span is not None
    assert (history.columns, history.low[0], history.span[0]) == (("a",), 1.0, 2.0)
    assert history.refused == {"m": "other columns"}
    assert (history.notes, history.resumed) == (["look"], 1)


def test_seeds_that_are_no_table_are_left_out():
    history = history_of([prepare(0, 2, [[0.0, 1.0]]), prepare(1, 2, [1.0, 2.0])])
    assert [r.seeds is None for r in history.steps] == [False, True]


def test_folders_are_strict_json(tmp_path):
    for folder in scenarios(tmp_path).values():
        for path in folder.glob("*.json"):
            assert isinstance(json.loads(path.read_text()), dict)
    assert to_lines(events_of()).count("\n") == len(events_of())
