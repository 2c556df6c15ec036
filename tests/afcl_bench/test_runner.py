# SPDX-License-Identifier: Apache-2.0
"""The grid: what is made, what is not made again, and what ends without an answer."""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl_bench import runner
from afcl_bench.execute import work
from afcl_bench.runner import GIVE_UP, THREADS, Counts, Task, resolve, run_grid
from afcl_bench.spec import Cell, Facts, Run, parse_spec
from afcl_bench.store import CAPPED, DONE, FAILED, Record, Store

#: AFCL finds 2 clusters in iris, where there are 3 classes: `learned` is a run of the
#: second grid, too. The last grid fails, for k-fed must be told k.
TINY = """
runs = 2
cap = 900
split = "iid:2"
participation = "always"

[[grid]]
datasets = ["iris"]
methods = ["afcl"]

[[grid]]
datasets = ["iris"]
methods = ["k-fed"]
options = { n_clusters = ["true", 2] }

[[grid]]
group = "learned"
datasets = ["iris"]
methods = ["k-fed"]
options = { n_clusters = "learned" }

[[grid]]
group = "failing"
datasets = ["iris"]
methods = ["k-fed"]
"""


def tiny(text: str = TINY, name: str = "tiny"):
    return parse_spec(name, text)


def files(root) -> dict[str, bytes]:
    found = sorted((root / "runs").rglob("*"))
    return {
        str(p.relative_to(root / "runs")): p.read_bytes() for p in found if p.is_file()
    }


def timeless(record: Record | None) -> tuple[Any, ...]:
    """Everything of a record but the seconds."""
    assert record is not None
    facts = {n: v for n, v in record.facts.items() if "seconds" not in n}
    labels = None if record.labels is None else record.labels.tolist()
    arrays = {name: array.tolist() for name, array in record.arrays.items()}
    return record.run, record.status, facts, labels, arrays, record.trace


@pytest.fixture
def inline(monkeypatch):
    """No processes: runs are made here, in turn; returns what was handed out."""
    handed: list[tuple[Run, float, bool]] = []

    def schedule(function, args, timeout):
        assert function is work
        _, run, _, trace, cap = args
        handed.append((run, cap, trace))
        assert timeout > cap
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future

    @contextmanager
    def pool(jobs):
        yield SimpleNamespace(schedule=schedule)

    monkeypatch.setattr(runner, "_pool", pool)
    return handed


def settings() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in (*THREADS, "AFCL_KERNELS")}


def run_of(cell: Cell) -> Run:
    """The run of a cell without words."""

    def unasked() -> Facts:
        raise AssertionError("no word asks for the data")

    return cell.resolve(unasked)


def make(spec, root, **options) -> Counts:
    return run_grid(spec, spec.select(), root, None, **options)


