# SPDX-License-Identifier: Apache-2.0
"""One run from its names to its record."""

from __future__ import annotations

import json
import signal
import time
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from afcl import AFCL, make_method
from afcl.metrics import adjusted_rand
from afcl.runtime.simulate import simulate
from afcl.trace import check
from afcl_bench.datasets import fingerprint, load
from afcl_bench.execute import dataset, execute, facts_of, work
from afcl_bench.settings import owners, scaled, schedule
from afcl_bench.spec import Facts, Run
from afcl_bench.store import CAPPED, DONE, FAILED, Store


@pytest.fixture(autouse=True)
def fresh():
    """No data set of another test's folder."""
    dataset.cache_clear()


def write(folder, name, X, y):
    lines = [",".join(map(str, [*row, c])) for row, c in zip(X, y, strict=True)]
    header = ",".join([*(f"x{i}" for i in range(len(X[0]))), "class"])
    (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")


def run(**changes) -> Run:
    base = {
        "dataset": "SD1",
        "method": "afcl",
        "options": (),
        "split": "kmeans:5",
        "participation": "random",
        "seed": 0,
    }
    return Run(**{**base, **changes})


@pytest.fixture(scope="module")
def sd1():
    return execute(run(seed=1), keep_trace=True)


def test_labels_are_those_of_the_estimator_in_the_order_of_the_data(sd1):
    data = load("SD1", seed=1)
    owner = owners("kmeans:5", data, 1)
    model = AFCL(participation="random", random_state=1).fit(data.X, clients=owner)
    assert sd1.labels is not None
    assert np.array_equal(sd1.labels, model.labels_)
    assert sd1.facts["k"] == model.n_clusters_
    assert sd1.facts["rounds"] == model.n_rounds_
    assert sd1.facts["bytes"] == model.upload_bytes_
    assert sd1.facts["scores"] == model.scores_
    box = scaled(np.vstack([data.X, model.cluster_centers_]))[-4:]
    np.testing.assert_allclose(sd1.arrays["centers"], box, atol=1e-12)
    assert sd1.arrays["path_k"].tolist() == model.path_.k.tolist()
    for name, values in model.path_.scores.items():
        np.testing.assert_array_equal(sd1.arrays[f"path_{name}"], values)


def test_every_participation_and_split_is_the_estimators(seed):
    """Iris, shuffled among its owners: nothing depends on who owns which row."""
    asked = run(dataset="iris", split="dirichlet:4:1", participation="p:0.5", seed=seed)
    data = load("iris")
    owner = owners(asked.split, data, seed)
    habits = schedule("p:0.5", owner.max() + 1, seed)
    model = AFCL(participation=habits, random_state=seed).fit(data.X, clients=owner)
    found = execute(asked)
    assert found.labels is not None
    assert np.array_equal(found.labels, model.labels_)


def test_the_number_of_clusters_is_right_on_sd1(sd1):
    assert sd1.k == 4
    assert adjusted_rand(load("SD1", seed=1).y, sd1.labels) > 0.95
    assert np.bincount(sd1.labels).tolist() == sorted(np.bincount(sd1.labels))[::-1]


def test_the_record_says_everything(sd1):
    data = load("SD1", seed=1)
    assert (sd1.run, sd1.status) == (run(seed=1), DONE)
    facts = sd1.facts
    assert facts.keys() == {
        "k",
        "rounds",
        "bytes",
        "messages",
        "most_messages",
        "scores",
        "seconds",
        "cpu_seconds",
        "warnings",
        "data",
        "versions",
    }
    assert facts["data"] == {
        "n": 2300,
        "d": 2,
        "k": 4,
        "clients": 5,
        "redrawn": 0,
        "merged": 0,
        "fingerprint": fingerprint(data),
    }
    assert 5 < facts["messages"] <= 5 * facts["most_messages"]
    assert facts["most_messages"] <= 1 + 6 + 3  # a hello, `passes` sums, who holds
    assert facts["seconds"] > 0
    assert facts["cpu_seconds"] >= 0
    assert facts["warnings"] == []
    assert {"afcl", "python", "numpy"} <= facts["versions"].keys()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_bytes_and_messages_are_those_of_the_trace(sd1):
    assert sd1.trace is not None
    events = check(sd1.trace)
    arrived = [e for e in events if e["event"] in ("hello", "update")]
    assert sum(e["bytes"] for e in arrived) == sd1.facts["bytes"]
    assert len(arrived) == sd1.facts["messages"]
    assert events[-1]["event"] == "end"
    assert events[-1]["k"] == sd1.facts["k"]


def test_a_trace_is_kept_when_it_is_asked_for():
    assert execute(run(dataset="iris", split="iid:2")).trace is None


def test_options_of_the_run_and_of_the_method_are_told_apart():
    told = run(
        dataset="iris",
        method="fkm",
        options=(("max_rounds", 2), ("n_clusters", 3)),
        split="iid:3",
        participation="always",
    )
    found = execute(told, keep_trace=True)
    assert found.k == 3
    assert found.facts["rounds"] <= 2
    assert found.trace is not None
    assert found.trace[0]["parameters"] == {"n_clusters": 3}


def test_stopping_earlier_is_the_beginning_of_the_longer_run():
    """What the cost of a method rests on."""

    def stopped(rounds: int) -> list[dict[str, Any]]:
        asked = run(dataset="iris", options=(("max_rounds", rounds),), seed=4)
        trace = execute(asked, keep_trace=True).trace
        assert trace is not None
        return [e for e in trace if e["event"] == "prepare"]

    short, long = stopped(1), stopped(100)
    assert len(short) <= len(long)
    assert short == long[: len(short)]


def test_a_rivals_labels_come_in_order_too(seed):
    asked = run(
        dataset="iris",
        method="k-fed",
        options=(("n_clusters", 3),),
        split="iid:3",
        participation="always",
        seed=seed,
    )
    owner = owners("iid:3", load("iris"), seed)
    model = make_method("k-fed", n_clusters=3, random_state=seed)
    expected = model.fit(load("iris").X, clients=owner).labels_
    found = execute(asked)
    assert found.labels is not None
    assert np.array_equal(found.labels, expected)


def test_methods_without_centres_have_none_stored():
    asked = run(
        dataset="iris", method="fed-sc", options=(("n_clusters", 3),), split="iid:2"
    )
    found = execute(asked)
    assert found.status == DONE
    assert found.labels is not None
    assert found.labels.shape == (150,)
    assert found.k == np.unique(found.labels).size
    assert "centers" not in found.arrays


def test_warnings_are_kept_once_and_not_shown(monkeypatch):
    def warned(*arguments):
        for text in ("slow", "odd", "slow"):
            warnings.warn(text, UserWarning, stacklevel=1)
        return simulate(*arguments)

    monkeypatch.setattr("afcl_bench.execute.simulate", warned)
    found = execute(run(dataset="iris", split="iid:2"))
    assert found.facts["warnings"] == ["odd", "slow"]


def test_the_same_run_is_the_same_record_but_for_time():
    def timeless(asked: Run) -> tuple[Any, ...]:
        found = execute(asked, keep_trace=True)
        facts = {n: v for n, v in found.facts.items() if "seconds" not in n}
        assert found.labels is not None
        return found.labels.tolist(), facts, found.trace

    asked = run(dataset="iris", participation="p:0.3", seed=5)
    assert timeless(asked) == timeless(asked)
    assert timeless(asked) != timeless(run(dataset="iris", seed=6))


def test_files_are_read_from_the_folder(tmp_path):
    X = np.repeat([[0, 0], [9, 9], [0, 9]], 10, axis=0) + np.arange(30)[:, None] / 50
    write(tmp_path, "own", X.tolist(), ["a"] * 20 + ["b"] * 10)
    assert facts_of("own", 0, tmp_path) == Facts(30, 2)
    found = execute(run(dataset="own", split="iid:2"), tmp_path)
    assert found.facts["data"]["n"] == 30
    assert found.k == 3
    assert facts_of("SD1", 0, None) == Facts(2300, 4)


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"method": "afcll"}, "unknown method 'afcll'"),
        ({"dataset": "nope"}, "unknown dataset 'nope'"),
        ({"split": "kmeans"}, "cannot read 'kmeans'"),
        ({"participation": "never"}, "unknown participation 'never'"),
        ({"options": (("speed", 1),)}, "afcl has no option 'speed'"),
        ({"method": "k-fed"}, "n_clusters"),
        ({"method": "k-fed", "options": (("n_clusters", 0),)}, "n_clusters"),
    ],
)
def test_a_failure_is_stored_with_its_reason(changes, reason, tmp_path):
    asked = run(**{"dataset": "iris", "split": "iid:2", **changes})
    work(tmp_path, asked, None, False, 900.0)
    record = Store(tmp_path).read(asked)
    assert record is not None
    assert (record.status, record.k, record.labels) == (FAILED, None, None)
    assert reason in record.facts["reason"]
    assert "numpy" in record.facts["versions"]