# ------------------------------------------------------------------ real processes


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A grid made by two worker processes, and how it was counted."""
    root = tmp_path_factory.mktemp("grid") / "new" / "folder"
    told: list[tuple[int, int, float | None, str]] = []
    before = settings()
    spec = tiny()
    counts = run_grid(
        spec, spec.select(), root, None, jobs=2, progress=lambda *a: told.append(a)
    )
    kept = settings() == before
    return SimpleNamespace(root=root, counts=counts, told=told, settings_kept=kept)


def test_every_run_is_made_once_and_counted_once(made):
    """Ten cells are eight runs: what is learned is a run that is there already."""
    assert made.counts == Counts(stored=0, done=6, failed=2, capped=0)
    where = "iid~2/always"
    assert set(files(made.root)) == {
        f"iris/{method}/{options}/{where}/{seed}.npz"
        for method, options in (
            ("afcl", "as-is"),
            ("k-fed", "n_clusters=3"),
            ("k-fed", "n_clusters=2"),
            ("k-fed", "as-is"),
        )
        for seed in (0, 1)
    }


def test_runs_of_worker_processes_are_those_made_here(made, tmp_path):
    """Labels, k, bytes and all: where a run is made does not matter."""
    run = Run("iris", "afcl", (), "iid:2", "always", 1)
    work(tmp_path, run, None, False, 900.0)
    here, there = Store(tmp_path).read(run), Store(made.root).read(run)
    assert timeless(here) == timeless(there)
    assert there is not None
    assert there.status == DONE


def test_the_environment_is_as_it_was(made):
    assert made.settings_kept


def test_the_spec_is_kept_beside_the_runs(made):
    assert (made.root / "specs" / "tiny.toml").read_text() == TINY


def test_progress_counts_to_the_end(made):
    assert [done for done, *_ in made.told] == list(range(1, 9))
    assert all(done <= total for done, total, *_ in made.told)
    assert made.told[-1][0] >= 8
    assert all(left is None or left >= 0 for _, _, left, _ in made.told)
    assert {what for *_, what in made.told} == set(files(made.root))


def test_the_second_call_makes_nothing(made, inline):
    before = files(made.root)
    assert make(tiny(), made.root) == Counts(stored=8)
    assert inline == []
    assert files(made.root) == before


def test_a_deleted_run_is_made_again_and_is_the_same(made):
    """By a real worker again, for what is compared is what a process gave."""
    run = Run("iris", "k-fed", (("n_clusters", 3),), "iid:2", "always", 1)
    store = Store(made.root)
    before = timeless(store.read(run))
    others = {n: b for n, b in files(made.root).items() if n != str(run.path)}
    store.forget(run)
    assert make(tiny(), made.root, jobs=1) == Counts(stored=7, done=1)
    assert timeless(store.read(run)) == before
    after = files(made.root)
    assert others == {n: b for n, b in after.items() if n != str(run.path)}


def test_a_failure_is_stored_and_made_again_when_asked_for(made, inline):
    run = Run("iris", "k-fed", (), "iid:2", "always", 0)
    status, facts = Store(made.root).facts(run) or ("", {})
    assert status == FAILED
    assert "n_clusters" in facts["reason"]
    assert make(tiny(), made.root) == Counts(stored=8)
    assert make(tiny(), made.root, retry=True) == Counts(stored=6, failed=2)
    assert [handed for handed, *_ in inline] == [run, replace(run, seed=1)]


def test_a_run_that_takes_too_long_is_stopped_and_the_rest_given_up(tmp_path):
    slow = tiny(
        'runs = 4\ncap = 1\n[[grid]]\ndatasets = ["SD1"]\n'
        'methods = ["any-k:ffcm-avg2"]\n'
    )
    counts = run_grid(slow, slow.select(), tmp_path, None, jobs=1)
    assert counts == Counts(capped=4)
    ends = [Store(tmp_path).facts(run_of(cell)) for cell in slow.cells]
    assert [end and end[0] for end in ends] == [CAPPED] * 4
    reasons = [end[1]["reason"] for end in ends if end is not None]
    assert (
        reasons
        == ["stopped after 1 s"] * 2
        + ["not started: 2 runs of its kind met the cap and none ended"] * 2
    )
    assert all(end[1]["cap"] == 1.0 for end in ends if end is not None)
    assert all("numpy" in end[1]["versions"] for end in ends if end is not None)


# ------------------------------------------------------------------ k from another run


def answered(run: Run, k: int, **facts) -> Record:
    return Record(run, DONE, {"k": k, "seconds": 1.0, **facts}, np.zeros(3, dtype=int))


def test_the_k_of_another_run_is_used(tmp_path):
    (cell,) = tiny(
        'runs = 1\n[[grid]]\ndatasets = ["iris"]\nmethods = ["k-fed"]\n'
        'options = { n_clusters = "learned" }\n'
    ).cells
    store = Store(tmp_path)
    assert cell.learns is not None
    assert resolve(cell, store, None) is None
    store.write(Record(cell.learns, CAPPED, {"reason": "slow"}))
    assert resolve(cell, store, None) is None
    store.write(answered(cell.learns, 7))
    run = resolve(cell, store, None)
    assert run is not None
    assert run.options == (("n_clusters", 7),)


def test_the_learner_is_run_though_no_cell_asks_for_it(tmp_path, inline):
    spec = tiny(
        'runs = 1\ncap = 9\nsplit = "iid:2"\n[[grid]]\ndatasets = ["iris"]\n'
        'methods = ["k-fed"]\noptions = { n_clusters = "learned" }\n'
    )
    assert make(spec, tmp_path) == Counts(done=2)
    assert [(run.method, run.options) for run, *_ in inline] == [
        ("afcl", ()),
        ("k-fed", (("n_clusters", 2),)),
    ]
    assert make(spec, tmp_path) == Counts(stored=2)


def test_without_an_answer_there_is_nothing_to_learn(tmp_path, inline):
    spec = tiny(
        'runs = 1\nsplit = "iid:2"\nparticipation = "p:2"\n[[grid]]\n'
        'datasets = ["iris"]\nmethods = ["k-fed"]\n'
        'options = { n_clusters = "learned" }\n'
    )
    assert make(spec, tmp_path) == Counts(failed=1)
    assert len(files(tmp_path)) == 1


def test_when_as_many_are_found_as_there_are_it_is_one_run(tmp_path, inline):
    """SD1 has four clusters, and AFCL finds them: one file for both cells."""
    spec = tiny(
        'runs = 1\nsplit = "iid:2"\n[[grid]]\ndatasets = ["SD1"]\nmethods = ["k-fed"]\n'
        'options = { n_clusters = ["true", "learned"] }\n'
    )
    assert make(spec, tmp_path) == Counts(done=2)
    assert set(files(tmp_path)) == {
        "SD1/afcl/as-is/iid~2/random/0.npz",
        "SD1/k-fed/n_clusters=4/iid~2/random/0.npz",
    }


def test_one_call_makes_a_run_once_even_when_it_fails(tmp_path, inline):
    """What failed as a run of its own is not tried again as one that learns."""
    spec = tiny(
        'runs = 1\nsplit = "iid:2"\n[[grid]]\ndatasets = ["iris"]\n'
        'methods = ["k-fed"]\noptions = { n_clusters = [2, "learned"], speed = 1 }\n'
    )
    assert make(spec, tmp_path) == Counts(done=1, failed=1)
    inline.clear()
    assert make(spec, tmp_path, retry=True) == Counts(stored=1, failed=1)
    assert len(inline) == 1


# ------------------------------------------------------------------ caps and traces

ONE = 'runs = 1\nsplit = "iid:2"\n[[grid]]\ndatasets = ["iris"]\nmethods = ["afcl"]\n'


def test_a_run_that_was_stored_without_its_trace_is_made_again(tmp_path, inline):
    plain, traced = tiny(ONE), tiny("trace = true\n" + ONE)
    assert make(plain, tmp_path) == Counts(done=1)
    run = run_of(traced.cells[0])
    before = Store(tmp_path).read(run)
    assert before is not None
    assert before.trace is None
    assert make(traced, tmp_path) == Counts(done=1)
    after = Store(tmp_path).read(run)
    assert after is not None
    assert after.trace
    assert timeless(replace(after, trace=None)) == timeless(before)
    assert make(traced, tmp_path) == Counts(stored=1)
    assert make(plain, tmp_path) == Counts(stored=1)
    kept = Store(tmp_path).read(run)
    assert kept is not None
    assert kept.trace == after.trace


@pytest.mark.parametrize("first", [True, False])
def test_a_run_of_two_cells_gets_the_longer_cap_and_the_trace(tmp_path, inline, first):
    text = ONE + ("cap = 5\ntrace = true\n" if first else "cap = 7\ngroup = 'b'\n")
    text += '[[grid]]\ndatasets = ["iris"]\nmethods = ["afcl"]\n'
    text += "cap = 7\ngroup = 'b'\n" if first else "cap = 5\ntrace = true\n"
    assert make(tiny(text), tmp_path) == Counts(done=1)
    ((_, cap, trace),) = inline
    assert (cap, trace) == (7.0, True)


def test_a_learner_keeps_the_trace_its_own_cell_asks_for(tmp_path, inline):
    text = ONE + "trace = true\n"
    text += '[[grid]]\ndatasets = ["iris"]\nmethods = ["k-fed"]\n'
    text += 'options = { n_clusters = "learned" }\n'
    make(tiny(text), tmp_path)
    assert [trace for _, _, trace in inline] == [True, False]


# ------------------------------------------------------------------ hopeless kinds


def kind(seed: int, options=()) -> Run:
    return Run("iris", "afcl", options, "iid:2", "always", seed)


def test_two_that_met_the_cap_and_none_that_ended_are_hopeless(tmp_path):
    store = Store(tmp_path)
    for seed in (0, 1):
        store.write(Record(kind(seed), CAPPED, {"reason": "slow"}))
    assert GIVE_UP == 2
    assert runner._Hopeless(store).is_so(kind(5))
    assert not runner._Hopeless(store).is_so(kind(5, (("n_seeds", 3),)))
    store.write(Record(kind(2), FAILED, {"reason": "broken"}))
    assert runner._Hopeless(store).is_so(kind(5))
    store.write(answered(kind(3), 2))
    assert not runner._Hopeless(store).is_so(kind(5))


def test_one_that_met_the_cap_is_not_enough(tmp_path):
    store = Store(tmp_path)
    hopeless = runner._Hopeless(store)
    for seed, status in enumerate((FAILED, CAPPED, FAILED)):
        store.write(Record(kind(seed), status, {"reason": "?"}))
        hopeless.note(kind(seed))
    assert not hopeless.is_so(kind(3))
    store.write(Record(kind(3), CAPPED, {"reason": "slow"}))
    hopeless.note(kind(3))
    assert hopeless.is_so(kind(4))


def test_runs_that_ended_before_are_looked_at_once(tmp_path, monkeypatch):
    """Reading all earlier seeds at every run would be quadratic."""
    store = Store(tmp_path)
    for seed in range(30):
        store.write(answered(kind(seed), 2))
    read: list[Run] = []
    facts = Store.facts

    def spy(self, run):
        read.append(run)
        return facts(self, run)

    monkeypatch.setattr(Store, "facts", spy)
    hopeless = runner._Hopeless(store)
    for seed in range(30):
        assert not hopeless.is_so(kind(seed))
        hopeless.note(kind(seed))
    assert len(read) <= 60


def test_given_up_when_made_again_they_have_another_chance(tmp_path, inline):
    spec = tiny(ONE.replace("runs = 1", "runs = 4"))
    store = Store(tmp_path)
    for cell in spec.cells:
        store.write(Record(run_of(cell), CAPPED, {"reason": "slow"}))
    assert make(spec, tmp_path) == Counts(stored=4)
    assert make(spec, tmp_path, retry=True) == Counts(done=4)


# ------------------------------------------------------------------ how a run ends


def noted(tmp_path, error: Exception | None) -> tuple[Counts, float]:
    future: Future[Any] = Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    counts = Counts()
    task = Task(kind(0), 5.0, False)
    return counts, runner._note(future, task, Store(tmp_path), counts)


def test_a_process_that_dies_is_a_failure(tmp_path):
    counts, seconds = noted(tmp_path, RuntimeError("killed by 9"))
    assert (counts, seconds) == (Counts(failed=1), 0.0)
    status, facts = Store(tmp_path).facts(kind(0)) or ("", {})
    assert status == FAILED
    assert facts["reason"] == "the process died: killed by 9"


def test_a_run_that_had_to_be_killed_met_its_cap(tmp_path):
    assert noted(tmp_path, TimeoutError()) == (Counts(capped=1), 5.0)
    status, facts = Store(tmp_path).facts(kind(0)) or ("", {})
    assert (status, facts["cap"]) == (CAPPED, 5.0)
    assert facts["reason"] == "did not end when its time was used up"


def test_a_run_that_ended_as_it_was_stopped_has_ended(tmp_path):
    Store(tmp_path).write(answered(kind(0), 3))
    assert noted(tmp_path, TimeoutError()) == (Counts(done=1), 1.0)
    assert (Store(tmp_path).facts(kind(0)) or ("",))[0] == DONE


def test_a_run_that_stored_its_end_is_counted_as_it_says(tmp_path):
    Store(tmp_path).write(answered(kind(0), 3, seconds=0.5))
    assert noted(tmp_path, None) == (Counts(done=1), 0.5)
    Store(tmp_path).write(Record(kind(0), FAILED, {"reason": "broken"}))
    assert noted(tmp_path, None) == (Counts(failed=1), 0.0)
    Store(tmp_path).write(Record(kind(0), CAPPED, {"reason": "slow", "cap": 5.0}))
    assert noted(tmp_path, None) == (Counts(capped=1), 5.0)


# ------------------------------------------------------------------ several machines


def test_parts_are_disjoint_and_together_all(tmp_path, inline):
    spec = tiny(TINY.replace("runs = 2", "runs = 6"))
    one, two = tmp_path / "one", tmp_path / "two"
    first = make(spec, one, part=(1, 2))
    second = make(spec, two, part=(2, 2))
    assert first.done > 0
    assert second.done > 0
    assert (first.stored, second.stored) == (0, 0)
    assert not set(files(one)) & set(files(two))
    assert len(files(one)) + len(files(two)) == 24
    # Merged by copying, nothing is left to do.
    for name, content in files(two).items():
        path = one / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    inline.clear()
    assert make(spec, one) == Counts(stored=24)
    assert inline == []


def test_what_learns_is_made_where_its_learner_is(tmp_path):
    """On another machine the k' would not be there."""
    for seed in range(20):
        learner, learned = kind(seed), replace(kind(seed), method="k-fed")
        for parts in (2, 3, 7):
            part = runner._part_of(learner, parts)
            assert 1 <= part <= parts
            assert runner._part_of(learned, parts) == part
    assert len({runner._part_of(kind(seed), 3) for seed in range(20)}) == 3


def test_a_part_does_not_touch_the_failures_of_another(tmp_path, inline):
    spec = tiny(TINY.replace("runs = 2", "runs = 6"))
    make(spec, tmp_path)
    before = files(tmp_path)
    failed = {name for name in before if "k-fed/as-is" in name}
    inline.clear()
    counts = make(spec, tmp_path, part=(1, 2), retry=True)
    again = {str(run.path) for run, *_ in inline}
    assert again < failed
    assert counts == Counts(stored=24 - len(again), failed=len(again))
    assert files(tmp_path).keys() == before.keys()


def test_a_second_benchmark_in_the_same_folder_is_refused(tmp_path, inline):
    spec = tiny(ONE)
    with (tmp_path / ".lock-1-of-1").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another benchmark is running in") as no:
            make(spec, tmp_path)
        assert "--part" in str(no.value)
        assert files(tmp_path) == {}
        assert make(spec, tmp_path, part=(1, 2)).failed == 0
    assert sum(vars(make(spec, tmp_path)).values()) == 1


def test_a_lock_that_a_dead_process_left_holds_nobody_up(tmp_path, inline):
    (tmp_path / ".lock-1-of-1").write_text("")
    assert make(tiny(ONE), tmp_path) == Counts(done=1)


def test_a_file_in_the_way_of_the_folder_is_said(tmp_path, inline):
    (tmp_path / "taken").write_text("")
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(InputError, match="a file is in its way"):
            make(tiny(ONE), path)