def test_an_unforeseen_failure_is_stored_with_its_kind(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("afcl_bench.execute.simulate", broken)
    work(tmp_path, run(), None, False, 900.0)
    _, facts = Store(tmp_path).facts(run()) or (None, {})
    assert facts["reason"] == "ZeroDivisionError('by nothing')"


def test_an_interruption_leaves_no_record(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("afcl_bench.execute.simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path, run(), None, False, 900.0)
    assert not Store(tmp_path).has(run())
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_run_that_works_is_stored(tmp_path):
    asked = run(dataset="iris", split="iid:2")
    work(tmp_path, asked, None, True, 900.0)
    record = Store(tmp_path).read(asked)
    assert record is not None
    assert record.status == DONE
    assert record.trace


# ------------------------------------------------------------------ the cap


def busy(seconds: float) -> None:
    """Use CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_run_that_uses_up_its_time_is_stopped_in_the_middle(tmp_path, monkeypatch):
    monkeypatch.setattr("afcl_bench.execute.simulate", lambda *_: busy(30))
    handler, start = signal.getsignal(signal.SIGPROF), time.process_time()
    work(tmp_path, run(), None, False, 0.2)
    assert time.process_time() - start < 10
    status, facts = Store(tmp_path).facts(run()) or ("", {})
    assert (status, facts["reason"]) == (CAPPED, "stopped after 0.2 s")
    assert facts["cap"] == 0.2
    assert "numpy" in facts["versions"]
    # Nothing strikes afterwards.
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is handler


def test_what_catches_exceptions_does_not_catch_the_cap(tmp_path, monkeypatch):
    """A method that goes on after any failure cannot go on after this one."""

    def stubborn(*_):
        for _second in range(100):
            with suppress(Exception):
                busy(1)

    monkeypatch.setattr("afcl_bench.execute.simulate", stubborn)
    work(tmp_path, run(), None, False, 0.2)
    assert (Store(tmp_path).facts(run()) or ("",))[0] == CAPPED


def test_waiting_is_not_counted(tmp_path, monkeypatch):
    """A busy machine makes runs longer, but uses up no time of theirs."""

    def waiting(*arguments):
        time.sleep(1.2)
        return simulate(*arguments)

    monkeypatch.setattr("afcl_bench.execute.simulate", waiting)
    asked = run(dataset="iris", split="iid:2")
    execute(asked)  # what is loaded and compiled once
    work(tmp_path, asked, None, False, 1.0)
    status, facts = Store(tmp_path).facts(asked) or ("", {})
    assert status == DONE
    assert facts["seconds"] > 1.2
    assert facts["cpu_seconds"] < 1.0


def test_after_a_run_or_a_failure_nothing_strikes(tmp_path):
    handler = signal.getsignal(signal.SIGPROF)
    for asked in (run(dataset="iris", split="iid:2"), run(dataset="nope")):
        work(tmp_path, asked, None, False, 900.0)
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGPROF) is handler