def test_a_damaged_record_stops_the_grid_and_is_named(tmp_path, inline):
    spec = tiny(ONE)
    make(spec, tmp_path)
    (name,) = files(tmp_path)
    (tmp_path / "runs" / name).write_bytes(b"PK")
    with pytest.raises(InputError, match="0.npz is damaged"):
        make(spec, tmp_path)


def test_data_that_are_not_there_are_said_before_anything_is_run(tmp_path, inline):
    spec = tiny(
        'runs = 1\n[[grid]]\ndatasets = ["iris"]\nmethods = ["afcl"]\n[[grid]]\n'
        'datasets = ["nope"]\nmethods = ["k-fed"]\noptions = { n_clusters = "true" }\n'
    )
    with pytest.raises(InputError, match="unknown dataset 'nope'"):
        make(spec, tmp_path)
    assert inline == []


# ------------------------------------------------------------------ threads


def test_workers_have_one_thread_and_the_environment_comes_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.delenv("AFCL_KERNELS", raising=False)
    before = settings()
    with runner._pool(1):
        assert {os.environ[name] for name in THREADS} == {"1"}
        assert os.environ["AFCL_KERNELS"] == "native"
    assert settings() == before
    with pytest.raises(KeyboardInterrupt), runner._pool(1):
        raise KeyboardInterrupt
    assert settings() == before


# ------------------------------------------------------------------ time left


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(runner, "time", found)
    return found


def tasks(*kinds: tuple[str, int]) -> list[Task]:
    return [
        Task(replace(kind(seed), method=method), 60.0, False)
        for method, count in kinds
        for seed in range(count)
    ]


def test_time_left_is_what_runs_of_the_same_kind_took(clock):
    todo = tasks(("quick", 3), ("slow", 2))
    estimate = runner._Estimate(todo, jobs=1)
    clock.now = 2.0
    # Two quick runs of 2 s are left, and two of an unknown kind, as long as these.
    assert estimate.ended(todo[0], 2.0) == pytest.approx(4 * 2.0)
    clock.now = 12.0
    # One slow run of 10 s, two quick ones.
    assert estimate.ended(todo[3], 10.0) == pytest.approx(10.0 + 2 * 2.0)
    clock.now = 18.0
    # The mean of 2 and 6 for the last quick one.
    assert estimate.ended(todo[1], 6.0) == pytest.approx(10.0 + 4.0)
    assert estimate.done == 3


def test_time_left_is_divided_among_the_workers(clock):
    todo = tasks(("quick", 5))
    estimate = runner._Estimate(todo, jobs=2)
    clock.now = 1.0
    assert estimate.ended(todo[0], 2.0) == pytest.approx(4 * 2.0 / 2)


def test_what_loading_and_storing_add_is_counted(clock):
    todo = tasks(("quick", 3))
    estimate = runner._Estimate(todo, jobs=1)
    clock.now = 6.0  # of which the run took 2
    assert estimate.ended(todo[0], 2.0) == pytest.approx(2 * 6.0)


def test_nothing_is_left_in_the_end(clock):
    todo = tasks(("quick", 1), ("slow", 1))
    estimate = runner._Estimate(todo, jobs=2)
    # A run that was given up takes no time.
    assert estimate.ended(todo[0], 0.0) == 0.0
    clock.now = 9.0
    assert estimate.ended(todo[1], 9.0) == 0.0
